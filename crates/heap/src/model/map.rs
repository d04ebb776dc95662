//! The heap map: every page of every arena and of the Ruby heap, with the uses of its bytes.
//!
//! The walkers [`Region::add`] the byte ranges they account for; the renderers read pages. A page costs 16
//! bytes, so the map of a 2 GiB process takes 8 MiB.

use super::{Category, OnMap};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use unbloat_process::{Residency, page_size};

/// The map of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapMap {
    /// Disjoint ranges of addresses, in any order.
    pub regions: Vec<Region>,
}

impl HeapMap {
    /// Returns the number of pages in all regions, resident or not.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.regions.iter().map(|region| region.pages.len()).sum()
    }
}

/// The owner of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Owner {
    /// A heap of the arena whose `malloc_state` lies at this address.
    Arena(u64),
    /// A large chunk with its own mapping.
    MmappedChunk,
    /// Adjacent pages of the Ruby heap with slots of one size; 0 if they belong to no size pool.
    Ruby {
        /// Size of a slot.
        slot_bytes: u64,
    },
}

/// A contiguous range of pages with one owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// First address, a multiple of the page size.
    pub start: u64,
    /// The region's owner.
    pub owner: Owner,
    /// Its pages, in order.
    pub pages: Vec<PageFill>,
}

/// The uses of one page's bytes. On a resident page, the bytes missing from [`page_size`] are overhead
/// (headers, padding); a page that is not resident holds nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageFill {
    /// The page is resident.
    pub resident: bool,
    /// Bytes in the order of [`PageUse::ALL`].
    bytes: [u32; PageUse::ALL.len()],
}

/// The uses that the map distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PageUse {
    /// Payload of malloc chunks in use.
    Live,
    /// Freed, in a thread cache or fastbin.
    Cached,
    /// Freed, and returned by `malloc_trim(0)`.
    Trimmable,
    /// Freed, but on a page that something live shares.
    Stranded,
    /// The unused end of an arena.
    Top,
    /// Ruby slots with an object.
    RubyLive,
    /// Ruby slots without one.
    RubyFree,
}

impl PageUse {
    /// All uses, in the order in which [`PageFill`] keeps them.
    pub const ALL: [PageUse; 7] = [
        PageUse::Live,
        PageUse::Cached,
        PageUse::Trimmable,
        PageUse::Stranded,
        PageUse::Top,
        PageUse::RubyLive,
        PageUse::RubyFree,
    ];

    /// Returns the use on the map of a census category's bytes; `None` for categories that the map does not
    /// show.
    #[must_use]
    pub fn of(category: Category) -> Option<Self> {
        match category.facts().on_map {
            OnMap::Use(page_use) => Some(page_use),
            OnMap::Overhead | OnMap::Nowhere => None,
        }
    }
}

impl PageFill {
    /// Returns the page's bytes with this use.
    #[must_use]
    pub fn bytes(&self, page_use: PageUse) -> u32 {
        self.bytes[page_use as usize]
    }

    /// Returns the bytes in the order of [`PageUse::ALL`].
    #[must_use]
    pub fn all(&self) -> &[u32; PageUse::ALL.len()] {
        &self.bytes
    }
}

impl Region {
    /// Creates a region with the pages that `residency` describes, without any uses yet.
    #[must_use]
    pub fn new(residency: &Residency, owner: Owner) -> Self {
        let mut pages = vec![PageFill::default(); (residency.len() / page_size()) as usize];
        for run in residency.resident_runs() {
            let page = |address: u64| ((address - residency.start()) / page_size()) as usize;
            pages[page(run.start)..page(run.end)].iter_mut().for_each(|page| page.resident = true);
        }
        Region { start: residency.start(), owner, pages }
    }

    /// Sets the category of the bytes of `range`. Bytes on absent pages, outside the region, or of a category
    /// that the map does not show are ignored.
    pub fn add(&mut self, range: Range<u64>, category: Category) {
        let Some(page_use) = PageUse::of(category) else { return };
        let end = range.end.min(self.start + self.pages.len() as u64 * page_size());
        let mut at = range.start.max(self.start);
        while at < end {
            let next = (at / page_size() * page_size() + page_size()).min(end);
            let page = &mut self.pages[((at - self.start) / page_size()) as usize];
            if page.resident {
                let bytes = &mut page.bytes[page_use as usize];
                *bytes = bytes.saturating_add((next - at) as u32).min(page_size() as u32);
            }
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_spread_over_the_pages_it_touches() {
        let page = page_size();
        let mut residency = Residency::all(page, 3 * page);
        residency.set_resident(2 * page, false);
        let mut region = Region::new(&residency, Owner::Arena(1));
        region.add(page / 2..3 * page + 16, Category::MallocLive);
        region.add(3 * page + 16..9 * page, Category::MallocStranded);
        region.add(3 * page + 16..9 * page, Category::MallocOverhead);
        let live: Vec<_> = region.pages.iter().map(|page| u64::from(page.bytes(PageUse::Live))).collect();
        assert_eq!(live, [page, 0, 16]);
        assert_eq!(u64::from(region.pages[2].bytes(PageUse::Stranded)), page - 16);
        assert!(!region.pages[1].resident);
    }
}
