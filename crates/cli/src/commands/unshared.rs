//! `unbloat unshared`: what un-shared the pages that forked workers inherited.

use crate::commands::looks;
use crate::exit::Exit;
use crate::targets::Targets;
use crate::terminal;
use anyhow::bail;
use std::collections::BTreeMap;
use unbloat_process::{Error, Pid, Status};
use unbloat_report::unshared as render;

/// Options of `unbloat unshared`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing is stopped and nothing runs inside the processes. Contents are compared, and names and sizes \
                        shown.\n\nExample: unbloat unshared --name 'puma .*cluster'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
    /// Print one JSON document (docs/reference/unshared.schema.json).
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let roots = args.targets.roots()?;
    let pids = args.targets.processes(&roots)?;
    let parent =
        |&pid: &Pid| Some((pid, Status::of(pid).ok()?.parent)).filter(|(_, parent)| pids.contains(parent));
    let workers: BTreeMap<Pid, Pid> = pids.iter().filter_map(parent).collect();
    if workers.is_empty() {
        bail!(
            "none of these processes was forked by another of them. Name the master, for example with --name"
        )
    }
    let of = |pid: Pid| workers.get(&pid).copied().ok_or(Error::Gone { pid });
    let forked: Vec<Pid> = pids.iter().copied().filter(|pid| workers.contains_key(pid)).collect();
    let (found, exit) = looks::at_each(&forked, &[], |pid| unbloat_heap::unshared(pid, of(pid)?));
    let text = |look: &_| render::text(look, &terminal::style());
    looks::print(&found, &roots, args.json.then_some(render::json), text)?;
    Ok(exit)
}
