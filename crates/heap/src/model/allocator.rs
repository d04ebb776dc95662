//! The live allocator of a process, proved from mappings and symbols.

use serde::{Deserialize, Serialize};
use unbloat_process::Pid;
use unbloat_untrusted::Untrusted;

/// The allocator behind the program's `malloc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllocatorKind {
    /// glibc's own.
    Glibc,
    /// jemalloc.
    Jemalloc,
    /// mimalloc.
    Mimalloc,
    /// tcmalloc, gperftools' or Google's.
    Tcmalloc,
    /// musl's.
    Musl,
    /// Something else; the report's notes say why it is unknown.
    Unknown,
}

impl AllocatorKind {
    /// Its name as its authors write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AllocatorKind::Glibc => "glibc",
            AllocatorKind::Jemalloc => "jemalloc",
            AllocatorKind::Mimalloc => "mimalloc",
            AllocatorKind::Tcmalloc => "tcmalloc",
            AllocatorKind::Musl => "musl",
            AllocatorKind::Unknown => "unknown",
        }
    }
}

/// The allocator in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocator {
    /// The kind of allocator.
    pub kind: AllocatorKind,
    /// Its version, if memory or the file reveals it.
    pub version: Option<String>,
    /// The evidence in words: `libjemalloc.so.2 mapped and first to define malloc`.
    pub evidence: String,
    /// The settings in force, as far as memory shows them (glibc and jemalloc).
    pub settings: Option<Settings>,
    /// One entry per arena (glibc and jemalloc).
    pub arenas: Vec<Arena>,
    /// One entry per size class of slabs, those that strand most first (jemalloc).
    pub bins: Vec<Bin>,
    /// A jemalloc requested by the process's environment, whether or not it serves.
    pub asked: JemallocRequest,
}

/// The jemalloc settings in a process's initial environment. False if absent or unreadable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JemallocRequest {
    /// `LD_PRELOAD` names a jemalloc.
    pub preload: bool,
    /// `MALLOC_CONF` enables the background thread.
    pub background_thread: bool,
}

impl Allocator {
    /// Returns glibc's settings, if the allocator is glibc and they were found.
    #[must_use]
    pub fn glibc_settings(&self) -> Option<&GlibcSettings> {
        match self.settings.as_ref()? {
            Settings::Glibc(settings) => Some(settings),
            Settings::Jemalloc(_) => None,
        }
    }

    /// Returns jemalloc's settings, if the allocator is jemalloc and they were found.
    #[must_use]
    pub fn jemalloc_settings(&self) -> Option<&JemallocSettings> {
        match self.settings.as_ref()? {
            Settings::Jemalloc(settings) => Some(settings),
            Settings::Glibc(_) => None,
        }
    }
}

/// An allocator's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settings {
    /// glibc's.
    Glibc(GlibcSettings),
    /// jemalloc's.
    Jemalloc(JemallocSettings),
}

/// jemalloc's settings, derived from its arenas, caches and threads. Absent if not found in this version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JemallocSettings {
    /// Number of arenas that threads are spread over (`narenas`).
    pub arena_limit: Option<u64>,
    /// Time for which freed pages stay dirty, in milliseconds: 0 not at all, −1 forever.
    pub dirty_decay_ms: Option<i64>,
    /// Time for which they then stay muzzy.
    pub muzzy_decay_ms: Option<i64>,
    /// Size of the largest block that thread caches hold (`tcache_max`).
    pub tcache_max_bytes: Option<u64>,
    /// Number of threads in this process that return freed memory of idle arenas. They do not survive a fork.
    pub background_threads: u64,
}

/// Parameters of glibc's `mp_` (`struct malloc_par`, malloc/malloc.c). Absent if not found in this version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlibcSettings {
    /// `arena_max` if it was set (`MALLOC_ARENA_MAX`, tunable, `mallopt`).
    pub arena_max: Option<u64>,
    /// Maximum number of arenas: `arena_max` or 8 × cores.
    pub arena_limit: Option<u64>,
    /// Size above which `free` returns the top.
    pub trim_threshold_bytes: Option<u64>,
    /// Smallest size of a chunk that gets its own mapping.
    pub mmap_threshold_bytes: Option<u64>,
    /// The thresholds adapt to the program's frees.
    pub dynamic_thresholds: Option<bool>,
    /// Number of mapped chunks, and their bytes.
    pub mmapped_chunks: Option<(u64, u64)>,
}

/// One arena.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    /// Address of its `malloc_state`.
    pub address: u64,
    /// The arena is the main one, which `brk` feeds.
    pub main: bool,
    /// Number of its heaps of at most 64 MiB; 1 for a contiguous main arena.
    pub heaps: u64,
    /// `system_mem`: bytes obtained from the kernel.
    pub size_bytes: u64,
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Resident payload of chunks in use.
    pub live_bytes: u64,
    /// Resident bytes in thread caches and fastbins.
    pub cached_bytes: u64,
    /// Resident bytes that `malloc_trim(0)` would return.
    pub trimmable_bytes: u64,
    /// Resident freed bytes on pages that live blocks share.
    pub stranded_bytes: u64,
    /// Resident bytes of a non-main arena's top.
    pub top_bytes: u64,
    /// All freed bytes in bins, resident or not, counted like `rest` plus `fast` in `malloc_info`.
    pub free_bytes: u64,
    /// The threads that allocate from it.
    pub threads: Vec<ThreadCache>,
    /// Bytes of heaps that kept changing while they were read.
    pub unsettled_bytes: u64,
    /// Facts specific to an arena of extents (jemalloc).
    pub extents: Option<ArenaExtents>,
}

impl Arena {
    /// Returns the number of threads that allocate from it, if known.
    #[must_use]
    pub fn thread_count(&self) -> u64 {
        self.extents.and_then(|extents| extents.threads).unwrap_or(self.threads.len() as u64)
    }
}

/// The extents of a jemalloc arena. Bytes are those of whole extents, resident or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArenaExtents {
    /// Its index.
    pub index: u32,
    /// Extents in use: slabs and large blocks.
    pub extents: u64,
    /// The part of `extents` that is slabs.
    pub slabs: u64,
    /// Freed and not yet returned.
    pub dirty_bytes: u64,
    /// Freed and reclaimable by the kernel.
    pub muzzy_bytes: u64,
    /// Address space kept without pages.
    pub retained_bytes: u64,
    /// Resident bytes on wholly free pages inside slabs.
    pub holes_bytes: u64,
    /// Number of threads that allocate from it.
    pub threads: Option<u64>,
    /// Time for which its freed pages stay dirty, in milliseconds.
    pub dirty_decay_ms: Option<i64>,
    /// Time for which they then stay muzzy.
    pub muzzy_decay_ms: Option<i64>,
}

/// The slabs of one size class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// Size of a block.
    pub block_bytes: u64,
    /// Number of slabs.
    pub slabs: u64,
    /// Number of blocks that fit into them.
    pub blocks: u64,
    /// Number of blocks in use or in a thread cache.
    pub used_blocks: u64,
    /// Resident bytes of free blocks.
    pub stranded_bytes: u64,
    /// The part of `stranded_bytes` on wholly free pages.
    pub holes_bytes: u64,
}

/// A thread and its cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCache {
    /// The thread.
    pub tid: Pid,
    /// Its name (`comm`).
    pub name: Option<Untrusted>,
    /// Number of chunks in its tcache.
    pub cached_chunks: u64,
    /// Their bytes.
    pub cached_bytes: u64,
}
