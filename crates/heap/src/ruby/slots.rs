//! The slots of the Ruby heap and their contents, read once, page by page.
//!
//! A slot is free exactly when its type is `T_NONE` (`struct RFree`, `struct free_slot`: "always 0 for freed
//! obj"). A page's `free_slots` lags behind (lazy sweeping, the free list taken by a ractor), so the slots
//! themselves are counted, as `ObjectSpace.count_objects` does.

use super::pages::{HeapPage, HeapPages};
use super::words::word;
use crate::model::{Category, Census, RubyType, SizePool};
use std::collections::BTreeMap;
use std::ops::Range;
use unbloat_process::{Memory, Residency, Result};

/// Bytes of page bodies read per call: as much as the L2 cache holds.
const BATCH_BYTES: u64 = 1 << 20;
/// `RUBY_T_MASK`: the type lies in the low five bits of the flags (`include/ruby/internal/value_type.h`).
const TYPE_MASK: u64 = 0x1f;
const T_NONE: u64 = 0;
const T_IMEMO: u64 = 0x1a;
/// `FL_USHIFT`: the start of the bits that each type uses for itself; an imemo's kind lies in the first four.
const USER_SHIFT: u32 = 12;

/// A slot with an object.
#[derive(Debug, Clone, Copy)]
pub struct Slot<'a> {
    /// Its address: the object's `VALUE`.
    pub address: u64,
    /// Its flags word.
    pub flags: u64,
    /// All its bytes.
    pub bytes: &'a [u8],
}

impl Slot<'_> {
    /// The type of its object: the low five bits of the flags.
    #[must_use]
    pub fn code(&self) -> u8 {
        (self.flags & TYPE_MASK) as u8
    }

    /// The kind of an internal object (`enum imemo_type`).
    #[must_use]
    pub fn imemo_kind(&self) -> u8 {
        (self.flags >> USER_SHIFT & 0xf) as u8
    }

    /// The word at this offset; 0 outside of the slot.
    #[must_use]
    pub fn word(&self, at: usize) -> u64 {
        word(self.bytes, at).unwrap_or(0)
    }

    /// The object's class: the second word of `struct RBasic`; 0 for what Ruby hides from programs.
    #[must_use]
    pub fn class(&self) -> u64 {
        self.word(8)
    }
}

/// The result of a walk over all slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Slots by size.
    pub pools: BTreeMap<u64, SizePool>,
    /// Objects by the low five bits of their flags.
    types: [u64; 32],
    /// Internal objects by kind (`enum imemo_type`).
    pub imemos: [u64; 16],
    /// Resident bytes by the low five bits of the flags; the first is free slots.
    type_bytes: [u64; 32],
    /// Resident bytes of pages outside slots.
    overhead_bytes: u64,
    /// Number of pages in no size pool (the list of empty pages, from 3.4 on).
    pub unassigned_pages: u64,
    /// Number of pages that were gone when their body was read.
    pub vanished_pages: u64,
}

impl Tally {
    /// Returns the live slots by type, in the order of the types.
    #[must_use]
    pub fn objects(&self) -> Vec<(RubyType, u64)> {
        by_type(&self.types)
    }

    /// Returns the resident bytes of the bodies: live slots by type, free slots, overhead.
    #[must_use]
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        for (code, &bytes) in self.type_bytes.iter().enumerate() {
            census.add(category(code as u64), bytes);
        }
        census.add(Category::RubyPageOverhead, self.overhead_bytes);
        census
    }

    /// Returns the number of pages that would become empty if the live slots of each pool were packed
    /// together. Objects that cannot be moved (referenced from stacks or by extensions) may keep some of
    /// them.
    #[must_use]
    pub fn compactable_pages(&self) -> u64 {
        let freed = |pool: &SizePool| match pool.slots {
            0 => 0,
            slots => pool.pages - ((pool.live_slots + pool.unread_slots) * pool.pages).div_ceil(slots),
        };
        self.pools.values().map(freed).sum()
    }

    fn add_page(
        &mut self,
        page: &HeapPage,
        body: &[u8],
        residency: Option<&Residency>,
        claim: &mut impl FnMut(Range<u64>, Category),
        visit: &mut impl FnMut(Slot<'_>),
    ) {
        let resident = |address| residency.is_none_or(|r| r.is_resident(address));
        if resident(page.body) && word(body, 0) != Some(page.header) {
            self.vanished_pages += 1;
            return;
        }
        let slots = page.slot_range();
        let mut runs = Runs { tally: self, residency, claim, start: page.body, kind: Kind::Overhead };
        let (mut live, mut unread) = (0, 0);
        let slot_bytes = usize::from(page.slot_bytes).max(1);
        let bytes = body.get(page.first_slot as usize..).unwrap_or_default();
        for (address, bytes) in slots.clone().step_by(slot_bytes).zip(bytes.chunks_exact(slot_bytes)) {
            let Some(flags) = word(bytes, 0).filter(|_| resident(address)) else {
                unread += 1;
                runs.next(address, Kind::Overhead);
                continue;
            };
            let code = flags & TYPE_MASK;
            runs.next(address, Kind::Slot(code));
            if code != T_NONE {
                live += 1;
                runs.tally.types[code as usize] += 1;
                if code == T_IMEMO {
                    runs.tally.imemos[(flags >> USER_SHIFT & 0xf) as usize] += 1;
                }
                visit(Slot { address, flags, bytes });
            }
        }
        runs.next(slots.end, Kind::Overhead);
        runs.end(page.body + body.len() as u64);
        self.add_to_pool(page, live, unread);
    }

    fn add_to_pool(&mut self, page: &HeapPage, live: u64, unread: u64) {
        if page.slots == 0 {
            self.unassigned_pages += 1;
            return;
        }
        let slot_bytes = u64::from(page.slot_bytes);
        let pool = self.pools.entry(slot_bytes).or_insert(SizePool { slot_bytes, ..SizePool::default() });
        let slots = u64::from(page.slots);
        pool.pages += 1;
        pool.slots += slots;
        pool.live_slots += live;
        pool.unread_slots += unread;
        pool.empty_pages += u64::from(live + unread == 0);
        pool.tomb_pages += u64::from(page.tomb);
        pool.tomb_slots += if page.tomb { slots } else { 0 };
    }
}

/// The use of a run of bytes: the type code of its slots, or none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Slot(u64),
    Overhead,
}

/// Joins neighbors of the same kind, so that claims are as long as possible.
struct Runs<'a, C> {
    tally: &'a mut Tally,
    residency: Option<&'a Residency>,
    claim: &'a mut C,
    start: u64,
    kind: Kind,
}

impl<C: FnMut(Range<u64>, Category)> Runs<'_, C> {
    fn next(&mut self, at: u64, kind: Kind) {
        if kind != self.kind {
            self.end(at);
            (self.start, self.kind) = (at, kind);
        }
    }

    fn end(&mut self, at: u64) {
        let range = self.start..at;
        let bytes = self.residency.map_or(at - self.start, |r| r.resident_within(range.clone()));
        let category = match self.kind {
            Kind::Overhead => {
                self.tally.overhead_bytes += bytes;
                Category::RubyPageOverhead
            }
            Kind::Slot(code) => {
                self.tally.type_bytes[code as usize] += bytes;
                category(code)
            }
        };
        if !range.is_empty() {
            (self.claim)(range, category);
        }
    }
}

/// Reads every page's body once and counts. `claim` receives the category of each byte of a body, in address
/// order within a page, resident or not; `visit` receives every slot with an object. Use a view that touches
/// resident pages only.
///
/// # Errors
/// The process is gone or access to it is denied.
pub fn walk(
    memory: &dyn Memory,
    pages: &HeapPages,
    mut claim: impl FnMut(Range<u64>, Category),
    mut visit: impl FnMut(Slot<'_>),
) -> Result<Tally> {
    let (page_bytes, body_bytes) = (pages.layout.page_bytes, pages.layout.body_bytes as usize);
    let batch = (BATCH_BYTES / page_bytes).max(1) as usize;
    let mut bodies = vec![0; batch * page_bytes as usize];
    let mut tally = Tally::default();
    for batch in pages.pages.chunks(batch) {
        let addresses: Vec<u64> = batch.iter().map(|page| page.body).collect();
        let whole = memory.gather(&addresses, body_bytes, &mut bodies)?;
        let read = batch.iter().zip(&whole).zip(bodies.chunks_exact(body_bytes));
        for ((page, _), body) in read.filter(|((_, whole), _)| **whole) {
            tally.add_page(page, body, None, &mut claim, &mut visit);
        }
        // Partly resident bodies: the rest is absent, swapped out, or gone.
        for (page, _) in batch.iter().zip(&whole).filter(|(_, whole)| !**whole) {
            let residency = memory.residency(page.body, page_bytes)?;
            let buffer = &mut bodies[..page_bytes as usize];
            memory.read_resident(&residency, buffer)?;
            tally.add_page(page, &buffer[..body_bytes], Some(&residency), &mut claim, &mut visit);
        }
    }
    Ok(tally)
}

/// Converts sums by type code to sums by type, dropping zeros.
pub(super) fn by_type(codes: &[u64; 32]) -> Vec<(RubyType, u64)> {
    let mut types = BTreeMap::new();
    for (code, &sum) in codes.iter().enumerate().filter(|(_, sum)| **sum > 0) {
        if let Category::RubyLive(ruby_type) = category(code as u64) {
            *types.entry(ruby_type).or_default() += sum;
        }
    }
    types.into_iter().collect()
}

/// Returns the category of a slot with this type code.
pub(crate) fn category(code: u64) -> Category {
    use RubyType as T;
    let ruby_type = match code {
        T_NONE => return Category::RubyFree,
        0x01 => T::Object,
        0x02 => T::Class,
        0x03 => T::Module,
        0x04 => T::Float,
        0x05 => T::String,
        0x06 => T::Regexp,
        0x07 => T::Array,
        0x08 => T::Hash,
        0x09 => T::Struct,
        0x0a => T::Bignum,
        0x0b => T::File,
        0x0c => T::Data,
        0x0d => T::Match,
        0x0e => T::Complex,
        0x0f => T::Rational,
        0x14 => T::Symbol,
        T_IMEMO => T::Imemo,
        0x1b => T::Node,
        0x1c => T::Iclass,
        0x1d => T::Zombie,
        0x1e => T::Moved,
        _ => T::Unknown,
    };
    Category::RubyLive(ruby_type)
}
