//! Advice for each finding.

use crate::model::{Action, Compaction, RubyHeap, Runtime, Server};
use unbloat_process::Pid;

/// With at most this many arenas, arenas are not what strands memory: two are what `MALLOC_ARENA_MAX=2` leaves.
pub(super) const FEW_ARENAS: usize = 2;

/// Keeps threads in few arenas, from the next start on.
pub(super) fn fewer_arenas(title: &str) -> Vec<Action> {
    let server = Server::of_title(title);
    vec![Action::Run { server, name_policy: false }, Action::LimitArenas { arenas: 2, server }]
}

/// Another allocator, from the next start on.
pub(super) fn other_allocator(title: &str) -> Vec<Action> {
    vec![Action::Run { server: Server::of_title(title), name_policy: false }, Action::PreloadJemalloc]
}

/// For a process under `unbloat run` that strands memory in glibc's arenas all the same: the policy that brings an
/// allocator of its own. One that should have brought one, and did not, needs looking into.
pub(super) fn other_policy(runtime: &Runtime, pid: Pid, title: &str) -> Vec<Action> {
    match runtime.policy.raw().contains("allocator=") {
        true => vec![Action::Status(pid)],
        false => vec![Action::Run { server: Server::of_title(title), name_policy: true }],
    }
}

/// Packs the Ruby heap: `Process.warmup` does it from Ruby 3.3 on, `GC.compact` from 2.7 on.
pub(super) fn compact(ruby: &RubyHeap, title: &str) -> Vec<Action> {
    let has_warmup = version_at_least(&ruby.version, (3, 3));
    let call = if has_warmup { Compaction::Warmup } else { Compaction::Compact };
    vec![Action::Compact { call, server: Server::of_title(title) }]
}

fn version_at_least(version: &str, wanted: (u32, u32)) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (parts.next(), parts.next()) else { return false };
    (major, minor) >= wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(version_at_least("3.10.1", (3, 3)));
        assert!(version_at_least("4.0.0", (3, 3)));
        assert!(!version_at_least("3.2.9", (3, 3)));
        assert!(!version_at_least("unknown", (3, 3)));
    }
}
