//! The map of a synthetic process of 2 GiB.

use unbloat_heap::model::{
    Allocator, AllocatorKind, Arena, Category, HeapMap, JemallocRequest, Owner, Region, RubyType,
};
use unbloat_process::{Residency, page_size};

const ARENAS: u64 = 16;
const HEAPS: u64 = 2;
const HEAP_PAGES: u64 = 14_000;
const SLOT_SIZES: [u64; 5] = [40, 80, 160, 320, 640];
const POOL_PAGES: u64 = 10_400;

/// Number of pages on the map.
pub(in crate::browser) const PAGES: u64 = ARENAS * HEAPS * HEAP_PAGES + SLOT_SIZES.len() as u64 * POOL_PAGES;

/// Returns the map, and the allocator whose arenas are on it.
pub(super) fn map() -> (HeapMap, Allocator) {
    let mut map = HeapMap::default();
    let mut sequence = Sequence(7);
    let arenas = (0..ARENAS).map(|i| arena(i, &mut map, &mut sequence)).collect();
    for slot_bytes in SLOT_SIZES {
        map.regions.push(pool(slot_bytes, &mut sequence));
    }
    let evidence = "made up".into();
    let kind = AllocatorKind::Glibc;
    (
        map,
        Allocator {
            kind,
            version: Some("2.36".into()),
            evidence,
            settings: None,
            arenas,
            bins: Vec::new(),
            asked: JemallocRequest::default(),
        },
    )
}

/// Adds heaps with runs of full pages, pages with holes, free pages, and returned pages.
fn arena(i: u64, map: &mut HeapMap, sequence: &mut Sequence) -> Arena {
    let address = 0x7f00_0000_0030 + i * (256 << 20);
    let mut arena = Arena { address, main: i == 0, heaps: HEAPS, ..Arena::default() };
    for heap in 0..HEAPS {
        let start = (address & !0xfff) + heap * (64 << 20);
        let kinds = runs(HEAP_PAGES as usize, sequence);
        let mut residency = Residency::all(start, HEAP_PAGES * page_size());
        let address_of = |page: usize| start + page as u64 * page_size();
        kinds
            .iter()
            .enumerate()
            .for_each(|(page, kind)| residency.set_resident(address_of(page), *kind != 0));
        let mut region = Region::new(&residency, Owner::Arena(address));
        for (page, kind) in kinds.iter().enumerate().filter(|(_, kind)| **kind != 0) {
            let live = match kind {
                1 | 2 => 0,
                3..=5 => sequence.below(256) * 16,
                _ => page_size(),
            };
            fill(&mut region, &mut arena, address_of(page), live);
        }
        map.regions.push(region);
    }
    arena
}

fn fill(region: &mut Region, arena: &mut Arena, page: u64, live: u64) {
    let freed = page_size() - live;
    let free = if live == 0 { Category::MallocTrimmable } else { Category::MallocStranded };
    region.add(page..page + live, Category::MallocLive);
    region.add(page + live..page + page_size(), free);
    arena.resident_bytes += page_size();
    arena.live_bytes += live;
    if live == 0 {
        arena.trimmable_bytes += freed;
    } else {
        arena.stranded_bytes += freed;
    }
}

/// Returns kinds of pages, 0 to 9, in runs of up to 60.
fn runs(pages: usize, sequence: &mut Sequence) -> Vec<u64> {
    let mut kinds = vec![];
    while kinds.len() < pages {
        let kind = sequence.below(10);
        kinds.extend(std::iter::repeat_n(kind, 1 + sequence.below(60) as usize));
    }
    kinds.truncate(pages);
    kinds
}

fn pool(slot_bytes: u64, sequence: &mut Sequence) -> Region {
    let start = 0x7e00_0000_0000 + slot_bytes * (256 << 20);
    let end = start + POOL_PAGES * page_size();
    let mut region = Region::new(&Residency::all(start, end - start), Owner::Ruby { slot_bytes });
    let mut at = start;
    while at + slot_bytes <= end {
        let live = (at + sequence.below(400) * slot_bytes).min(end);
        let free = (live + sequence.below(150) * slot_bytes).min(end);
        region.add(at..live, Category::RubyLive(RubyType::String));
        region.add(live..free, Category::RubyFree);
        at = free.max(at + slot_bytes);
    }
    region
}

/// Reproducible numbers without a dependency, so that the page is always the same (Marsaglia's xorshift64).
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
