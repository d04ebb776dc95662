//! What the categories of a census are called for people, and which belong together.

use crate::style::thousands;
use unbloat_heap::Iec;
use unbloat_heap::model::{Category, RubyHeap, Runtime, Settings};

/// The group of a census table in which a category stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Ruby,
    Malloc,
    Other,
}

impl Group {
    pub(super) const ALL: [Group; 3] = [Group::Ruby, Group::Malloc, Group::Other];

    pub(super) fn of(category: Category) -> Self {
        match category {
            Category::RubyLive(_)
            | Category::RubyFree
            | Category::RubyPageOverhead
            | Category::RubyTransientHeap => Group::Ruby,
            Category::MallocLive
            | Category::MallocCached
            | Category::MallocTrimmable
            | Category::MallocStranded
            | Category::MallocTop
            | Category::MallocOverhead
            | Category::MmappedChunks
            | Category::AllocatorOther => Group::Malloc,
            _ => Group::Other,
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Group::Ruby => "Ruby",
            Group::Malloc => "malloc",
            Group::Other => "other",
        }
    }
}

/// A category's name in a table whose rows stand under their group's name.
pub(super) fn label(category: Category) -> String {
    let fixed = match category {
        Category::RubyLive(ruby_type) => return ruby_type.name().to_owned(),
        Category::RubyFree => "free slots",
        Category::RubyPageOverhead => "page overhead",
        Category::RubyTransientHeap => "transient heap",
        Category::MallocLive => "live",
        Category::MallocCached => "cached",
        Category::MallocTrimmable => "trimmable",
        Category::MallocStranded => "stranded",
        Category::MallocTop => "top",
        Category::MallocOverhead => "overhead",
        Category::MmappedChunks => "live, own mappings",
        Category::AllocatorOther => "not told apart",
        Category::ThreadStacks => "thread stacks",
        Category::JitCode => "JIT code",
        Category::LibrariesShared => "program and libraries",
        Category::LibrariesPrivate => "libraries, written to",
        Category::MappedFiles => "mapped files",
        Category::SharedMemory => "shared memory",
        Category::OtherAnonymous => "other anonymous",
        Category::Unsettled => "kept changing",
        Category::NotReadable => "not readable",
    };
    fixed.to_owned()
}

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
