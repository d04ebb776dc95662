//! Gathers the evidence in a process for the policy it was started with.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use unbloat_contract::{Text, Variable};
use unbloat_heap::allocators::LiveAllocator;
use unbloat_heap::model::{Allocator, AllocatorKind, ProcessReport};
use unbloat_policy::{Evidence, Malloc, Policy};
use unbloat_process::environment::{environment, in_memory};
use unbloat_process::{LiveMemory, Maps, Pid, Pinned, Result, Stopping, look, status_page};
use unbloat_untrusted::Untrusted;

/// Returns the evidence in a process: its code mappings, the malloc bound by the dynamic linker, glibc's
/// limit of arenas, the policy on its status page, and its environment. `mark` is a variable that the process
/// was started with. Where it is missing, a title was written over the environment, and the variables in
/// memory count.
///
/// # Errors
/// The process is gone, or access to it is denied.
pub fn of(pid: Pid, mark: &str) -> Result<Evidence> {
    let (mapped, malloc, runtime_policy) = look(pid, Stopping::Never, seen)?;
    let environment = Some(environment(pid)?).filter(|started_with| started_with.contains_key(mark));
    let environment_in_memory = match environment {
        Some(_) => None,
        None => in_memory(pid).ok().flatten(),
    };
    Ok(Evidence {
        environment,
        environment_in_memory,
        mapped: mapped.into_iter().map(|path| OsString::from_vec(path).into()).collect(),
        malloc: malloc.and_then(|(kind, evidence, arena_max)| self::malloc(kind, evidence, arena_max)),
        runtime_policy,
    })
}

/// The result of a look: the paths of code mappings, the live allocator with its evidence and its limit of
/// arenas, and the policy on the status page.
type Seen = (Vec<Vec<u8>>, Option<(AllocatorKind, String, Option<u64>)>, Option<String>);

fn seen(pinned: &Pinned) -> Result<Seen> {
    let pid = pinned.pid();
    let maps = Maps::of(pid)?;
    let page = status_page::read(pid)?;
    let mapped = mapped(&maps).into_iter().map(|path| path.into_os_string().into_vec()).collect();
    // Permission to see the mappings does not always include reading the memory.
    let malloc = LiveMemory::of_pinned(pinned).ok().map(|memory| live_malloc(pid, &maps, &memory));
    Ok((mapped, malloc, page.map(|page| page.text(Text::Policy, &mut [0; 256]).to_owned())))
}

/// Returns `policy lean`, followed by any parts that are not live and the runtime's problems; `None` for a
/// process without a policy.
pub(crate) fn in_words(pid: Pid, report: &ProcessReport) -> Option<String> {
    let (name, problems) = policy_and_problems(pid, report)?;
    Some(match problems.is_empty() {
        true => format!("policy {name}"),
        false => format!("policy {name} (not all live: {})", problems.join("; ")),
    })
}

/// Returns the policy in force, or else the one that the process was started with, and what of it is not live, in words: its
/// parts, and the runtime's own problem. `None` for a process without a policy.
pub(crate) fn policy_and_problems(pid: Pid, report: &ProcessReport) -> Option<(Untrusted, Vec<String>)> {
    let runtime = report.runtime.as_ref();
    let started_with = || environment(pid).ok()?.remove(Variable::Policy.name()).map(Untrusted::from);
    let name = runtime.map(|runtime| runtime.policy.clone()).or_else(started_with)?;
    let mut problems = problems(pid, name.raw(), report).unwrap_or_default();
    problems.extend(runtime.and_then(|runtime| runtime.problem.as_ref().map(ToString::to_string)));
    Some((name, problems))
}

/// Returns the policy's problems in a process whose census has just been taken.
fn problems(pid: Pid, policy: &str, report: &ProcessReport) -> Option<Vec<String>> {
    let policy: Policy = policy.parse().ok()?;
    let process = Evidence {
        mapped: mapped(&look(pid, Stopping::Never, |pinned| Maps::of(pinned.pid())).ok()?),
        malloc: report.allocator.as_ref().and_then(reported_malloc),
        ..Evidence::default()
    };
    Some(policy.problems(&process).iter().map(ToString::to_string).collect())
}

fn mapped(maps: &Maps) -> Vec<std::path::PathBuf> {
    let code = maps.iter().filter(|mapping| mapping.execute);
    code.filter_map(|mapping| Some(mapping.file()?.to_owned())).collect()
}

fn live_malloc(pid: Pid, maps: &Maps, memory: &LiveMemory) -> (AllocatorKind, String, Option<u64>) {
    let live = LiveAllocator::of(pid, maps, memory);
    let arena_max = live
        .glibc
        .and_then(|glibc| glibc.parameters?.read(memory).ok())
        .map(|parameters| parameters.arena_max);
    (live.allocator.kind, live.allocator.evidence, arena_max)
}

fn reported_malloc(allocator: &Allocator) -> Option<Malloc> {
    let arena_max = allocator.glibc_settings().map(|settings| settings.arena_max.unwrap_or(0));
    malloc(allocator.kind, allocator.evidence.clone(), arena_max)
}

fn malloc(kind: AllocatorKind, evidence: String, arena_max: Option<u64>) -> Option<Malloc> {
    let arena_max = arena_max.filter(|_| kind == AllocatorKind::Glibc);
    (kind != AllocatorKind::Unknown).then(|| Malloc { allocator: kind.name(), evidence, arena_max })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use unbloat_policy::Claim;
    use unbloat_test_support::{Compiler, Program, Target, c_program};

    #[test]
    fn the_environment_of_a_process_is_evidence() {
        let program = Program::build(Compiler::System, c_program("idle"), &[]);
        let target = Target::start_ready(program.command().env("MARKED", "1").env("MALLOC_ARENA_MAX", "2"));
        let claim = |name: &str, value: &str| Claim::Environment { name: name.into(), value: value.into() };
        for mark in ["MARKED", "a mark that a title was written over"] {
            let evidence = of(Pid(target.pid()), mark).unwrap();
            assert!(evidence.check(&claim("MALLOC_ARENA_MAX", "2")).is_ok(), "{evidence:?}");
            assert!(evidence.check(&claim("MALLOC_ARENA_MAX", "3")).is_err(), "{evidence:?}");
        }
        assert!(of(Pid(target.pid()), "MARKED").unwrap().check(&claim("UNSET", "1")).is_err());
    }
}
