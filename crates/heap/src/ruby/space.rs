//! A copy of the live slots of a Ruby heap, searchable by address.
//!
//! Slots are numbered in order of address, including free ones. A word from the target is an object only if
//! [`Space::find`] finds it: it must be the address of a slot with an object at the time of the copy.

use super::pages::{HeapPage, HeapPages};
use super::slots::{self, Slot};
use super::words::word;
use unbloat_process::{Memory, Result};

/// Gap between pages from which on they are in different clusters.
const MAX_GAP_BYTES: u64 = 64 << 20;
/// Maximum number of copied slots, whatever the pages claim: four thousand million bytes of the smallest.
const MAX_SLOTS: u64 = 100 << 20;

/// The copy.
#[derive(Debug, Default)]
pub(crate) struct Space {
    pages: Vec<Page>,
    clusters: Vec<Cluster>,
    page_bytes: u64,
    bytes: Vec<u8>,
    slots: u32,
}

/// The location of the slots of one heap page.
#[derive(Debug, Clone, Copy)]
struct Page {
    first: u64,
    end: u64,
    slot_bytes: u32,
    /// The number of its first slot.
    number: u32,
    /// The offset of its first slot in the copy.
    at: usize,
}

/// Neighboring pages, by address: `index[i]` is one more than the number of the page at `start + i` pages, or 0.
#[derive(Debug)]
struct Cluster {
    start: u64,
    index: Vec<u32>,
}

impl Space {
    /// Copies the live slots. The memory must be a view that touches only resident pages.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(crate) fn read(memory: &dyn Memory, pages: &HeapPages) -> Result<Self> {
        let mut space = Space { page_bytes: pages.layout.page_bytes.max(1), ..Space::default() };
        for page in pages.pages.iter().filter(|page| page.slots > 0 && page.slot_bytes > 0) {
            space.add(page);
        }
        space.bytes = vec![0; space.pages.last().map_or(0, |page| page.at + page.len())];
        let mut last = None;
        slots::walk(memory, pages, |_, _| {}, |slot| space.copy(slot, &mut last))?;
        Ok(space)
    }

    fn add(&mut self, page: &HeapPage) {
        if u64::from(self.slots) + u64::from(page.slots) > MAX_SLOTS {
            return;
        }
        let range = page.slot_range();
        let at = self.pages.last().map_or(0, |page| page.at + page.len());
        let number = self.slots;
        self.slots += u32::from(page.slots);
        let slot_bytes = u32::from(page.slot_bytes);
        self.pages.push(Page { first: range.start, end: range.end, slot_bytes, number, at });
        let place = page.body / self.page_bytes;
        let near = self.clusters.last().filter(|cluster| {
            let end = cluster.start + cluster.index.len() as u64;
            place >= end && place - end <= MAX_GAP_BYTES / self.page_bytes
        });
        if near.is_none() {
            self.clusters.push(Cluster { start: place, index: Vec::new() });
        }
        if let Some(cluster) = self.clusters.last_mut() {
            cluster.index.resize((place - cluster.start) as usize, 0);
            cluster.index.push(self.pages.len() as u32);
        }
    }

    fn copy(&mut self, slot: Slot<'_>, last: &mut Option<Page>) {
        let page = last.filter(|page| (page.first..page.end).contains(&slot.address));
        let Some(page) = page.or_else(|| self.page_of(slot.address)) else { return };
        *last = Some(page);
        let at = page.at + (slot.address - page.first) as usize;
        if let Some(place) = self.bytes.get_mut(at..at + slot.bytes.len()) {
            place.copy_from_slice(slot.bytes);
        }
    }

    fn page_of(&self, address: u64) -> Option<Page> {
        let place = address / self.page_bytes;
        let cluster = match self.clusters.as_slice() {
            [only] => only,
            many => &many[many.partition_point(|cluster| cluster.start <= place).checked_sub(1)?],
        };
        let number = *cluster.index.get(usize::try_from(place.checked_sub(cluster.start)?).ok()?)?;
        let page = *self.pages.get(number.checked_sub(1)? as usize)?;
        (page.first..page.end).contains(&address).then_some(page)
    }

    /// Returns the number of slots, including free ones; all numbers are below this.
    pub(crate) fn len(&self) -> u32 {
        self.slots
    }

    /// Returns whether a slot starts at this address, with or without an object.
    pub(crate) fn is_slot(&self, address: u64) -> bool {
        self.page_of(address)
            .is_some_and(|page| ((address - page.first) as u32).is_multiple_of(page.slot_bytes))
    }

    /// Returns the slot around an address, with or without an object, as its first address and its size; `None`
    /// outside of slots. `Some(None)` on a page of the heap, before or behind its slots.
    pub(crate) fn around(&self, address: u64) -> Option<Option<(u64, u64)>> {
        let place = address / self.page_bytes;
        let after = self.clusters.partition_point(|cluster| cluster.start <= place);
        let cluster = self.clusters.get(after.checked_sub(1)?)?;
        let number = *cluster.index.get(usize::try_from(place - cluster.start).ok()?)?;
        let page = self.pages.get(number.checked_sub(1)? as usize)?;
        let slot_bytes = u64::from(page.slot_bytes);
        let within = (page.first..page.end).contains(&address);
        Some(within.then(|| (page.first + (address - page.first) / slot_bytes * slot_bytes, slot_bytes)))
    }

    /// Returns the slot with this number, if it has an object.
    pub(crate) fn slot(&self, number: u32) -> Option<Slot<'_>> {
        let after = self.pages.partition_point(|page| page.number <= number);
        let page = self.pages.get(after.checked_sub(1)?)?;
        let offset = u64::from(number - page.number) * u64::from(page.slot_bytes);
        page.slot(&self.bytes, offset).filter(|slot| slot.code() != 0)
    }

    /// Returns the number of the object at this address.
    pub(crate) fn find(&self, address: u64) -> Option<u32> {
        if !address.is_multiple_of(8) {
            return None;
        }
        let page = self.page_of(address)?;
        let offset = (address - page.first) as u32;
        if !offset.is_multiple_of(page.slot_bytes) {
            return None;
        }
        let live = *self.bytes.get(page.at + offset as usize)? & 0x1f != 0;
        live.then(|| page.number + offset / page.slot_bytes)
    }

    /// Returns the object at this address.
    pub(crate) fn object(&self, address: u64) -> Option<Slot<'_>> {
        let page = self.page_of(address)?;
        self.find(address).and_then(|_| page.slot(&self.bytes, address - page.first))
    }

    /// Returns the object at this address, if it has this type code.
    pub(crate) fn of_type(&self, address: u64, code: u8) -> Option<Slot<'_>> {
        self.object(address).filter(|slot| slot.code() == code)
    }

    /// Iterates over all objects with their numbers, in order of address.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (u32, Slot<'_>)> {
        self.pages.iter().flat_map(|page| {
            let offsets = (0..page.end - page.first).step_by(page.slot_bytes as usize);
            let slots = offsets
                .enumerate()
                .filter_map(|(i, offset)| Some((page.number + i as u32, page.slot(&self.bytes, offset)?)));
            slots.filter(|(_, slot)| slot.code() != 0)
        })
    }
}

impl Page {
    fn len(&self) -> usize {
        (self.end - self.first) as usize
    }

    fn slot<'a>(&self, bytes: &'a [u8], offset: u64) -> Option<Slot<'a>> {
        let at = self.at + offset as usize;
        let bytes = bytes.get(at..at + self.slot_bytes as usize)?;
        Some(Slot { address: self.first + offset, flags: word(bytes, 0)?, bytes })
    }
}
