//! `unbloat objects`: live objects of running Rubies, by class.

use crate::commands::looks;
use crate::exit::Exit;
use crate::targets::Targets;
use crate::terminal;
use unbloat_heap::Questions;
use unbloat_report::objects as render;

/// Options of `unbloat objects`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing is stopped, nothing runs inside the processes, and without --contents names and sizes are shown \
                        only.\n\nExamples:\n  unbloat objects --name puma\n  unbloat objects 1234 --class String\n  \
                        unbloat objects 1234 --duplicates --holders"
)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
    /// Show the sizes of the objects of a class, and the largest of them.
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Find strings with equal contents, and the memory that one string for each would save.
    #[arg(long)]
    duplicates: bool,
    /// Show who holds the objects: the nearest instance variable, constant or root (reads all references).
    #[arg(long)]
    holders: bool,
    /// Show the starts of texts with --class and --duplicates; they are the program's data, secrets included.
    #[arg(long)]
    contents: bool,
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
    let questions = Questions {
        class: args.class.clone(),
        duplicates: args.duplicates,
        holders: args.holders,
        contents: args.contents,
    };
    let look = |pid| unbloat_heap::objects_with(pid, &questions, args.stop);
    let (found, exit) = looks::at_each(&pids, &roots, look);
    let rows = if args.all { usize::MAX } else { ROWS };
    let text = |look: &_| render::text(look, rows, &terminal::style());
    looks::print(&found, &roots, args.json.then_some(render::json), text)?;
    Ok(exit)
}
