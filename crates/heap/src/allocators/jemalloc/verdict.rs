//! The verdict's sentences about a jemalloc, or about one that was asked for and does not serve.

use crate::model::{Action, Allocator, AllocatorKind, Finding, JemallocSettings, ProcessReport, Server};

/// `dirty_decay_ms` of a jemalloc that nobody has set (`DIRTY_DECAY_MS_DEFAULT`, `include/jemalloc/internal/arena_types.h`,
/// 5.2 to 5.3.1).
const DEFAULT_DECAY_MS: i64 = 10_000;

/// Findings about the way in which jemalloc is set up here.
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
    let arenas = settings
        .arena_limit
        .map_or_else(String::new, |limit| format!(", threads spread over up to {limit} arenas"));
    let decay = settings.dirty_decay_ms?;
    let run = vec![Action::Run { server: Server::of_title(report.command.raw()), name_policy: false }];
    if report.runtime.as_ref().is_some_and(|runtime| runtime.policy.raw().contains("allocator=jemalloc")) {
        let text =
            format!("jemalloc is set as unbloat run sets it: freed pages go back {}{arenas}.", after(decay));
        return Some(finding("jemalloc-lean", text, vec![]));
    }
    if allocator.asked.background_thread && settings.background_threads == 0 {
        let text = format!(
            "MALLOC_CONF asks for jemalloc's background thread, but this process has none: a fork leaves it behind, and \
             nothing starts it again in a worker. So freed pages go back {} only while the process allocates; an idle \
             worker keeps them. unbloat run gives them back in idle workers, too.",
            after(decay)
        );
        return Some(finding("jemalloc-background-thread", text, run));
    }
    (decay == DEFAULT_DECAY_MS && settings.background_threads == 0).then(|| {
        let text = format!(
            "jemalloc runs with its defaults: freed pages go back {}, and only while the process allocates{arenas}. unbloat \
             run sets it up for less.",
            after(decay)
        );
        finding("jemalloc-defaults", text, run.clone())
    })
}

/// A jemalloc that `LD_PRELOAD` names, where the C library's own malloc serves.
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
            "LD_PRELOAD asks for a jemalloc, but {} serves malloc: {cause}. ld.so says why on the standard error of any \
             command that is started with the same LD_PRELOAD.",
            allocator.kind.name()
        );
        finding("jemalloc-not-loaded", text, vec![])
    })
}

fn after(decay_ms: i64) -> String {
    match decay_ms {
        ..0 => "never".to_owned(),
        0 => "at once".to_owned(),
        ms => format!("within {} s", ms as f64 / 1e3),
    }
}

fn finding(code: &'static str, text: String, actions: Vec<Action>) -> Finding {
    Finding { code, text, actions, gain_bytes: None }
}
