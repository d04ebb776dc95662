//! The verdict's sentences about a jemalloc, or about one that was requested but does not serve.

use crate::model::{
    Action, Allocator, AllocatorKind, Finding, FindingCode, JemallocSettings, ProcessReport, Server,
};
use crate::verdict::Cure;

/// The default of `dirty_decay_ms` (`DIRTY_DECAY_MS_DEFAULT`, `include/jemalloc/internal/arena_types.h`, 5.2
/// to 5.3.1).
const DEFAULT_DECAY_MS: i64 = 10_000;

/// The cure for memory that is stranded in slabs.
#[must_use]
pub fn stranded_cure(report: &ProcessReport) -> Cure {
    let text = "A restart clears it; one arena and smaller slabs, as unbloat run sets them, strand less.";
    let run = Action::Run { server: Server::of_title(report.command.raw()), name_policy: false };
    Cure { text, actions: if report.runtime.is_some() { Vec::new() } else { vec![run] } }
}

/// Findings about the configuration of jemalloc in this process.
#[must_use]
pub fn findings(report: &ProcessReport) -> Vec<Finding> {
    let Some(allocator) = &report.allocator else { return Vec::new() };
    if let Some(settings) = allocator.jemalloc_settings() {
        return set_up(report, allocator, settings).into_iter().collect();
    }
    let libc_serves = allocator.kind.descriptor().is_some_and(|descriptor| descriptor.in_libc);
    not_loaded(allocator).filter(|_| libc_serves).into_iter().collect()
}

fn set_up(report: &ProcessReport, allocator: &Allocator, settings: &JemallocSettings) -> Option<Finding> {
    let arenas = match settings.arena_limit {
        None => String::new(),
        Some(1) => ", and all threads share one arena".to_owned(),
        Some(limit) => format!(", threads spread over up to {limit} arenas"),
    };
    let decay = settings.dirty_decay_ms?;
    let run = vec![Action::Run { server: Server::of_title(report.command.raw()), name_policy: false }];
    if report.runtime.as_ref().is_some_and(|runtime| runtime.policy.raw().contains("allocator=jemalloc")) {
        let text = format!(
            "jemalloc is configured as by unbloat run: freed pages go back {}{arenas}.",
            after(decay)
        );
        return Some(finding(FindingCode::JemallocLean, text, vec![]));
    }
    if allocator.asked.background_thread && settings.background_threads == 0 {
        let text = format!(
            "MALLOC_CONF asks for jemalloc's background thread, but this process has none: a fork leaves it behind, and \
             nothing starts it again in a worker. So freed pages go back {} only while the process allocates; an idle \
             worker keeps them. unbloat run gives them back in idle workers, too.",
            after(decay)
        );
        return Some(finding(FindingCode::JemallocBackgroundThread, text, run));
    }
    if decay == DEFAULT_DECAY_MS && settings.background_threads == 0 {
        let text = format!(
            "jemalloc runs with its defaults: freed pages go back {}, and only while the process \
             allocates{arenas}. unbloat run configures it for less memory.",
            after(decay)
        );
        return Some(finding(FindingCode::JemallocDefaults, text, run));
    }
    let by = match (decay, settings.background_threads) {
        (..=0, _) => "",
        (_, 0) => ", and only while the process allocates",
        (_, _) => ", by a thread of jemalloc's own",
    };
    let text = format!("jemalloc is tuned: freed pages go back {}{by}{arenas}.", after(decay));
    Some(finding(FindingCode::JemallocTuned, text, vec![]))
}

/// A jemalloc named by `LD_PRELOAD` although the C library's own malloc serves.
fn not_loaded(allocator: &Allocator) -> Option<Finding> {
    allocator.asked.preload.then(|| {
        let cause = match allocator.kind {
            AllocatorKind::Musl => "this program is linked with musl (Alpine), and the library most likely with glibc",
            _ => {
                "the file is not there (another path, another architecture, not installed), it was built for another libc, or \
                 the program is setuid"
            }
        };
        let text = format!(
            "LD_PRELOAD asks for a jemalloc, but {} serves malloc: {cause}. ld.so reports the reason on \
             the standard error of any command started with the same LD_PRELOAD.",
            allocator.kind.name()
        );
        finding(FindingCode::JemallocNotLoaded, text, vec![])
    })
}

fn after(decay_ms: i64) -> String {
    match decay_ms {
        ..0 => "never".to_owned(),
        0 => "at once".to_owned(),
        ms => format!("within {} s", ms as f64 / 1e3),
    }
}

fn finding(code: FindingCode, text: String, actions: Vec<Action>) -> Finding {
    Finding { code, text, actions, gain_bytes: None }
}
