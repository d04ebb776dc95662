//! The bytes of a slab by use: live, cached, free; page by page, because only whole free pages are holes.

use super::extent::Slab;
use super::layout::BITMAP_WORDS;
use std::ops::{AddAssign, Range};
use unbloat_process::{PAGE_SIZE, Residency};

/// Regions of a slab, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Regions([u64; BITMAP_WORDS]);

impl Regions {
    /// The free ones.
    #[must_use]
    pub fn free(slab: &Slab) -> Self {
        let mut regions = Regions::default();
        regions.0.iter_mut().zip(&slab.free).for_each(|(to, from)| *to = *from);
        regions
    }

    /// Adds a region; those that no slab has are left out.
    pub fn insert(&mut self, region: u64) {
        if let Some(word) = self.0.get_mut((region / 64) as usize) {
            *word |= 1 << (region % 64);
        }
    }

    /// Whether it has a region.
    #[must_use]
    pub fn contains(&self, region: u64) -> bool {
        self.0.get((region / 64) as usize).is_some_and(|word| word >> (region % 64) & 1 == 1)
    }

    /// How many of these it has.
    #[must_use]
    pub fn count(&self, regions: &Range<u64>) -> u64 {
        let mut count = 0;
        let mut at = regions.start;
        while at < regions.end {
            let next = (at / 64 * 64 + 64).min(regions.end);
            let word = self.0.get((at / 64) as usize).copied().unwrap_or(0);
            let kept = word >> (at % 64) & (u64::MAX >> (64 - (next - at)));
            count += u64::from(kept.count_ones());
            at = next;
        }
        count
    }

    /// Both.
    #[must_use]
    pub fn and(&self, other: &Regions) -> Self {
        Regions(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Those that the other has not.
    #[must_use]
    pub fn without(&self, other: &Regions) -> Self {
        Regions(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// How many it has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
}

/// Whose the regions of a slab are that are not live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Free.
    pub free: Regions,
    /// In a thread cache.
    pub cached: Regions,
    /// Of them, those in caches of threads that a fork left behind.
    pub forgotten: Regions,
    /// jemalloc's own: the stacks of thread caches.
    pub own: Regions,
}

/// Resident bytes of slabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlabBytes {
    /// Of regions in use.
    pub live: u64,
    /// Of regions in thread caches.
    pub cached: u64,
    /// Of them, in caches of threads that a fork left behind.
    pub forgotten: u64,
    /// jemalloc's own.
    pub own: u64,
    /// Of free regions.
    pub free: u64,
    /// Of them, on pages on which nothing is in use or cached.
    pub holes: u64,
    /// Behind the last region.
    pub tail: u64,
}

impl AddAssign for SlabBytes {
    fn add_assign(&mut self, other: Self) {
        self.live += other.live;
        self.cached += other.cached;
        self.forgotten += other.forgotten;
        self.own += other.own;
        self.free += other.free;
        self.holes += other.holes;
        self.tail += other.tail;
    }
}

impl SlabBytes {
    /// What the resident pages of a slab hold. Marks are disjoint, but for the forgotten among the cached.
    #[must_use]
    pub fn of(slab: &Slab, marks: &Marks, pages: &Residency) -> Self {
        let mut sum = SlabBytes::default();
        for page in (pages.start()..pages.start() + pages.len()).step_by(PAGE_SIZE as usize) {
            if pages.is_resident(page) {
                sum += Self::of_page(slab, marks, page - pages.start());
            }
        }
        sum
    }

    /// What the page at this offset of the slab holds.
    fn of_page(slab: &Slab, marks: &Marks, start: u64) -> Self {
        let page = Page::new(slab, start);
        let [free, cached, forgotten, own] = [&marks.free, &marks.cached, &marks.forgotten, &marks.own]
            .map(|regions| if regions.is_empty() { 0 } else { page.bytes_of(regions) });
        let live = page.region_bytes() - free - cached - own;
        let holes = if live + cached + own == 0 { free } else { 0 };
        SlabBytes { live, cached, forgotten, own, free, holes, tail: PAGE_SIZE - page.region_bytes() }
    }
}

/// The regions that a page of a slab holds, wholly or in part.
struct Page {
    /// Bytes of a region.
    size: u64,
    /// Regions that lie inside.
    inside: Range<u64>,
    /// Regions that cross an edge, with their bytes on the page.
    edges: [(u64, u64); 2],
}

impl Page {
    fn new(slab: &Slab, start: u64) -> Self {
        let (size, end) = (slab.region_bytes, start + PAGE_SIZE);
        let first_inside = start.div_ceil(size).min(slab.regions);
        let last_inside = (end / size).min(slab.regions).max(first_inside);
        let on_page = |region: u64| {
            let range = (region * size).max(start)..((region + 1) * size).min(end);
            if region < slab.regions { range.end.saturating_sub(range.start) } else { 0 }
        };
        let before = first_inside.wrapping_sub(1);
        let edges = [
            (before, if first_inside == 0 { 0 } else { on_page(before) }),
            (last_inside, on_page(last_inside)),
        ];
        Page { size, inside: first_inside..last_inside, edges }
    }

    /// Bytes of all regions on the page.
    fn region_bytes(&self) -> u64 {
        (self.inside.end - self.inside.start) * self.size
            + self.edges.iter().map(|(_, bytes)| bytes).sum::<u64>()
    }

    /// Bytes on the page of these regions.
    fn bytes_of(&self, regions: &Regions) -> u64 {
        let edge = |&(region, bytes): &(u64, u64)| if regions.contains(region) { bytes } else { 0 };
        regions.count(&self.inside) * self.size + self.edges.iter().map(edge).sum::<u64>()
    }
}
