//! `unbloat inspect`: shows where every resident byte of running processes is.

mod watch;

use crate::arguments::pause;
use crate::exit::{self, Exit};
use crate::targets::Targets;
use crate::terminal;
use anyhow::Context as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use unbloat_heap::model::{Inspection, NoteCode};
use unbloat_heap::{Iec, Options, Whose};
use unbloat_process::Pid;
use unbloat_report::inspect::{Detail, Html, html, json, text};

/// Options of `unbloat inspect`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing is stopped, nothing runs inside the processes, and none of their absent memory is \
                        touched, unless --stop is given.\n\nExample: unbloat inspect --name puma --html puma.html"
)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
    /// Print one JSON document (docs/reference/inspect.schema.json); with --watch one per line.
    #[arg(long)]
    json: bool,
    /// Write a self-contained page with the heap map instead of text.
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    html: Option<PathBuf>,
    /// Repeat the inspection at this interval, and show changes.
    #[arg(long, value_name = "TIME", value_parser = pause)]
    watch: Option<Duration>,
    /// Stop each process while its Ruby heap, and again while each malloc heap, is read; the output says for
    /// how long.
    #[arg(long)]
    stop: bool,
    /// Show every process in full, not only the largest of a tree.
    #[arg(long)]
    full: bool,
    /// Find out whose the live memory of every Ruby is: garbage, code by gem, strings by holder. Otherwise this is done for the
    /// largest process, if it is cheap, and not with --watch.
    #[arg(long)]
    whose: bool,
    /// Print only errors to stderr.
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let roots = args.targets.roots()?;
    if let Some(interval) = args.watch {
        return watch::run(args, &roots, interval);
    }
    let inspection = look(args, &roots)?;
    if let Some(file) = &args.html {
        write_page(file, &inspection, args.quiet)?;
    }
    let mut stdout = std::io::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", json(&inspection, true))?;
    } else if args.html.is_none() && !inspection.processes.is_empty() {
        let detail = if args.full { Detail::Every } else { Detail::Largest };
        write!(stdout, "{}", text(&inspection, detail, &terminal::style()))?;
    }
    Ok(status(args, &inspection, &roots))
}

/// Inspects the current processes once.
fn look(args: &Args, roots: &[Pid]) -> anyhow::Result<Inspection> {
    let pids = args.targets.processes(roots)?;
    let whose = match (args.whose, args.watch) {
        (true, _) => Whose::Yes,
        (false, Some(_)) => Whose::No,
        (false, None) => Whose::IfCheap,
    };
    let options = Options { stop: args.stop, map: args.html.is_some(), proportional: false, whose };
    Ok(unbloat_heap::inspect_all(&pids, &options))
}

/// Returns the exit status. A requested process that could not be inspected, or not be read, is a failure; a
/// descendant that has ended is not.
fn status(args: &Args, inspection: &Inspection, roots: &[Pid]) -> Exit {
    let failed: Vec<_> = inspection.failures.iter().filter(|failure| roots.contains(&failure.pid)).collect();
    let refused = inspection.processes.iter().filter(|process| roots.contains(&process.pid));
    let refused = refused.flat_map(|process| &process.notes).any(|note| note.code == NoteCode::NotPermitted);
    // In text the failures are listed below the processes; without text, they must be reported here.
    if args.json || args.html.is_some() || inspection.processes.is_empty() {
        for failure in &failed {
            exit::report(&anyhow::anyhow!("{}", failure.note.text));
        }
    }
    if failed.is_empty() && !refused { Exit::Done } else { Exit::Failed }
}

fn write_page(file: &Path, inspection: &Inspection, quiet: bool) -> anyhow::Result<()> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let page = html(inspection, &Html { taken: now(), host });
    std::fs::write(file, &page).with_context(|| format!("cannot write {}", file.display()))?;
    if !quiet {
        writeln!(std::io::stderr(), "{} written, {}", file.display(), Iec(page.len() as u64))?;
    }
    Ok(())
}

/// Returns the current time: `2026-11-21 10:05:38 UTC`.
fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace('T', " ").replace('Z', " UTC")
}
