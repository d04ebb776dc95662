//! `unbloat status`: what the runtime does in the processes that were started with it.

use crate::exit::Exit;
use anyhow::{Context as _, bail};
use std::io::{self, Write as _};
use unbloat_launch::{Policy, live};
use unbloat_process::{Maps, Pid, status_page};
use unbloat_report::status::{ProcessStatus, StatusReport, text};
use unbloat_status_page::{Snapshot, Text};

/// Options of `unbloat status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A process; without it, all that may be looked at.
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let found = match args.pid.map(Pid) {
        Some(pid) => match status_page::read(pid)? {
            Some(page) => vec![(pid, page)],
            None => bail!(without_page(pid)?),
        },
        None => status_page::list().context("cannot list the processes in /proc")?,
    };
    let processes =
        found.iter().map(|(pid, page)| ProcessStatus::new(pid.0, page, problems(*pid, page))).collect();
    let report = StatusReport { schema: 1, processes };
    let out = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { text(&report) };
    write!(io::stdout(), "{out}")?;
    Ok(Exit::Done)
}

/// What of the policy that the page names is not live in the process. A process that ends meanwhile has no problems.
fn problems(pid: Pid, page: &Snapshot) -> Vec<String> {
    let mut room = [0; 256];
    // The library names a policy of its own making (`trim=adaptive`) when it was not started by `unbloat run`.
    let Ok(policy) = page.text(Text::Policy, &mut room).parse::<Policy>() else { return Vec::new() };
    let Ok(maps) = Maps::of(pid) else { return Vec::new() };
    live::missing(&policy, maps.iter().filter_map(|mapping| mapping.file()))
}

/// Why a process has no page, by what it has mapped.
fn without_page(pid: Pid) -> anyhow::Result<String> {
    let maps = Maps::of(pid)?;
    let loaded = maps.iter().filter_map(|mapping| mapping.file()).any(|file| file.ends_with("libunbloat.so"));
    Ok(if loaded {
        format!(
            "{pid} has libunbloat.so loaded but no status page: it has just forked, UNBLOAT=0 is set, or neither \
             XDG_RUNTIME_DIR nor /dev/shm can be written to. The policy works all the same"
        )
    } else {
        format!(
            "{pid} has no libunbloat.so loaded: it was not started with a policy. Start it with: unbloat run -- COMMAND"
        )
    })
}
