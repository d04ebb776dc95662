//! Draws the heap map during the walks: walkers report ranges of bytes, the map keeps pages.

use crate::allocators::Observer;
use crate::model::{Category, HeapMap, Owner, Region};
use crate::ruby::{HeapPage, HeapPages};
use std::ops::Range;
use unbloat_process::{Memory, Residency, Result, page_size, windows};

/// Bytes per residency query.
const WINDOW_BYTES: u64 = 64 << 20;
/// Longest stretch of absent pages within a region, in bytes. A longer one ends the region, so that the map
/// grows with resident memory and not with mapped memory: at most 32 absent pages are drawn per resident
/// page.
const MAX_ABSENT_BYTES: u64 = 128 << 10;

/// Collects the walkers' reports. Pass it to the walk of the arenas as their [`Observer`], and its
/// [`add`](Cartographer::add) to the walk of the Ruby heap.
pub struct Cartographer<'a> {
    memory: &'a dyn Memory,
    /// In address order.
    regions: Vec<Region>,
    /// The region of the last range, which most likely also holds the next one.
    current: usize,
}

impl<'a> Cartographer<'a> {
    /// Creates an empty map of `memory`.
    #[must_use]
    pub fn new(memory: &'a dyn Memory) -> Self {
        Cartographer { memory, regions: vec![], current: 0 }
    }

    /// Opens a region for each run of adjacent Ruby pages with slots of one size.
    ///
    /// # Errors
    /// The process is gone or access to it is denied.
    pub fn open_ruby(&mut self, heap: &HeapPages) -> Result<()> {
        let page_bytes = heap.layout.page_bytes;
        let adjacent =
            |a: &HeapPage, b: &HeapPage| a.slot_bytes == b.slot_bytes && a.body + page_bytes == b.body;
        for run in heap.pages.chunk_by(adjacent) {
            if let (Some(first), Some(last)) = (run.first(), run.last()) {
                let owner = Owner::Ruby { slot_bytes: first.slot_bytes.into() };
                self.open(first.body..last.body + page_bytes, owner)?;
            }
        }
        Ok(())
    }

    /// Opens regions for the resident pages that a range touches. Pages that already belong to a region keep
    /// their owner: Ruby pages may lie inside an arena (up to 2.7), and are opened first.
    ///
    /// # Errors
    /// The process is gone or access to it is denied.
    pub fn open(&mut self, range: Range<u64>, owner: Owner) -> Result<()> {
        let mut at = range.start / page_size() * page_size();
        let end = range.end.next_multiple_of(page_size());
        while at < end {
            let next = self.regions.partition_point(|region| region.start <= at);
            let before = next.checked_sub(1).map_or(0, |before| end_of(&self.regions[before]));
            if before > at {
                at = before;
                continue;
            }
            let gap_end = self.regions.get(next).map_or(end, |region| region.start.min(end));
            self.draw(at..gap_end, owner)?;
            at = gap_end;
        }
        Ok(())
    }

    /// Opens regions for the resident stretches of a range that no region covers.
    fn draw(&mut self, range: Range<u64>, owner: Owner) -> Result<()> {
        for window in windows(self.memory, &range, WINDOW_BYTES) {
            let residency = self.memory.residency(window.start, window.end - window.start)?;
            let mut drawn: Option<Range<u64>> = None;
            for run in residency.resident_runs() {
                drawn = match drawn {
                    Some(last) if run.start - last.end <= MAX_ABSENT_BYTES => Some(last.start..run.end),
                    Some(last) => {
                        self.put(&residency, last, owner);
                        Some(run)
                    }
                    None => Some(run),
                };
            }
            if let Some(last) = drawn {
                self.put(&residency, last, owner);
            }
        }
        Ok(())
    }

    /// Adds the pages of a stretch to the region right before it, if that has the same owner, or else as a
    /// new region.
    fn put(&mut self, residency: &Residency, stretch: Range<u64>, owner: Owner) {
        let mut part = Residency::none(stretch.start, stretch.end - stretch.start);
        for run in residency.resident_runs_from(stretch.start).take_while(|run| run.start < stretch.end) {
            (run.start..run.end.min(stretch.end))
                .step_by(page_size() as usize)
                .for_each(|page| part.set_resident(page, true));
        }
        let region = Region::new(&part, owner);
        let next = self.regions.partition_point(|other| other.start < stretch.start);
        match next.checked_sub(1).and_then(|before| self.regions.get_mut(before)) {
            Some(before) if before.owner == owner && end_of(before) == region.start => {
                before.pages.extend(region.pages);
            }
            _ => self.regions.insert(next, region),
        }
    }

    /// Sets the category of a range's bytes. Bytes outside all regions are ignored.
    pub fn add(&mut self, range: Range<u64>, category: Category) {
        let mut at = range.start;
        while at < range.end {
            let here = self.regions.get(self.current);
            if !here.is_some_and(|region| region.start <= at && at < end_of(region)) {
                self.current = self.regions.partition_point(|region| end_of(region) <= at);
            }
            let Some(region) = self.regions.get_mut(self.current) else { return };
            region.add(at..range.end, category);
            at = end_of(region);
        }
    }

    /// Returns the map.
    #[must_use]
    pub fn finish(self) -> HeapMap {
        HeapMap { regions: self.regions }
    }
}

impl Observer for Cartographer<'_> {
    fn memory(&mut self, range: Range<u64>, arena: u64) {
        // A process that ends during the walk fails the walk, and then nobody needs its map.
        let _ = self.open(range, Owner::Arena(arena));
    }

    fn bytes(&mut self, range: Range<u64>, category: Category) {
        if category == Category::MmappedChunks {
            // As above.
            let _ = self.open(range.clone(), Owner::MmappedChunk);
        }
        self.add(range, category);
    }
}

fn end_of(region: &Region) -> u64 {
    region.start + region.pages.len() as u64 * page_size()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::model::PageUse;

    /// Every page resident, every byte zero.
    struct Flat;

    /// The address of a page, by its number.
    fn at(page: u64) -> u64 {
        page * page_size()
    }

    fn pages(numbers: Range<u64>) -> Range<u64> {
        at(numbers.start)..at(numbers.end)
    }

    impl Memory for Flat {
        fn read(&self, _address: u64, buffer: &mut [u8]) -> Result<()> {
            buffer.fill(0);
            Ok(())
        }

        fn residency(&self, start: u64, len: u64) -> Result<Residency> {
            Ok(Residency::all(start, len))
        }
    }

    #[test]
    fn a_ruby_page_inside_an_arena_keeps_its_owner() {
        let mut map = Cartographer::new(&Flat);
        map.open(pages(4..8), Owner::Ruby { slot_bytes: 40 }).unwrap();
        map.open(at(1)..at(10) + 16, Owner::Arena(7)).unwrap();
        map.add(pages(4..8), Category::RubyFree);
        map.add(at(1) + 48..at(4), Category::MallocLive);
        map.add(at(8)..at(10) + 16, Category::MallocStranded);
        let map = map.finish();
        let shape: Vec<_> = map.regions.iter().map(|r| (r.start, r.pages.len(), r.owner)).collect();
        let arena = Owner::Arena(7);
        assert_eq!(shape, [(at(1), 3, arena), (at(4), 4, Owner::Ruby { slot_bytes: 40 }), (at(8), 3, arena)]);
        let sum = |page_use| {
            let pages = map.regions.iter().flat_map(|region| region.pages.iter());
            pages.map(|page| u64::from(page.bytes(page_use))).sum::<u64>()
        };
        assert_eq!(sum(PageUse::Live), at(3) - 48);
        assert_eq!(sum(PageUse::RubyFree), at(4));
        assert_eq!(sum(PageUse::Stranded), at(2) + 16);
    }

    /// One page in each gibibyte is resident.
    struct Sparse;

    impl Memory for Sparse {
        fn read(&self, _address: u64, buffer: &mut [u8]) -> Result<()> {
            buffer.fill(0);
            Ok(())
        }

        fn residency(&self, start: u64, len: u64) -> Result<Residency> {
            let mut residency = Residency::none(start, len);
            (start.next_multiple_of(1 << 30)..start + len)
                .step_by(1 << 30)
                .for_each(|page| residency.set_resident(page, true));
            Ok(residency)
        }
    }

    #[test]
    fn the_map_grows_with_what_is_resident_and_not_with_what_is_mapped() {
        let mut map = Cartographer::new(&Sparse);
        map.open(0x4000_0000..0x4000_0000 + (64 << 30), Owner::Arena(1)).unwrap();
        map.add(0x4000_0000..0x4000_0000 + (64 << 30), Category::MallocLive);
        let map = map.finish();
        assert_eq!((map.regions.len(), map.pages()), (64, 64));
        assert!(map.regions.iter().all(|region| u64::from(region.pages[0].bytes(PageUse::Live)) == at(1)));
    }

    #[test]
    fn adjacent_memory_of_one_owner_is_one_region() {
        let mut map = Cartographer::new(&Flat);
        for first in [1, 3, 5, 7] {
            map.open(pages(first..first + 2), Owner::Arena(if first < 7 { 1 } else { 2 })).unwrap();
        }
        let shape: Vec<_> = map.finish().regions.iter().map(|r| (r.start, r.pages.len(), r.owner)).collect();
        assert_eq!(shape, [(at(1), 6, Owner::Arena(1)), (at(7), 2, Owner::Arena(2))]);
    }

    #[test]
    fn a_range_may_reach_over_regions_and_gaps() {
        let mut map = Cartographer::new(&Flat);
        map.open(pages(1..2), Owner::Arena(1)).unwrap();
        map.open(pages(5..6), Owner::Arena(1)).unwrap();
        map.add(pages(0..9), Category::MallocLive);
        map.add(pages(2..5), Category::MallocLive);
        let live: Vec<_> = map
            .finish()
            .regions
            .iter()
            .flat_map(|r| r.pages.clone())
            .map(|p| u64::from(p.bytes(PageUse::Live)))
            .collect();
        assert_eq!(live, [at(1), at(1)]);
    }
}
