//! The description of one extent (`edata_t`; `extent_t` in 5.2): its addresses, its purpose, the free regions
//! of a slab.

use super::layout::{BITMAP_AT, ExtentLayout};
use super::reader::word_at;
use super::rtree::Element;
use super::sizes::SizeClass;
use std::ops::Range;

/// Upper bound on addresses: no Linux address space is larger (5-level page tables).
const ADDRESS_END: u64 = 1 << 56;

/// The state of an extent's pages (`extent_state_e`, `I/edata.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Allocated, or a slab.
    Active,
    /// Freed, with pages unchanged.
    Dirty,
    /// Freed; the kernel may reclaim its pages (`MADV_FREE`).
    Muzzy,
    /// Address space kept without pages.
    Retained,
    /// Changing from one of these states to another.
    Transition,
    /// About to be merged with a neighbor.
    Merging,
}

impl State {
    fn new(bits: u64) -> Option<Self> {
        Some(match bits {
            0 => State::Active,
            1 => State::Dirty,
            2 => State::Muzzy,
            3 => State::Retained,
            4 => State::Transition,
            5 => State::Merging,
            _ => return None,
        })
    }
}

/// The regions of a slab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slab {
    /// Bytes of a region.
    pub region_bytes: u64,
    /// Number of regions.
    pub regions: u64,
    /// One bit per region, set if the region is free; exactly as many words as that takes.
    pub free: Box<[u64]>,
}

impl Slab {
    /// Number of free regions.
    #[must_use]
    pub fn free_regions(&self) -> u64 {
        self.free.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Returns whether a region is free. Nonexistent regions are.
    #[must_use]
    pub fn is_free(&self, region: u64) -> bool {
        let word = self.free.get((region / 64) as usize);
        region >= self.regions || word.is_none_or(|word| word >> (region % 64) & 1 == 1)
    }
}

/// The purpose of an extent's pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Regions of one class.
    Slab(Slab),
    /// One object. A small class means an object that a profiling build keeps alone.
    Object(SizeClass),
    /// Active without a class: taken out for purging, or kept in the cache of the huge-page allocator
    /// (`src/pa.c`, 5.3).
    TakenOut,
    /// Freed.
    Free,
}

/// An extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// The address of its description.
    pub description: u64,
    /// Its first address, a multiple of jemalloc's page size.
    pub base: u64,
    /// Its size: whole pages.
    pub bytes: u64,
    /// Offset of an object in its first page: large objects are spread over cache lines.
    pub offset: u64,
    /// The arena it belongs to.
    pub arena: u32,
    /// Its state.
    pub state: State,
    /// Its purpose.
    pub purpose: Purpose,
    /// Number of free regions according to the description.
    counted_free: u64,
    /// Size class according to the description.
    class: Option<SizeClass>,
    /// The class is allocated in slabs.
    is_small: bool,
}

impl Extent {
    /// Parses a description; `None` if it cannot be one.
    #[must_use]
    pub fn parse(description: u64, bytes: &[u8], layout: &ExtentLayout) -> Option<Self> {
        let bytes = bytes.get(..layout.bytes())?;
        let [bits, address, size] = [0, 8, 16].map(|at| word_at(bytes, at).unwrap_or(0));
        let [base, size] = [address, size].map(|word| word & !(layout.page_bytes() - 1));
        base.checked_add(size).filter(|&end| size > 0 && base > 0 && end <= ADDRESS_END)?;
        let class_bit = layout.state_bit + layout.state_bits;
        let state = State::new(bits >> layout.state_bit & ((1 << layout.state_bits) - 1))?;
        let class = SizeClass::new(bits >> class_bit & 0xff);
        let is_slab = bits >> 12 & 1 == 1;
        let purpose = match (state, class) {
            (State::Active, Some(class)) if is_slab => Purpose::Slab(slab(class, size, bytes, layout)?),
            (State::Active, Some(class)) => Purpose::Object(class),
            (State::Active, None) => Purpose::TakenOut,
            _ => Purpose::Free,
        };
        Some(Extent {
            description,
            base,
            bytes: size,
            offset: address - base,
            arena: (bits & 0xfff) as u32,
            state,
            purpose,
            counted_free: bits >> (class_bit + 8) & layout.free_mask(),
            class,
            is_small: class.is_some_and(|class| layout.is_small(class)),
        })
    }

    /// The first address after it.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base + self.bytes
    }

    /// Its addresses.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.base..self.end()
    }

    /// Returns whether the description is consistent: the bitmap has as many free regions as the counter
    /// says, and none beyond the last. It is inconsistent while a thread is in the middle of a change.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let Purpose::Slab(slab) = &self.purpose else { return true };
        let beyond = (slab.regions..64 * slab.free.len() as u64).any(|region| {
            slab.free.get((region / 64) as usize).is_some_and(|word| word >> (region % 64) & 1 == 1)
        });
        !beyond && slab.free_regions() == self.counted_free
    }

    /// Returns whether a leaf element agrees with the description.
    #[must_use]
    pub fn agrees_with(&self, element: &Element) -> bool {
        let state = element.state.is_none_or(|state| State::new(state) == Some(self.state));
        let active = self.state == State::Active && self.class.is_some();
        let is_slab = matches!(self.purpose, Purpose::Slab(_));
        state && (!active || element.class == self.class && element.slab == is_slab)
    }

    /// Returns the usable bytes of the single object in this extent, with `pad` bytes after each large one.
    /// Not the class's size: 5.3.1 rounds large sizes to pages (`src/jemalloc.c`), so the class may be too
    /// large.
    #[must_use]
    pub fn usable_bytes(&self, pad: u64) -> u64 {
        match self.purpose {
            Purpose::Object(class) if self.is_small => class.bytes(),
            Purpose::Object(_) => self.bytes.saturating_sub(pad),
            Purpose::Slab(_) | Purpose::TakenOut | Purpose::Free => 0,
        }
    }
}

/// Parses a slab. Words of its bitmap beyond those needed by its regions are never written and contain stale
/// data.
fn slab(class: SizeClass, size: u64, bytes: &[u8], layout: &ExtentLayout) -> Option<Slab> {
    let regions = size / class.bytes();
    let words = regions.div_ceil(64) as usize;
    if !layout.is_small(class) || !(1..=layout.bitmap_words()).contains(&words) {
        return None;
    }
    let free = (0..words).map(|i| word_at(bytes, BITMAP_AT + 8 * i).unwrap_or(0)).collect();
    Some(Slab { region_bytes: class.bytes(), regions, free })
}
