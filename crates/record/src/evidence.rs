//! Gathers what a process shows of the policy that it was started with.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use unbloat_contract::{Text, Variable};
use unbloat_heap::allocators::LiveAllocator;
use unbloat_heap::model::{Allocator, AllocatorKind, ProcessReport};
use unbloat_policy::{Evidence, Malloc, Policy};
use unbloat_process::environment::environment;
use unbloat_process::{LiveMemory, Maps, Pid, Pinned, Result, Stopping, look, status_page};
use unbloat_untrusted::Untrusted;

/// The evidence of a process: its code mappings, whose malloc the dynamic linker has bound, glibc's limit of arenas, and the
/// policy on its status page. Its environment is left to those who need it.
///
/// # Errors
/// The process is gone, or may not be looked at.
pub fn of(pid: Pid) -> Result<Evidence> {
    let (mapped, malloc, runtime_policy) = look(pid, Stopping::Never, seen)?;
    Ok(Evidence {
        mapped: mapped.into_iter().map(|path| OsString::from_vec(path).into()).collect(),
        malloc: malloc.and_then(|(kind, evidence, arena_max)| self::malloc(kind, evidence, arena_max)),
        runtime_policy,
        ..Evidence::default()
    })
}

/// The result of a look: the paths of code mappings, the live allocator with its evidence and its limit of arenas,
/// and the policy on the status page.
type Seen = (Vec<Vec<u8>>, Option<(AllocatorKind, String, Option<u64>)>, Option<String>);

fn seen(pinned: &Pinned) -> Result<Seen> {
    let pid = pinned.pid();
    let maps = Maps::of(pid)?;
    let page = status_page::read(pid)?;
    let mapped = mapped(&maps).into_iter().map(|path| path.into_os_string().into_vec()).collect();
    // Who may see the mappings may not always read the memory.
    let malloc = LiveMemory::of_pinned(pinned).ok().map(|memory| live_malloc(pid, &maps, &memory));
    Ok((mapped, malloc, page.map(|page| page.text(Text::Policy, &mut [0; 256]).to_owned())))
}

/// `policy lean`, and behind it what is not live and what the runtime complains of; `None` for a process without a policy.
pub(crate) fn in_words(pid: Pid, report: &ProcessReport) -> Option<String> {
    let runtime = report.runtime.as_ref();
    let started_with = || environment(pid).ok()?.remove(Variable::Policy.name()).map(Untrusted::from);
    let name = runtime.map(|runtime| runtime.policy.clone()).or_else(started_with)?;
    let mut problems = problems(pid, name.raw(), report).unwrap_or_default();
    problems.extend(runtime.and_then(|runtime| runtime.problem.as_ref().map(ToString::to_string)));
    Some(match problems.is_empty() {
        true => format!("policy {name}"),
        false => format!("policy {name} (not all live: {})", problems.join("; ")),
    })
}

/// The policy's problems in a process whose census has just been taken.
fn problems(pid: Pid, policy: &str, report: &ProcessReport) -> Option<Vec<String>> {
    let policy: Policy = policy.parse().ok()?;
    let process = Evidence {
        mapped: mapped(&Maps::of(pid).ok()?),
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
