//! The allocator that is live in a process, proved from mappings and symbols.

use serde::{Deserialize, Serialize};
use unbloat_process::Pid;
use unbloat_untrusted::Untrusted;

/// Which allocator serves the program's `malloc`.
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
    /// Something else; why it is not known stands in the report's notes.
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
    /// Which one.
    pub kind: AllocatorKind,
    /// Its version, where memory or the file tells.
    pub version: Option<String>,
    /// What proves it, in words: `libjemalloc.so.2 mapped and first to define malloc`.
    pub evidence: String,
    /// Settings in force as far as memory shows them; of glibc and jemalloc.
    pub settings: Option<Settings>,
    /// One entry an arena; of glibc and jemalloc.
    pub arenas: Vec<Arena>,
    /// One entry a size class of slabs, those that strand most first; of jemalloc.
    pub bins: Vec<Bin>,
    /// A jemalloc that the process's environment asks for, whether it serves or not.
    pub asked: JemallocRequest,
}

/// What the environment that a process was started with asks of jemalloc. False where it does not, or cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JemallocRequest {
    /// `LD_PRELOAD` names a jemalloc.
    pub preload: bool,
    /// `MALLOC_CONF` wants a background thread.
    pub background_thread: bool,
}

impl Allocator {
    /// glibc's settings, if it is glibc and they were found.
    #[must_use]
    pub fn glibc_settings(&self) -> Option<&GlibcSettings> {
        match self.settings.as_ref()? {
            Settings::Glibc(settings) => Some(settings),
            Settings::Jemalloc(_) => None,
        }
    }

    /// jemalloc's settings, if it is jemalloc and they were found.
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

/// jemalloc's settings as its arenas, caches and threads show them. Absent: not found in this version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JemallocSettings {
    /// Arenas over which threads are spread (`narenas`).
    pub arena_limit: Option<u64>,
    /// How long freed pages stay dirty, in milliseconds: 0 not at all, −1 for ever.
    pub dirty_decay_ms: Option<i64>,
    /// How long they stay muzzy after that.
    pub muzzy_decay_ms: Option<i64>,
    /// The largest block that thread caches hold (`tcache_max`).
    pub tcache_max_bytes: Option<u64>,
    /// Threads of this process that return freed memory of idle arenas. A fork leaves them behind.
    pub background_threads: u64,
}

/// Parameters of glibc's `mp_` (`struct malloc_par`, malloc/malloc.c). Absent: not found in this version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlibcSettings {
    /// `arena_max` if it was set (`MALLOC_ARENA_MAX`, tunable, `mallopt`).
    pub arena_max: Option<u64>,
    /// Arenas that the program may have: `arena_max` or 8 × cores.
    pub arena_limit: Option<u64>,
    /// The top above this many bytes is returned by `free`.
    pub trim_threshold_bytes: Option<u64>,
    /// Chunks of this size on get a mapping of their own.
    pub mmap_threshold_bytes: Option<u64>,
    /// The thresholds move with the program's frees.
    pub dynamic_thresholds: Option<bool>,
    /// Mapped chunks that exist now, and their bytes.
    pub mmapped_chunks: Option<(u64, u64)>,
}

/// One arena.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    /// Address of its `malloc_state`.
    pub address: u64,
    /// The arena that `brk` feeds.
    pub main: bool,
    /// Heaps of at most 64 MiB that it has; 1 for a contiguous main arena.
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
    /// Resident freed bytes on pages with something live.
    pub stranded_bytes: u64,
    /// Resident bytes of a non-main arena's top.
    pub top_bytes: u64,
    /// All freed bytes in bins, resident or not, as `malloc_info` counts `rest` plus `fast`.
    pub free_bytes: u64,
    /// Threads that allocate from it.
    pub threads: Vec<ThreadCache>,
    /// Bytes of heaps that kept changing while they were read.
    pub unsettled_bytes: u64,
    /// What only an arena of extents has; of jemalloc.
    pub extents: Option<ArenaExtents>,
}

impl Arena {
    /// Threads that allocate from it, where they or their number are known.
    #[must_use]
    pub fn thread_count(&self) -> u64 {
        self.extents.and_then(|extents| extents.threads).unwrap_or(self.threads.len() as u64)
    }
}

/// The extents of a jemalloc arena. Bytes are of whole extents, resident or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArenaExtents {
    /// Its index.
    pub index: u32,
    /// Extents in use: slabs and large blocks.
    pub extents: u64,
    /// Of them, slabs.
    pub slabs: u64,
    /// Freed and not yet returned.
    pub dirty_bytes: u64,
    /// Freed, and the kernel may take it.
    pub muzzy_bytes: u64,
    /// Address space that is kept without pages.
    pub retained_bytes: u64,
    /// Resident bytes on wholly free pages inside slabs.
    pub holes_bytes: u64,
    /// Threads that allocate from it.
    pub threads: Option<u64>,
    /// How long its freed pages stay dirty, in milliseconds.
    pub dirty_decay_ms: Option<i64>,
    /// How long they stay muzzy after that.
    pub muzzy_decay_ms: Option<i64>,
}

/// The slabs of one size class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Slabs.
    pub slabs: u64,
    /// Blocks that fit into them.
    pub blocks: u64,
    /// Blocks that are in use or in a thread cache.
    pub used_blocks: u64,
    /// Resident bytes of free blocks.
    pub stranded_bytes: u64,
    /// Of them, on wholly free pages.
    pub holes_bytes: u64,
}

/// A thread and its cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCache {
    /// The thread.
    pub tid: Pid,
    /// Its name (`comm`).
    pub name: Option<Untrusted>,
    /// Chunks in its tcache.
    pub cached_chunks: u64,
    /// Their bytes.
    pub cached_bytes: u64,
}
