//! The verdict's sentence on memory that glibc's arenas have stranded.

use crate::model::{Action, ProcessReport, Runtime, Server};
use crate::verdict::Cure;
use unbloat_process::Pid;

/// Number of arenas up to which arenas are not the cause of stranded memory: the two that `MALLOC_ARENA_MAX=2` leaves.
const FEW_ARENAS: usize = 2;

/// The remedy for memory that is stranded in arenas.
#[must_use]
pub(super) fn stranded_cure(report: &ProcessReport) -> Cure {
    let few = report.allocator.as_ref().is_none_or(|allocator| allocator.arenas.len() <= FEW_ARENAS);
    let text = if few {
        "A restart clears it; an allocator that packs chunks of one size together strands less."
    } else {
        "A restart clears it; fewer arenas keep it from coming back, because threads then reuse each other's holes."
    };
    let server = Server::of_title(report.command.raw());
    let run = Action::Run { server, name_policy: false };
    let actions = match &report.runtime {
        Some(runtime) => vec![other_policy(runtime, report.pid, server)],
        None if few => vec![run, Action::PreloadJemalloc],
        None => vec![run, Action::LimitArenas { arenas: 2, server }],
    };
    Cure { text, actions }
}

/// Suggests the policy with its own allocator, for a process under `unbloat run` that still strands memory in glibc's
/// arenas. A process that should have had its own allocator but does not needs investigation.
fn other_policy(runtime: &Runtime, pid: Pid, server: Server) -> Action {
    match runtime.policy.raw().contains("allocator=") {
        true => Action::Status(pid),
        false => Action::Run { server, name_policy: true },
    }
}
