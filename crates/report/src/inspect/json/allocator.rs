//! The live allocator: settings, arenas, thread caches.

use serde::Serialize;
use unbloat_heap::model::{
    Allocator, Arena, ArenaExtents, Bin, GlibcSettings, JemallocSettings, Settings, ThreadCache,
};
use unbloat_untrusted::Untrusted;

#[derive(Serialize)]
pub(super) struct AllocatorFound<'a> {
    name: &'a str,
    version: Option<&'a str>,
    evidence: &'a str,
    settings: Option<InForce>,
    arenas: Vec<ArenaRow<'a>>,
    bins: Vec<BinRow>,
}

impl<'a> AllocatorFound<'a> {
    pub(super) fn of(allocator: &'a Allocator) -> Self {
        AllocatorFound {
            name: allocator.kind.name(),
            version: allocator.version.as_deref(),
            evidence: &allocator.evidence,
            settings: allocator.settings.as_ref().map(InForce::of),
            arenas: allocator.arenas.iter().map(ArenaRow::of).collect(),
            bins: allocator.bins.iter().map(BinRow::of).collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum InForce {
    Glibc {
        arena_max: Option<u64>,
        arena_limit: Option<u64>,
        trim_threshold_bytes: Option<u64>,
        mmap_threshold_bytes: Option<u64>,
        dynamic_thresholds: Option<bool>,
        mmapped_chunks: Option<u64>,
        mmapped_chunks_bytes: Option<u64>,
    },
    Jemalloc {
        arena_limit: Option<u64>,
        dirty_decay_ms: Option<i64>,
        muzzy_decay_ms: Option<i64>,
        tcache_max_bytes: Option<u64>,
        background_threads: u64,
    },
}

impl InForce {
    fn of(settings: &Settings) -> Self {
        match settings {
            Settings::Glibc(settings) => InForce::of_glibc(settings),
            Settings::Jemalloc(settings) => InForce::of_jemalloc(settings),
        }
    }

    fn of_glibc(settings: &GlibcSettings) -> Self {
        InForce::Glibc {
            arena_max: settings.arena_max,
            arena_limit: settings.arena_limit,
            trim_threshold_bytes: settings.trim_threshold_bytes,
            mmap_threshold_bytes: settings.mmap_threshold_bytes,
            dynamic_thresholds: settings.dynamic_thresholds,
            mmapped_chunks: settings.mmapped_chunks.map(|(chunks, _)| chunks),
            mmapped_chunks_bytes: settings.mmapped_chunks.map(|(_, bytes)| bytes),
        }
    }

    fn of_jemalloc(settings: &JemallocSettings) -> Self {
        let JemallocSettings {
            arena_limit,
            dirty_decay_ms,
            muzzy_decay_ms,
            tcache_max_bytes,
            background_threads,
        } = *settings;
        InForce::Jemalloc {
            arena_limit,
            dirty_decay_ms,
            muzzy_decay_ms,
            tcache_max_bytes,
            background_threads,
        }
    }
}

#[derive(Serialize)]
struct ArenaRow<'a> {
    address: String,
    main: bool,
    heaps: u64,
    size_bytes: u64,
    resident_bytes: u64,
    live_bytes: u64,
    cached_bytes: u64,
    trimmable_bytes: u64,
    stranded_bytes: u64,
    top_bytes: u64,
    free_bytes: u64,
    unsettled_bytes: u64,
    threads: Vec<Thread<'a>>,
    extents: Option<Extents>,
}

impl<'a> ArenaRow<'a> {
    fn of(arena: &'a Arena) -> Self {
        ArenaRow {
            address: format!("{:#x}", arena.address),
            main: arena.main,
            heaps: arena.heaps,
            size_bytes: arena.size_bytes,
            resident_bytes: arena.resident_bytes,
            live_bytes: arena.live_bytes,
            cached_bytes: arena.cached_bytes,
            trimmable_bytes: arena.trimmable_bytes,
            stranded_bytes: arena.stranded_bytes,
            top_bytes: arena.top_bytes,
            free_bytes: arena.free_bytes,
            unsettled_bytes: arena.unsettled_bytes,
            threads: arena.threads.iter().map(Thread::of).collect(),
            extents: arena.extents.as_ref().map(Extents::of),
        }
    }
}

#[derive(Serialize)]
struct Thread<'a> {
    tid: i32,
    name: Option<&'a Untrusted>,
    cached_chunks: u64,
    cached_bytes: u64,
}

impl<'a> Thread<'a> {
    fn of(thread: &'a ThreadCache) -> Self {
        let ThreadCache { tid, name, cached_chunks, cached_bytes } = thread;
        Thread { tid: tid.0, name: name.as_ref(), cached_chunks: *cached_chunks, cached_bytes: *cached_bytes }
    }
}

/// Fields specific to arenas of jemalloc.
#[derive(Serialize)]
struct Extents {
    index: u32,
    extents: u64,
    slabs: u64,
    dirty_bytes: u64,
    muzzy_bytes: u64,
    retained_bytes: u64,
    holes_bytes: u64,
    threads: Option<u64>,
    dirty_decay_ms: Option<i64>,
    muzzy_decay_ms: Option<i64>,
}

impl Extents {
    fn of(extents: &ArenaExtents) -> Self {
        Extents {
            index: extents.index,
            extents: extents.extents,
            slabs: extents.slabs,
            dirty_bytes: extents.dirty_bytes,
            muzzy_bytes: extents.muzzy_bytes,
            retained_bytes: extents.retained_bytes,
            holes_bytes: extents.holes_bytes,
            threads: extents.threads,
            dirty_decay_ms: extents.dirty_decay_ms,
            muzzy_decay_ms: extents.muzzy_decay_ms,
        }
    }
}

/// The slabs of one size class.
#[derive(Serialize)]
struct BinRow {
    block_bytes: u64,
    slabs: u64,
    blocks: u64,
    used_blocks: u64,
    stranded_bytes: u64,
    holes_bytes: u64,
}

impl BinRow {
    fn of(bin: &Bin) -> Self {
        let Bin { block_bytes, slabs, blocks, used_blocks, stranded_bytes, holes_bytes } = *bin;
        BinRow { block_bytes, slabs, blocks, used_blocks, stranded_bytes, holes_bytes }
    }
}
