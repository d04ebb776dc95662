//! A synthetic Puma master with two workers, for the snapshot tests of the renderers.

use std::time::Duration;
use unbloat_heap::model::{
    Allocator, AllocatorKind, Arena, Category, Census, Failure, GlibcSettings, Inspection, JemallocRequest,
    Note, NoteCode, Owner, ProcessReport, Region, RubyHeap, RubyType, Settings, Sharing, SizePool,
    ThreadCache,
};
use unbloat_heap::verdict;
use unbloat_process::{Pid, Residency};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Returns a worker with eight arenas, and much trimmable and stranded memory.
pub(crate) fn worker(pid: i32) -> ProcessReport {
    let arenas: Vec<_> = (0..8).map(|i| arena(i, pid)).collect();
    let in_arenas = |of: fn(&Arena) -> u64| arenas.iter().map(of).sum::<u64>();
    let census = census(&[
        (Category::RubyLive(RubyType::String), 9 * MIB),
        (Category::RubyLive(RubyType::Array), 3 * MIB),
        (Category::RubyLive(RubyType::Hash), 2 * MIB + 300 * KIB),
        (Category::RubyLive(RubyType::Imemo), 6 * MIB),
        (Category::RubyLive(RubyType::Object), 2 * MIB),
        (Category::RubyLive(RubyType::Data), MIB),
        (Category::RubyLive(RubyType::Class), 900 * KIB),
        (Category::RubyLive(RubyType::Symbol), 100 * KIB),
        (Category::RubyFree, 12 * MIB),
        (Category::RubyPageOverhead, 90 * KIB),
        (Category::MallocLive, in_arenas(|arena| arena.live_bytes)),
        (Category::MallocCached, in_arenas(|arena| arena.cached_bytes)),
        (Category::MallocTrimmable, in_arenas(|arena| arena.trimmable_bytes)),
        (Category::MallocStranded, in_arenas(|arena| arena.stranded_bytes)),
        (Category::MallocTop, 3 * MIB),
        (Category::MallocOverhead, 5 * MIB),
        (Category::MmappedChunks, 8 * MIB),
        (Category::ThreadStacks, 2 * MIB + 40 * KIB),
        (Category::LibrariesShared, 9 * MIB),
        (Category::LibrariesPrivate, 2 * MIB),
        (Category::OtherAnonymous, 512 * KIB),
    ]);
    let mut report = ProcessReport {
        pid: Pid(pid),
        parent: Some(Pid(2301)),
        command: format!("puma: cluster worker {}: 2301 [shop]", pid - 2310).into(),
        rss_bytes: census.total(),
        pss_bytes: Some(census.total() - 30 * MIB),
        uss_bytes: Some(census.total() - 41 * MIB),
        swap_bytes: Some(0),
        threads: 12,
        proportional: Some(census.clone()),
        census,
        sharing: Some(Sharing { parent: Pid(2301), shared_bytes: 32 * MIB, unshared_bytes: 25 * MIB }),
        allocator: Some(glibc(arenas)),
        ruby: Some(ruby()),
        runtime: None,
        ownership: None,
        map: None,
        verdict: vec![],
        notes: vec![],
        stopped: Duration::ZERO,
        elapsed: Duration::from_millis(64),
    };
    report.verdict = verdict::of(&report);
    report
}

/// Returns the master with two workers, and a child to which access is denied.
pub(crate) fn cluster() -> Inspection {
    let mut master = worker(2301);
    master.parent = None;
    master.sharing = None;
    master.command = "puma 6.4.2 (tcp://0.0.0.0:3000) [shop]".into();
    let census = census(&[
        (Category::RubyLive(RubyType::String), 8 * MIB),
        (Category::RubyLive(RubyType::Imemo), 6 * MIB),
        (Category::MallocLive, 40 * MIB),
        (Category::MallocTrimmable, 4 * MIB),
        (Category::LibrariesShared, 9 * MIB),
    ]);
    master.rss_bytes = census.total();
    master.pss_bytes = Some(census.total() - 33 * MIB);
    master.uss_bytes = Some(20 * MIB);
    master.proportional = Some(census.clone());
    master.census = census;
    master.verdict = verdict::of(&master);
    let mut inspection = Inspection {
        processes: vec![master, worker(2310), worker(2311)],
        failures: vec![Failure {
            pid: Pid(2340),
            command: Some("node worker.js".into()),
            note: Note {
                code: NoteCode::NotPermitted,
                text: "cannot read the memory of 2340 (node): operation not permitted. Run as root.".into(),
            },
        }],
        verdict: vec![],
    };
    inspection.verdict = verdict::of_tree(&inspection);
    inspection
}

/// Returns a region of four pages of an arena: live, mixed, trimmable, not resident.
pub(crate) fn region() -> Region {
    let mut residency = Residency::all(0x7f00_0000_0000, 0x4000);
    residency.set_resident(0x7f00_0000_3000, false);
    let mut region = Region::new(&residency, Owner::Arena(0x7f00_0000_0030));
    region.add(0x7f00_0000_0000..0x7f00_0000_1400, Category::MallocLive);
    region.add(0x7f00_0000_1410..0x7f00_0000_2000, Category::MallocStranded);
    region.add(0x7f00_0000_2000..0x7f00_0000_3000, Category::MallocTrimmable);
    region
}

fn census(parts: &[(Category, u64)]) -> Census {
    let mut census = Census::of_walked_heap();
    parts.iter().for_each(|&(category, bytes)| census.add(category, bytes));
    census
}

fn arena(i: u64, pid: i32) -> Arena {
    let cache = ThreadCache {
        tid: Pid(pid + i as i32),
        name: Some("puma srv tp 001".into()),
        cached_chunks: 101,
        cached_bytes: 54 * KIB,
    };
    Arena {
        address: if i == 0 { 0x7f12_a3d4_ac80 } else { 0x7f12_0000_0030 + i * (64 << 20) },
        main: i == 0,
        heaps: 1 + i % 2,
        size_bytes: 40 * MIB,
        resident_bytes: (33 + i) * MIB,
        live_bytes: (20 + i) * MIB,
        cached_bytes: 54 * KIB,
        trimmable_bytes: 7 * MIB,
        stranded_bytes: 5 * MIB,
        top_bytes: 400 * KIB,
        free_bytes: 14 * MIB,
        threads: vec![cache],
        unsettled_bytes: 0,
        extents: None,
    }
}

fn glibc(arenas: Vec<Arena>) -> Allocator {
    Allocator {
        kind: AllocatorKind::Glibc,
        version: Some("2.36".into()),
        evidence: "libc.so.6 mapped, no other allocator before it".into(),
        settings: Some(Settings::Glibc(GlibcSettings {
            arena_max: None,
            arena_limit: Some(16),
            trim_threshold_bytes: Some(256 * KIB),
            mmap_threshold_bytes: Some(128 * KIB),
            dynamic_thresholds: Some(true),
            mmapped_chunks: Some((3, 8 * MIB)),
        })),
        arenas,
        bins: Vec::new(),
        asked: JemallocRequest::default(),
    }
}

fn ruby() -> RubyHeap {
    RubyHeap {
        version: "3.1.2".into(),
        page_bytes: 16 * KIB,
        pools: vec![SizePool {
            slot_bytes: 40,
            pages: 2339,
            slots: 953_676,
            live_slots: 638_912,
            empty_pages: 12,
            ..SizePool::default()
        }],
        objects: vec![(RubyType::String, 235_930), (RubyType::Imemo, 157_286), (RubyType::Array, 78_643)],
        malloc_owned: Some(vec![(RubyType::String, 98 * MIB), (RubyType::Array, 4 * MIB)]),
        imemos: vec![("iseq", 51_000), ("callinfo", 40_120), ("cref", 9_000)],
        unassigned_pages: 0,
        compactable_pages: 771,
        sorted_length: Some(2350),
    }
}
