//! Writes the page of a made-up 2 GiB process with 500,000 pages, to look at the heap map where it is largest.
//!
//! usage: cargo run -p unbloat-report --example large_map -- FILE

use std::time::Duration;
use unbloat_heap::model::{
    Allocator, AllocatorKind, Arena, Category, Census, HeapMap, Inspection, Owner, ProcessReport, Region,
    RubyHeap, RubyType, SizePool,
};
use unbloat_heap::verdict;
use unbloat_process::{PAGE_SIZE, Pid, Residency};
use unbloat_report::inspect::{Html, html};

const ARENAS: u64 = 16;
const HEAPS: u64 = 2;
const HEAP_BYTES: u64 = 56 << 20;
const RUBY_BYTES: u64 = 230 << 20;

fn main() -> std::io::Result<()> {
    let Some(file) = std::env::args_os().nth(1) else {
        return Err(std::io::Error::other("usage: large_map FILE"));
    };
    let mut report = bare_report();
    let mut map = HeapMap::default();
    let mut sequence = Sequence(7);
    let arenas = (0..ARENAS).map(|i| arena(i, &mut map, &mut report.census, &mut sequence)).collect();
    for slot_bytes in [40, 80, 160, 320, 640] {
        ruby(slot_bytes, &mut map, &mut report.census, &mut sequence);
    }
    report.allocator = Some(Allocator {
        kind: AllocatorKind::Glibc,
        version: Some("2.36".into()),
        evidence: "made up".into(),
        settings: None,
        arenas,
    });
    report.rss_bytes = report.census.total();
    report.map = Some(map);
    report.verdict = verdict::of(&report);
    let inspection = Inspection { processes: vec![report], ..Inspection::default() };
    std::fs::write(file, html(&inspection, &Html { taken: "made up".into(), host: "nowhere".into() }))
}

/// A heap with runs of full pages, of pages with holes, of free pages and of pages that were given back.
fn arena(i: u64, map: &mut HeapMap, census: &mut Census, sequence: &mut Sequence) -> Arena {
    let address = 0x7f00_0000_0030 + i * (256 << 20);
    let mut arena = Arena { address, main: i == 0, heaps: HEAPS, ..Arena::default() };
    for heap in 0..HEAPS {
        let start = (address & !0xfff) + heap * (64 << 20);
        let mut residency = Residency::all(start, HEAP_BYTES);
        let mut kinds = vec![];
        while (kinds.len() as u64) < HEAP_BYTES / PAGE_SIZE {
            let kind = sequence.below(10);
            kinds.extend(std::iter::repeat_n(kind, 1 + sequence.below(60) as usize));
        }
        for (page, kind) in (0..HEAP_BYTES / PAGE_SIZE).zip(&kinds) {
            residency.set_resident(start + page * PAGE_SIZE, *kind != 0);
        }
        let mut region = Region::new(&residency, Owner::Arena(address));
        for (page, kind) in (0..HEAP_BYTES / PAGE_SIZE).zip(&kinds) {
            let at = start + page * PAGE_SIZE;
            let live = match kind {
                0 => continue,
                1 | 2 => 0,
                3..=5 => sequence.below(256) * 16,
                _ => PAGE_SIZE,
            };
            let rest = if live == 0 { Category::MallocTrimmable } else { Category::MallocStranded };
            for (from, to, category) in [(0, live, Category::MallocLive), (live, PAGE_SIZE, rest)] {
                region.add(at + from..at + to, category);
                census.add(category, to - from);
            }
            arena.resident_bytes += PAGE_SIZE;
            arena.live_bytes += live;
            let freed = if live == 0 { &mut arena.trimmable_bytes } else { &mut arena.stranded_bytes };
            *freed += PAGE_SIZE - live;
        }
        map.regions.push(region);
    }
    arena
}

fn ruby(slot_bytes: u64, map: &mut HeapMap, census: &mut Census, sequence: &mut Sequence) {
    let start = 0x7e00_0000_0000 + slot_bytes * (256 << 20);
    let len = RUBY_BYTES / 5 / PAGE_SIZE * PAGE_SIZE;
    let mut region = Region::new(&Residency::all(start, len), Owner::Ruby { slot_bytes });
    let mut at = start;
    while at + slot_bytes <= start + len {
        let live = sequence.below(400) * slot_bytes;
        let free = sequence.below(150) * slot_bytes;
        let (middle, end) = ((at + live).min(start + len), (at + live + free).min(start + len));
        region.add(at..middle, Category::RubyLive(RubyType::String));
        region.add(middle..end, Category::RubyFree);
        census.add(Category::RubyLive(RubyType::String), middle - at);
        census.add(Category::RubyFree, end - middle);
        at = end.max(at + slot_bytes);
    }
    map.regions.push(region);
}

fn bare_report() -> ProcessReport {
    let pool =
        SizePool { slot_bytes: 40, pages: 100, slots: 163_800, live_slots: 120_000, ..SizePool::default() };
    ProcessReport {
        pid: Pid(4242),
        parent: None,
        command: "puma: cluster worker 0: 4200 [shop]".into(),
        rss_bytes: 0,
        pss_bytes: None,
        uss_bytes: None,
        swap_bytes: None,
        threads: 24,
        census: Census::default(),
        proportional: None,
        sharing: None,
        allocator: None,
        ruby: Some(RubyHeap {
            version: "3.3.8".into(),
            page_bytes: 65536,
            pools: vec![pool],
            ..RubyHeap::default()
        }),
        runtime: None,
        map: None,
        verdict: vec![],
        notes: vec![],
        stopped: Duration::ZERO,
        elapsed: Duration::from_millis(400),
    }
}

/// Reproducible numbers without a dependency: the same page every time (Marsaglia's xorshift64).
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
