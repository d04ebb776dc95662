//! Facts about a process in words.

use crate::style::thousands;
use unbloat_heap::Iec;
use unbloat_heap::model::{RubyHeap, Runtime, Settings};

/// glibc's settings as far as they are known, in words: `arena limit 16, trim threshold 128 KiB (moving)`.
pub(super) fn settings(settings: &Settings) -> Option<String> {
    use unbloat_heap::Iec;
    let moving = if settings.dynamic_thresholds == Some(true) { " (moving)" } else { "" };
    let arenas = match (settings.arena_max, settings.arena_limit) {
        (Some(max), _) => Some(format!("arenas limited to {max}")),
        (None, Some(limit)) => Some(format!("up to {limit} arenas")),
        (None, None) => None,
    };
    let parts: Vec<_> = [
        arenas,
        settings.trim_threshold_bytes.map(|bytes| format!("trim threshold {}{moving}", Iec(bytes))),
        settings.mmap_threshold_bytes.map(|bytes| format!("mmap threshold {}{moving}", Iec(bytes))),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

/// What compaction could do.
pub(super) fn compactable(ruby: &RubyHeap) -> String {
    let pages = ruby.compactable_pages;
    let bytes = Iec(pages * ruby.page_bytes);
    format!("compaction could empty {} page{} ({bytes})", thousands(pages), if pages == 1 { "" } else { "s" })
}

/// What the runtime of a process has done.
pub(super) fn runtime(runtime: &Runtime) -> String {
    let done =
        format!("trims: {} · resident memory returned: {}", runtime.trims, Iec(runtime.returned_bytes));
    match &runtime.problem {
        Some(problem) => format!("{done} · {problem}"),
        None => done,
    }
}
