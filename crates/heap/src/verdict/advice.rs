//! The exact lines to put where.

use crate::model::{Action, RubyHeap, Runtime};
use unbloat_process::Pid;

/// With at most this many arenas, arenas are not what strands memory: two are what `MALLOC_ARENA_MAX=2` leaves.
pub(super) const FEW_ARENAS: usize = 2;

fn action(place: &'static str, line: impl Into<String>) -> Action {
    Action { place, line: line.into() }
}

pub(super) fn trim(pid: Pid) -> Action {
    action("shell", format!("unbloat trim {pid}"))
}

pub(super) fn with_the_right(pid: Pid) -> Action {
    action("shell", format!("sudo unbloat inspect {pid}"))
}

pub(super) fn watch(pid: Pid) -> Action {
    action("shell", format!("unbloat inspect --watch 60 {pid}"))
}

pub(super) fn stop(pid: Pid) -> Action {
    action("shell", format!("unbloat inspect --stop {pid}"))
}

/// Keeps threads in few arenas, from the next start on.
pub(super) fn fewer_arenas(command: &str) -> Vec<Action> {
    let start = start_command(command);
    vec![
        action("Procfile, CMD or ExecStart", format!("unbloat run -- {start}")),
        action("or a Dockerfile", "ENV MALLOC_ARENA_MAX=2"),
        action("or a systemd unit", "Environment=MALLOC_ARENA_MAX=2"),
        action("or a shell", format!("MALLOC_ARENA_MAX=2 {start}")),
    ]
}

/// What the runtime says of itself, in full.
pub(super) fn status(pid: Pid) -> Action {
    action("shell", format!("unbloat status {pid}"))
}

/// For a process under `unbloat run` that strands memory in glibc's arenas all the same: the policy that brings an
/// allocator of its own. One that should have brought one, and did not, needs looking into.
pub(super) fn other_policy(runtime: &Runtime, pid: Pid, command: &str) -> Vec<Action> {
    if runtime.policy.contains("allocator=") {
        return vec![status(pid)];
    }
    vec![action(
        "Procfile, CMD or ExecStart",
        format!("unbloat run --policy lean -- {}", start_command(command)),
    )]
}

/// Another allocator, from the next start on.
pub(super) fn other_allocator() -> Vec<Action> {
    vec![
        action("Dockerfile", "RUN apt-get install -y libjemalloc2"),
        action("and", "ENV LD_PRELOAD=libjemalloc.so.2"),
        action("or a systemd unit", "Environment=LD_PRELOAD=libjemalloc.so.2"),
    ]
}

/// Packs the Ruby heap: `Process.warmup` does it from Ruby 3.3 on, `GC.compact` from 2.7 on.
pub(super) fn compact(ruby: &RubyHeap, command: &str) -> Vec<Action> {
    let call = if version_at_least(&ruby.version, (3, 3)) { "Process.warmup" } else { "GC.compact" };
    if command.contains("puma") {
        vec![action("config/puma.rb", format!("before_fork {{ {call} }}"))]
    } else {
        vec![action("Ruby, after the application has loaded", call)]
    }
}

/// Loads the application before forking, so that workers share it.
pub(super) fn preload() -> Vec<Action> {
    vec![action("config/puma.rb", "preload_app!")]
}

/// The line that starts such a process. A server's process title is no command line, so known servers get theirs.
fn start_command(command: &str) -> String {
    const SERVERS: [(&str, &str); 5] = [
        ("puma", "bundle exec puma"),
        ("sidekiq", "bundle exec sidekiq"),
        ("unicorn", "bundle exec unicorn"),
        ("falcon", "bundle exec falcon"),
        ("good_job", "bundle exec good_job"),
    ];
    let known = SERVERS.iter().find(|(name, _)| command.contains(name));
    known.map_or_else(|| command.to_owned(), |(_, start)| (*start).to_owned())
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
    fn a_title_becomes_the_line_that_starts_the_server() {
        assert_eq!(start_command("puma: cluster worker 0: 12 [app]"), "bundle exec puma");
        assert_eq!(start_command("ruby script.rb"), "ruby script.rb");
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(version_at_least("3.10.1", (3, 3)));
        assert!(version_at_least("4.0.0", (3, 3)));
        assert!(!version_at_least("3.2.9", (3, 3)));
        assert!(!version_at_least("unknown", (3, 3)));
    }
}
