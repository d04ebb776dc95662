//! `unbloat holds`: the holders of memory in running Rubies.

use crate::commands::looks;
use crate::exit::Exit;
use crate::targets::Targets;
use crate::terminal;
use anyhow::bail;
use std::io::Write as _;
use unbloat_heap::Wanted;
use unbloat_report::holds as render;

/// Options of `unbloat holds`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing is stopped and nothing runs inside the processes. Names and sizes are shown, and no contents.\
                        \n\nExample: unbloat holds --name puma --class Product"
)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
    /// Show the path to the largest objects of a class.
    #[arg(long, value_name = "NAME", conflicts_with = "address")]
    class: Option<String>,
    /// Show the path to the object at an address.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    address: Option<u64>,
    /// Print one JSON document (docs/reference/holds.schema.json).
    #[arg(long)]
    json: bool,
    /// Print another format: heap-dump has the lines of ObjectSpace.dump_all, for one process, without
    /// contents.
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Format>,
    /// Show more holders.
    #[arg(long)]
    all: bool,
    /// Stop each process while it is read, so that the graph is of one moment, and report the time
    #[arg(long)]
    stop: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    HeapDump,
}

/// Holders that are shown without `--all`.
const ROWS: usize = 15;

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let roots = args.targets.roots()?;
    let pids = args.targets.processes(&roots)?;
    if args.format == Some(Format::HeapDump) {
        let [pid] = roots[..] else { bail!("a heap dump needs exactly one process. Name it by its PID") };
        let look = unbloat_heap::heap_dump(pid, args.stop)?;
        let Some(dump) = look.found else {
            bail!(
                "{}",
                look.notes.last().map_or_else(|| "nothing was found".to_owned(), |note| note.text.clone())
            )
        };
        std::io::stdout().write_all(render::heap_dump(&dump).as_bytes())?;
        return Ok(Exit::Done);
    }
    let class = args.class.clone().map(Wanted::Class);
    let wanted = class.or_else(|| args.address.map(Wanted::Address));
    let (found, exit) =
        looks::at_each(&pids, &roots, |pid| unbloat_heap::holds(pid, wanted.as_ref(), args.stop));
    let rows = if args.all { usize::MAX } else { ROWS };
    let text = |look: &_| render::text(look, rows, &terminal::style());
    looks::print(&found, &roots, args.json.then_some(render::json), text)?;
    Ok(exit)
}

/// `0x7f1234560028`.
fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map_err(|_| "it is a hexadecimal number. Write for example 0x7f1234560028".into())
}
