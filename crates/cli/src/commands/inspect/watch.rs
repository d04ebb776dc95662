//! `--watch`: the same look again and again, in place on a terminal, one below the other elsewhere.

use super::{Args, look, status};
use crate::exit::Exit;
use crate::terminal;
use crossterm::{cursor, queue, terminal as screen};
use std::io::Write as _;
use std::time::{Duration, Instant};
use unbloat_heap::model::Inspection;
use unbloat_process::Pid;
use unbloat_report::inspect::{changes, json};

/// Looks until all processes have ended (or Ctrl-C ends us: nothing is left behind).
pub(super) fn run(args: &Args, roots: &[Pid], interval: Duration) -> anyhow::Result<Exit> {
    let first = look(args, roots)?;
    if first.processes.is_empty() {
        return Ok(status(args, &first, roots));
    }
    let mut before = first.clone();
    let mut now = first.clone();
    loop {
        let due = Instant::now() + interval;
        if args.json {
            writeln!(std::io::stdout(), "{}", json(&now, false))?;
        } else {
            show(&now, &before, &first, interval)?;
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

fn show(now: &Inspection, before: &Inspection, first: &Inspection, interval: Duration) -> anyhow::Result<()> {
    let style = terminal::style();
    let text = changes(now, before, first, &style);
    let mut stdout = std::io::stdout().lock();
    let every = interval.as_secs_f64();
    let head = format!("{} · every {every} s", super::now());
    if !terminal::is_terminal() {
        writeln!(stdout, "{head}\n{text}")?;
        return Ok(());
    }
    queue!(stdout, cursor::MoveTo(0, 0), screen::Clear(screen::ClearType::All))?;
    writeln!(stdout, "unbloat inspect · {head} · Ctrl-C ends\n\n{text}")?;
    stdout.flush()?;
    Ok(())
}
