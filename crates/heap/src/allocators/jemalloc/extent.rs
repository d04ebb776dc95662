//! The description of one extent (`edata_t`; `extent_t` in 5.2): its place, its purpose, the free regions of a slab.

use super::layout::{BITMAP_AT, BITMAP_WORDS, EXTENT_BYTES, ExtentLayout};
use super::reader::word_at;
use super::rtree::Element;
use super::sizes::SizeClass;
use std::ops::Range;
use unbloat_process::PAGE_SIZE;

/// Pages end below this: no address space of Linux is larger (5-level page tables).
const ADDRESS_END: u64 = 1 << 56;

/// What an extent's pages are (`extent_state_e`, `I/edata.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Allocated, or a slab.
    Active,
    /// Freed; its pages are as they were.
    Dirty,
    /// Freed; the kernel may take its pages (`MADV_FREE`).
    Muzzy,
    /// Address space that jemalloc keeps without pages.
    Retained,
    /// On its way between two of them.
    Transition,
    /// About to be joined with a neighbor.
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
    /// How many there are.
    pub regions: u64,
    /// One bit a region, set if it is free; as many words as that takes.
    pub free: Box<[u64]>,
}

impl Slab {
    /// Free regions.
    #[must_use]
    pub fn free_regions(&self) -> u64 {
        self.free.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether a region is free. Regions that the slab does not have are.
    #[must_use]
    pub fn is_free(&self, region: u64) -> bool {
        let word = self.free.get((region / 64) as usize);
        region >= self.regions || word.is_none_or(|word| word >> (region % 64) & 1 == 1)
    }
}

/// What the pages of an extent are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Regions of one class.
    Slab(Slab),
    /// One object. A class below 16 KiB: a small object that a profiling build keeps alone.
    Object(SizeClass),
    /// Active without a class: taken out to be purged, or kept in the cache of the huge-page allocator
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
    /// Its first address, a multiple of the page size.
    pub base: u64,
    /// Its size: whole pages.
    pub bytes: u64,
    /// Where in its first page an object begins: large ones are spread over cache lines.
    pub offset: u64,
    /// The arena that it belongs to.
    pub arena: u32,
    /// Its state.
    pub state: State,
    /// What it is for.
    pub purpose: Purpose,
    /// The count of free regions that the description keeps.
    counted_free: u64,
    /// The class that the description keeps.
    class: Option<SizeClass>,
}

impl Extent {
    /// Reads a description; `None` if it can be none.
    #[must_use]
    pub fn parse(description: u64, bytes: &[u8], layout: &ExtentLayout) -> Option<Self> {
        let bytes = bytes.get(..EXTENT_BYTES)?;
        let [bits, address, size] = [0, 8, 16].map(|at| word_at(bytes, at).unwrap_or(0));
        let base = address / PAGE_SIZE * PAGE_SIZE;
        let size = size / PAGE_SIZE * PAGE_SIZE;
        base.checked_add(size).filter(|&end| size > 0 && base > 0 && end <= ADDRESS_END)?;
        let class_bit = layout.state_bit + layout.state_bits;
        let state = State::new(bits >> layout.state_bit & ((1 << layout.state_bits) - 1))?;
        let class = SizeClass::new(bits >> class_bit & 0xff);
        let is_slab = bits >> 12 & 1 == 1;
        let purpose = match (state, class) {
            (State::Active, Some(class)) if is_slab => Purpose::Slab(slab(class, size, bytes)?),
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
            counted_free: bits >> (class_bit + 8) & 0x3ff,
            class,
        })
    }

    /// Its first address behind it.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base + self.bytes
    }

    /// Its addresses.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.base..self.end()
    }

    /// Whether the description agrees with itself: the bitmap has as many free regions as are counted, and none beyond
    /// the last. Not so while a thread is half way through a change.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let Purpose::Slab(slab) = &self.purpose else { return true };
        let beyond = (slab.regions..64 * slab.free.len() as u64).any(|region| {
            slab.free.get((region / 64) as usize).is_some_and(|word| word >> (region % 64) & 1 == 1)
        });
        !beyond && slab.free_regions() == self.counted_free
    }

    /// Whether what the leaf says agrees with the description.
    #[must_use]
    pub fn agrees_with(&self, element: &Element) -> bool {
        let state = element.state.is_none_or(|state| State::new(state) == Some(self.state));
        let active = self.state == State::Active && self.class.is_some();
        let is_slab = matches!(self.purpose, Purpose::Slab(_));
        state && (!active || element.class == self.class && element.slab == is_slab)
    }

    /// Usable bytes of the object that it is, with `pad` bytes behind each large one. Not the class's size: 5.3.1 rounds
    /// large sizes to pages (`src/jemalloc.c`), so the class may say too much.
    #[must_use]
    pub fn usable_bytes(&self, pad: u64) -> u64 {
        match self.purpose {
            Purpose::Object(class) if class.is_small() => class.bytes(),
            Purpose::Object(_) => self.bytes.saturating_sub(pad),
            Purpose::Slab(_) | Purpose::TakenOut | Purpose::Free => 0,
        }
    }
}

/// Words of a slab's bitmap behind those that its regions need are never written: they hold what was there before.
fn slab(class: SizeClass, size: u64, bytes: &[u8]) -> Option<Slab> {
    let regions = size / class.bytes();
    let words = regions.div_ceil(64) as usize;
    if !class.is_small() || !(1..=BITMAP_WORDS).contains(&words) {
        return None;
    }
    let free = (0..words).map(|i| word_at(bytes, BITMAP_AT + 8 * i).unwrap_or(0)).collect();
    Some(Slab { region_bytes: class.bytes(), regions, free })
}
