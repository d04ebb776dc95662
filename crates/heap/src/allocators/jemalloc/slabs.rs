//! The bytes of a slab by use: live, cached, free. Computed page by page, because only whole free pages are
//! holes.

use super::extent::Slab;
use std::ops::{AddAssign, Range};
use unbloat_process::{Residency, page_size};

/// A set of a slab's regions, as bits; absent words are 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Regions(Vec<u64>);

impl Regions {
    /// Returns the free regions.
    #[must_use]
    pub fn free(slab: &Slab) -> Self {
        Regions(slab.free.to_vec())
    }

    /// Adds a region of a slab; regions that the slab does not have are ignored.
    pub fn insert(&mut self, region: u64, slab: &Slab) {
        if region < slab.regions {
            self.0.resize(slab.free.len(), 0);
            if let Some(word) = self.0.get_mut((region / 64) as usize) {
                *word |= 1 << (region % 64);
            }
        }
    }

    /// Returns whether a region is in the set.
    #[must_use]
    pub fn contains(&self, region: u64) -> bool {
        self.0.get((region / 64) as usize).is_some_and(|word| word >> (region % 64) & 1 == 1)
    }

    /// Counts the set's members among these regions.
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

    /// Returns the union.
    #[must_use]
    pub fn and(&self, other: &Regions) -> Self {
        let (long, short) = if self.0.len() < other.0.len() { (other, self) } else { (self, other) };
        let mut both = long.clone();
        both.0.iter_mut().zip(&short.0).for_each(|(word, other)| *word |= other);
        both
    }

    /// Returns the regions that are not in `other`.
    #[must_use]
    pub fn without(mut self, other: &Regions) -> Self {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= !other);
        self
    }

    /// Returns the number of regions.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// True if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
}

/// The regions of a slab that are not live, by holder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    /// Free.
    pub free: Regions,
    /// In a thread cache.
    pub cached: Regions,
    /// The part of `cached` in caches of threads left behind by a fork.
    pub forgotten: Regions,
    /// jemalloc's own: the stacks of thread caches.
    pub own: Regions,
}

/// Resident bytes of slabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlabBytes {
    /// Regions in use.
    pub live: u64,
    /// Regions in thread caches.
    pub cached: u64,
    /// The part of `cached` in caches of threads left behind by a fork.
    pub forgotten: u64,
    /// jemalloc's own.
    pub own: u64,
    /// Free regions.
    pub free: u64,
    /// The part of `free` on pages without anything in use or cached.
    pub holes: u64,
    /// Bytes after the last region.
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
    /// Computes the bytes on the resident pages of a slab. Marks are disjoint, except that forgotten regions
    /// are also cached.
    #[must_use]
    pub fn of(slab: &Slab, marks: &Marks, pages: &Residency) -> Self {
        let mut sum = SlabBytes::default();
        for page in (pages.start()..pages.start() + pages.len()).step_by(page_size() as usize) {
            if pages.is_resident(page) {
                sum += Self::of_page(slab, marks, page - pages.start());
            }
        }
        sum
    }

    /// Computes the bytes on the page at this offset in the slab.
    fn of_page(slab: &Slab, marks: &Marks, start: u64) -> Self {
        let page = Page::new(slab, start);
        let [free, cached, forgotten, own] = [&marks.free, &marks.cached, &marks.forgotten, &marks.own]
            .map(|regions| if regions.is_empty() { 0 } else { page.bytes_of(regions) });
        let live = page.region_bytes() - free - cached - own;
        let holes = if live + cached + own == 0 { free } else { 0 };
        SlabBytes { live, cached, forgotten, own, free, holes, tail: page_size() - page.region_bytes() }
    }
}

/// The regions on a page of a slab, whole or in part.
struct Page {
    /// Bytes of a region.
    size: u64,
    /// Regions entirely on the page.
    inside: Range<u64>,
    /// Regions that cross an edge of the page, with their bytes on it.
    edges: [(u64, u64); 2],
}

impl Page {
    fn new(slab: &Slab, start: u64) -> Self {
        let (size, end) = (slab.region_bytes, start + page_size());
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

    /// Returns the bytes of all regions on the page.
    fn region_bytes(&self) -> u64 {
        (self.inside.end - self.inside.start) * self.size
            + self.edges.iter().map(|(_, bytes)| bytes).sum::<u64>()
    }

    /// Returns the bytes of these regions on the page.
    fn bytes_of(&self, regions: &Regions) -> u64 {
        let edge = |&(region, bytes): &(u64, u64)| if regions.contains(region) { bytes } else { 0 };
        regions.count(&self.inside) * self.size + self.edges.iter().map(edge).sum::<u64>()
    }
}
