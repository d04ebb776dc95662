//! The heap map: every page of every arena and of the Ruby heap, and what its bytes are used for.
//!
//! The walkers [`Region::add`] what they claim, byte range by byte range; the renderers read pages. A page costs
//! 16 bytes, so the map of a 2 GiB process takes 8 MiB.

use super::{Category, OnMap};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use unbloat_process::{PAGE_SIZE, Residency};

/// The map of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapMap {
    /// Disjoint ranges of addresses, in any order.
    pub regions: Vec<Region>,
}

impl HeapMap {
    /// Pages of all regions, resident or not.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.regions.iter().map(|region| region.pages.len()).sum()
    }
}

/// To whom a region belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Owner {
    /// A heap of the arena whose `malloc_state` lies at this address.
    Arena(u64),
    /// A large chunk with a mapping of its own.
    MmappedChunk,
    /// Adjacent pages of the Ruby heap with slots of one size; 0 if they belong to no size pool.
    Ruby {
        /// Bytes of a slot.
        slot_bytes: u64,
    },
}

/// A contiguous range of pages with one owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// First address, a multiple of the page size.
    pub start: u64,
    /// To whom it belongs.
    pub owner: Owner,
    /// Its pages, in order.
    pub pages: Vec<PageFill>,
}

/// What the bytes of one page are used for. What is missing to [`PAGE_SIZE`] on a resident page is overhead (headers,
/// padding); a page that is not resident holds nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageFill {
    /// The page is resident.
    pub resident: bool,
    /// Bytes in the order of [`PageUse::ALL`].
    bytes: [u16; PageUse::ALL.len()],
}

/// The uses that the map tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PageUse {
    /// Payload of malloc chunks in use.
    Live,
    /// Freed, in a thread cache or fastbin.
    Cached,
    /// Freed, `malloc_trim(0)` would return it.
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

    /// The use that bytes of a census category have on the map; `None` for what the map does not show.
    #[must_use]
    pub fn of(category: Category) -> Option<Self> {
        match category.facts().on_map {
            OnMap::Use(page_use) => Some(page_use),
            OnMap::Overhead | OnMap::Nowhere => None,
        }
    }
}

impl PageFill {
    /// Bytes of the page that have this use.
    #[must_use]
    pub fn bytes(&self, page_use: PageUse) -> u16 {
        self.bytes[page_use as usize]
    }

    /// Bytes in the order of [`PageUse::ALL`].
    #[must_use]
    pub fn all(&self) -> &[u16; PageUse::ALL.len()] {
        &self.bytes
    }
}

impl Region {
    /// The pages that `residency` describes, resident as it says, with nothing on them yet.
    #[must_use]
    pub fn new(residency: &Residency, owner: Owner) -> Self {
        let mut pages = vec![PageFill::default(); (residency.len() / PAGE_SIZE) as usize];
        for run in residency.resident_runs() {
            let page = |address: u64| ((address - residency.start()) / PAGE_SIZE) as usize;
            pages[page(run.start)..page(run.end)].iter_mut().for_each(|page| page.resident = true);
        }
        Region { start: residency.start(), owner, pages }
    }

    /// Says what the bytes of `range` are. Bytes on pages that are not resident, outside of the region, or of a
    /// category that the map does not know, are left out.
    pub fn add(&mut self, range: Range<u64>, category: Category) {
        let Some(page_use) = PageUse::of(category) else { return };
        let end = range.end.min(self.start + self.pages.len() as u64 * PAGE_SIZE);
        let mut at = range.start.max(self.start);
        while at < end {
            let next = (at / PAGE_SIZE * PAGE_SIZE + PAGE_SIZE).min(end);
            let page = &mut self.pages[((at - self.start) / PAGE_SIZE) as usize];
            if page.resident {
                let bytes = &mut page.bytes[page_use as usize];
                *bytes = bytes.saturating_add((next - at) as u16).min(PAGE_SIZE as u16);
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
        let mut residency = Residency::all(0x1000, 0x3000);
        residency.set_resident(0x2000, false);
        let mut region = Region::new(&residency, Owner::Arena(1));
        region.add(0x800..0x3010, Category::MallocLive);
        region.add(0x3010..0x9000, Category::MallocStranded);
        region.add(0x3010..0x9000, Category::MallocOverhead);
        let live: Vec<_> = region.pages.iter().map(|page| page.bytes(PageUse::Live)).collect();
        assert_eq!(live, [4096, 0, 16]);
        assert_eq!(region.pages[2].bytes(PageUse::Stranded), 4080);
        assert!(!region.pages[1].resident);
    }
}
