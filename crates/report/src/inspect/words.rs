//! Facts about a process in words.

use crate::style::thousands;
use unbloat_heap::Iec;
use unbloat_heap::model::{
    Allocator, Arena, Bin, GlibcSettings, JemallocSettings, Ownership, ProcessReport, RubyHeap, Runtime,
    Settings,
};

/// Returns the name of an arena.
pub(super) fn arena(arena: &Arena) -> String {
    match &arena.extents {
        Some(extents) => format!("arena {}", extents.index),
        None if arena.main => "main".to_owned(),
        None => format!("{:x}", arena.address),
    }
}

/// Returns the name of the parts of an arena: heaps or slabs.
pub(super) fn parts_of(arenas: &[Arena]) -> &'static str {
    if arenas.iter().any(|arena| arena.extents.is_some()) { "slabs" } else { "heaps" }
}

/// Returns the number of parts of an arena.
pub(super) fn parts(arena: &Arena) -> u64 {
    arena.extents.map_or(arena.heaps, |extents| extents.slabs)
}

/// Returns the size classes whose slabs strand enough to be worth a row, largest first.
pub(super) fn worst_bins(allocator: &Allocator) -> impl Iterator<Item = &Bin> {
    const ROWS: usize = 6;
    const WORTH_BYTES: u64 = 256 << 10;
    allocator.bins.iter().filter(|bin| bin.stranded_bytes >= WORTH_BYTES).take(ROWS)
}

/// Describes an allocator's known settings: `arena limit 16, trim threshold 128 KiB (moving)`.
pub(super) fn settings(settings: &Settings) -> Option<String> {
    let parts = match settings {
        Settings::Glibc(settings) => glibc_settings(settings),
        Settings::Jemalloc(settings) => jemalloc_settings(settings),
    };
    (!parts.is_empty()).then(|| parts.join(" · "))
}

/// The number of arenas that there can be, in words.
fn arenas_up_to(limit: u64) -> String {
    if limit == 1 { "one arena".to_owned() } else { format!("up to {limit} arenas") }
}

fn glibc_settings(settings: &GlibcSettings) -> Vec<String> {
    let moving = if settings.dynamic_thresholds == Some(true) { " (moving)" } else { "" };
    let arenas = match (settings.arena_max, settings.arena_limit) {
        (Some(max), _) => Some(format!("arenas limited to {max}")),
        (None, Some(limit)) => Some(arenas_up_to(limit)),
        (None, None) => None,
    };
    let trim = settings.trim_threshold_bytes.map(|bytes| format!("trim threshold {}{moving}", Iec(bytes)));
    let mmap = settings.mmap_threshold_bytes.map(|bytes| format!("mmap threshold {}{moving}", Iec(bytes)));
    [arenas, trim, mmap].into_iter().flatten().collect()
}

fn jemalloc_settings(settings: &JemallocSettings) -> Vec<String> {
    let decay = |name: &str, decay: Option<i64>| {
        Some(match decay? {
            ..0 => format!("{name} pages are kept for ever"),
            0 => format!("{name} pages are returned at once"),
            ms => format!("{name} pages are returned after {} s", ms as f64 / 1e3),
        })
    };
    let background = match settings.background_threads {
        0 => "no background thread".to_owned(),
        1 => "1 background thread".to_owned(),
        n => format!("{n} background threads"),
    };
    [
        settings.arena_limit.map(arenas_up_to),
        decay("dirty", settings.dirty_decay_ms),
        settings.tcache_max_bytes.map(|bytes| format!("thread caches up to blocks of {}", Iec(bytes))),
        Some(background),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Describes the gain of compaction.
pub(super) fn compactable(ruby: &RubyHeap) -> String {
    let pages = ruby.compactable_pages;
    let bytes = Iec(pages * ruby.page_bytes);
    format!("compaction could empty {} page{} ({bytes})", thousands(pages), if pages == 1 { "" } else { "s" })
}

/// Describes the work of the runtime.
pub(super) fn runtime(runtime: &Runtime) -> String {
    let done =
        format!("trims: {} · resident memory returned: {}", runtime.trims, Iec(runtime.returned_bytes));
    match &runtime.problem {
        Some(problem) => format!("{done} · {problem}"),
        None => done,
    }
}

/// Describes the garbage that waits for a collection, and the floor without it. `None` if there is none, or it is unknown.
pub(super) fn waiting(process: &ProcessReport) -> Option<String> {
    let waiting = process.ownership.as_ref()?.waiting.filter(|waiting| waiting.objects > 0)?;
    let floor = process.floor_without_waiting_bytes();
    let floor = floor.map(|bytes| format!(" · floor without it {}", Iec(bytes))).unwrap_or_default();
    Some(format!("{} of garbage waits for a collection{floor}", Iec(waiting.bytes())))
}

/// Describes loaded code by origin.
pub(super) fn code(ownership: &Ownership) -> String {
    let origins = ownership.code.iter().filter(|(_, bytes)| *bytes > 0);
    let origins = origins.map(|(origin, bytes)| format!("{} {}", origin.label(), Iec(*bytes)));
    let origins: Vec<String> = origins.collect();
    format!("code: {} ({})", Iec(ownership.code_bytes), origins.join(", "))
}

/// Describes strings by holder; `None` if the holders are unknown.
pub(super) fn strings(ownership: &Ownership) -> Option<String> {
    /// Number of holders that are named.
    const HOLDERS: usize = 4;
    let holders = ownership.string_holders.iter().take(HOLDERS);
    let holders: Vec<String> =
        holders.map(|holder| format!("{} {}", holder.what, Iec(holder.held.bytes()))).collect();
    let all = Iec(ownership.strings.bytes());
    (!holders.is_empty()).then(|| format!("strings by holder: {} of {all}", holders.join(", ")))
}
