//! The policy that a process was started with (`unbloat run`), and what of it is not live: by what the process shows.

use unbloat_heap::model::{Allocator, AllocatorKind, ProcessReport};
use unbloat_policy::Policy;
use unbloat_policy::live::{self, Malloc, Shown};
use unbloat_process::environment::environment;
use unbloat_process::{Maps, Pid};

/// `policy lean`, and behind it what is not live and what the runtime complains of; `None` for a process without a policy.
pub(crate) fn of(pid: Pid, report: &ProcessReport) -> Option<String> {
    let runtime = report.runtime.as_ref();
    let started_with = || environment(pid).ok()?.remove("UNBLOAT_POLICY");
    let name = runtime.map(|runtime| runtime.policy.clone()).or_else(started_with)?;
    let mut problems = missing(pid, &name, report).unwrap_or_default();
    problems.extend(runtime.and_then(|runtime| runtime.problem.clone()));
    Some(match problems.is_empty() {
        true => format!("policy {name}"),
        false => format!("policy {name} (not all live: {})", problems.join("; ")),
    })
}

fn missing(pid: Pid, policy: &str, report: &ProcessReport) -> Option<Vec<String>> {
    let policy: Policy = policy.parse().ok()?;
    let maps = Maps::of(pid).ok()?;
    let mapped = maps.iter().filter_map(|mapping| Some(mapping.file()?.to_owned())).collect();
    let malloc = report.allocator.as_ref().and_then(malloc);
    Some(live::missing(&policy, &Shown { mapped, malloc }))
}

fn malloc(allocator: &Allocator) -> Option<Malloc> {
    (allocator.kind != AllocatorKind::Unknown).then(|| Malloc {
        evidence: allocator.evidence.clone(),
        arena_max: allocator.settings.map(|settings| settings.arena_max.unwrap_or(0)),
        is_glibc: allocator.kind == AllocatorKind::Glibc,
    })
}
