//! `unbloat code`: the memory of loaded code in running Rubies, by gem and file.

use crate::commands::looks;
use crate::exit::Exit;
use crate::targets::Targets;
use crate::terminal;
use unbloat_process::{Pid, Status};
use unbloat_report::code as render;

/// Options of `unbloat code`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing is stopped and nothing runs inside the processes. For a forked worker, the report also shows the \
                        code that it still shares with its master.\n\nExample: unbloat code --name puma"
)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
    /// Print one JSON document (docs/reference/code.schema.json).
    #[arg(long)]
    json: bool,
    /// Show every gem and file, not only the largest.
    #[arg(long)]
    all: bool,
    /// Stop each process while it is read, so that all figures are of one moment, and report the time
    #[arg(long)]
    stop: bool,
}

/// Gems that are shown without `--all`.
const ROWS: usize = 30;

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let roots = args.targets.roots()?;
    let pids = args.targets.processes(&roots)?;
    let master = |pid: Pid| Some(Status::of(pid).ok()?.parent).filter(|parent| pids.contains(parent));
    let (found, exit) = looks::at_each(&pids, &roots, |pid| unbloat_heap::code(pid, master(pid), args.stop));
    let rows = if args.all { usize::MAX } else { ROWS };
    let text = |look: &_| render::text(look, rows, &terminal::style());
    looks::print(&found, &roots, args.json.then_some(render::json), text)?;
    Ok(exit)
}
