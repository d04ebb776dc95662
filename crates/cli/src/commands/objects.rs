//! `unbloat objects`: live objects of running Rubies, by class.

use crate::commands::looks;
use crate::exit::Exit;
use crate::targets::Targets;
use crate::terminal;
use unbloat_report::objects as render;

/// Options of `unbloat objects`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing is stopped, nothing runs inside the processes, and no contents are shown: names and sizes \
                        only.\n\nExample: unbloat objects --name puma"
)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
    /// Print one JSON document (docs/reference/objects.schema.json).
    #[arg(long)]
    json: bool,
    /// Show every class, not only the largest.
    #[arg(long)]
    all: bool,
    /// Stop each process while it is read, so that all figures are of one moment, and report the time
    #[arg(long)]
    stop: bool,
}

/// Classes that are shown without `--all`.
const ROWS: usize = 30;

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let roots = args.targets.roots()?;
    let pids = args.targets.processes(&roots)?;
    let (found, exit) = looks::at_each(&pids, &roots, |pid| unbloat_heap::objects(pid, args.stop));
    let rows = if args.all { usize::MAX } else { ROWS };
    let text = |look: &_| render::text(look, rows, &terminal::style());
    looks::print(&found, &roots, args.json.then_some(render::json), text)?;
    Ok(exit)
}
