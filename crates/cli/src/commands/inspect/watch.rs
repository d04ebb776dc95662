//! `--watch`: repeats the inspection, in place on a terminal, one below the other elsewhere.

use super::{Args, look, status};
use crate::exit::Exit;
use crate::in_place::InPlace;
use crate::terminal;
use std::io::Write as _;
use std::time::{Duration, Instant};
use unbloat_process::Pid;
use unbloat_report::inspect::{changes, json};
use unbloat_report::style::Style;

/// Maximum width: wider tables are hard to read.
const WIDEST: usize = 110;
/// Minimum width: that of the figures alone.
const NARROWEST: usize = 54;

/// Repeats until all processes have ended (or Ctrl-C ends us, which leaves nothing behind).
pub(super) fn run(args: &Args, roots: &[Pid], interval: Duration) -> anyhow::Result<Exit> {
    let first = look(args, roots)?;
    if first.processes.is_empty() {
        return Ok(status(args, &first, roots));
    }
    let mut before = first.clone();
    let mut now = first.clone();
    let mut place = InPlace::default();
    loop {
        let due = Instant::now() + interval;
        if args.json {
            writeln!(std::io::stdout(), "{}", json(&now, false))?;
        } else {
            show(&mut place, interval, |style| changes(&now, &before, &first, style))?;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        before = std::mem::replace(&mut now, look(args, roots)?);
        if now.processes.is_empty() {
            if !args.quiet {
                writeln!(std::io::stderr(), "all processes have ended")?;
            }
            return Ok(Exit::Done);
        }
    }
}

fn show(place: &mut InPlace, interval: Duration, text: impl Fn(&Style) -> String) -> anyhow::Result<()> {
    let head = format!("{} · every {} s", super::now(), interval.as_secs_f64());
    let mut stdout = std::io::stdout().lock();
    if !terminal::is_terminal() {
        writeln!(stdout, "{head}\n{}", text(&Style::PLAIN))?;
        return Ok(());
    }
    let (columns, _) = terminal::size();
    // One column stays free.
    let style = Style { width: (columns - 1).clamp(NARROWEST, WIDEST), color: terminal::has_color() };
    let text = format!("unbloat inspect · {head} · Ctrl-C ends\n\n{}", text(&style));
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    Ok(place.draw(&mut stdout, &lines)?)
}
