//! `unbloat status`: the runtime's work in the processes started with it, and whether their policy is live.

use crate::exit::Exit;
use anyhow::{Context as _, bail};
use std::io::{self, Write as _};
use unbloat_contract::{Library, Snapshot, Text, Variable};
use unbloat_policy::{Allocator, Policy, Problem};
use unbloat_process::environment::environment;
use unbloat_process::{Pid, status, status_page};
use unbloat_record::evidence;
use unbloat_report::status::{ProcessStatus, StatusReport, WithoutRuntime, text};

/// Options of `unbloat status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Process to show [default: all accessible ones]
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let report = match args.pid.map(Pid) {
        Some(pid) => match status_page::read(pid)? {
            Some(page) => of_pages(&[(pid, page)]),
            None => {
                let without_runtime = Some(without_page(pid)?);
                StatusReport { schema: 1, processes: Vec::new(), without_runtime }
            }
        },
        None => of_pages(&status_page::list().context("cannot list the processes in /proc")?),
    };
    let out = if args.json { unbloat_report::json::pretty(&report) + "\n" } else { text(&report) };
    write!(io::stdout(), "{out}")?;
    Ok(Exit::Done)
}

fn of_pages(found: &[(Pid, Snapshot)]) -> StatusReport {
    let processes = found.iter().map(|(pid, page)| ProcessStatus {
        title: status::command(*pid).ok().filter(|title| !title.is_empty()),
        ..ProcessStatus::new(pid.0, page, problems(*pid, page))
    });
    StatusReport { schema: 1, processes: processes.collect(), without_runtime: None }
}

/// Returns the problems of the policy named by the page. A process that ends meanwhile has none.
fn problems(pid: Pid, page: &Snapshot) -> Vec<String> {
    let mut buffer = [0; 256];
    // Without `unbloat run` the library names a policy derived from its settings (`trim=adaptive`).
    let Ok(policy) = page.text(Text::Policy, &mut buffer).parse::<Policy>() else { return Vec::new() };
    evidence::of(pid, Variable::Policy.name())
        .map(|process| in_words(&policy.problems(&process)))
        .unwrap_or_default()
}

fn in_words(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// Reports on a process without a page: the state of a policy that needs none, or the reason why there is
/// none.
fn without_page(pid: Pid) -> anyhow::Result<WithoutRuntime> {
    let process = evidence::of(pid, Variable::Policy.name())?;
    let has = |library: Library| process.mapped.iter().any(|file| file.ends_with(library.file_name()));
    // A server that overwrites its environment with a title (Puma does) shows only its mappings.
    let told: Option<Policy> =
        environment(pid).ok().and_then(|variables| variables.get(Variable::Policy.name())?.parse().ok());
    if has(Library::Runtime) && told.as_ref().is_none_or(Policy::needs_runtime) {
        bail!(
            "{pid} has libunbloat.so loaded but no status page: it has just forked, it is not a Ruby, \
             UNBLOAT=0 is set, or neither XDG_RUNTIME_DIR nor /dev/shm is writable. The policy still works"
        );
    }
    let seen = has(Library::Jemalloc).then_some(Policy { allocator: Allocator::Jemalloc, ..Policy::OFF });
    match told.or(seen) {
        None => bail!(
            "{pid} has no libunbloat.so loaded, and nothing else shows that it was started with a policy. Start it with: unbloat \
             run -- COMMAND"
        ),
        Some(policy) if policy.needs_runtime() => bail!(
            "{pid} was started below `unbloat run --policy {policy}` and has no libunbloat.so loaded: it \
             is not a Ruby, or RUBYOPT was removed from its environment"
        ),
        Some(policy) => Ok(WithoutRuntime {
            pid: pid.0,
            policy: policy.to_string().into(),
            problems: in_words(&policy.problems(&process)).into_iter().map(Into::into).collect(),
            allocator: process.malloc.map(|malloc| malloc.evidence.into()),
        }),
    }
}
