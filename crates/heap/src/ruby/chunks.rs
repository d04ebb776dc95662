//! The chunks of malloc memory that a program holds, in order of address.

use crate::allocators::Observer;
use crate::sharing::SharedPages;
use std::cell::Cell;
use std::ops::Range;

/// Maximum number of chunks: 512 MiB of entries.
const MAX_CHUNKS: usize = 64 << 20;
/// User addresses are multiples of this.
const ALIGNMENT: u64 = 16;
/// Number of bits of an entry for the usable bytes, in units of eight; the address is above them.
const SIZE_BITS: u32 = 24;
const MAX_SIZE: u64 = (1 << SIZE_BITS) - 1;

/// The chunks. An entry takes eight bytes: the address in units of 16 in the upper 40 bits (16 TiB from
/// `base` on), the usable bytes in units of eight below. Chunks larger than 128 MiB count as that size.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    entries: Vec<u64>,
    /// The lower end of a region of chunks; those of the program break are far below the others.
    bases: Vec<u64>,
    sorted: bool,
    /// The chunk that was found last; the next one is often its neighbor.
    last: Cell<usize>,
}

/// Bytes that one base covers.
const REACH_BYTES: u64 = 1 << 40;
/// Places below a base, in units of 16 bytes.
const PLACES: u64 = REACH_BYTES / ALIGNMENT;

impl Chunks {
    /// Sorts the chunks for lookups.
    pub(crate) fn sort(&mut self) {
        self.entries.sort_unstable();
        self.entries.dedup_by_key(|entry| *entry >> SIZE_BITS);
        self.sorted = true;
    }

    /// Returns the number of chunks.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the usable bytes of all chunks.
    pub(crate) fn total(&self) -> u64 {
        (0..self.len()).map(|number| self.bytes(number)).sum()
    }

    /// Returns the number of the chunk with this user address, and its usable bytes.
    pub(crate) fn find(&self, user: u64) -> Option<(usize, u64)> {
        debug_assert!(self.sorted, "looked up before they were sorted");
        if user == 0 || !user.is_multiple_of(ALIGNMENT) {
            return None;
        }
        let key = self.key(user)?;
        let place = |entry: u64| entry >> SIZE_BITS;
        // Neighboring objects mostly have neighboring chunks.
        let near = self.last.get();
        let near = (near..near + 8).find(|&i| self.entries.get(i).is_some_and(|&entry| place(entry) == key));
        let at = near.or_else(|| self.entries.binary_search_by_key(&key, |&entry| place(entry)).ok())?;
        self.last.set(at);
        Some((at, self.bytes(at)))
    }

    /// Returns the number of the chunk that contains an address, and the offset of the address in it; headers lie before.
    pub(crate) fn around(&self, address: u64) -> Option<(usize, u64)> {
        let key = self.key(address)?;
        let after = self.entries.partition_point(|&entry| entry >> SIZE_BITS <= key);
        let number = after.checked_sub(1)?;
        let start = self.entries.get(number)? >> SIZE_BITS;
        let offset = (key - start) * ALIGNMENT + address % ALIGNMENT;
        (offset < self.bytes(number)).then_some((number, offset))
    }

    /// Returns whether a chunk starts in this range of addresses.
    pub(crate) fn any_in(&self, range: &Range<u64>) -> bool {
        let place = |address: u64| self.key(address);
        let (Some(start), Some(end)) = (place(range.start), place(range.end.saturating_sub(1))) else {
            return false;
        };
        let first = self.entries.partition_point(|&entry| entry >> SIZE_BITS < start);
        self.entries.get(first).is_some_and(|&entry| entry >> SIZE_BITS <= end)
    }

    /// Returns the usable bytes of a chunk by its number.
    pub(crate) fn bytes(&self, number: usize) -> u64 {
        self.entries.get(number).map_or(0, |entry| (entry & MAX_SIZE) * 8)
    }

    fn key(&self, user: u64) -> Option<u64> {
        let base = user / REACH_BYTES;
        let index = self.bases.iter().position(|&known| known == base)? as u64;
        Some(index * PLACES + user % REACH_BYTES / ALIGNMENT)
    }
}

impl Observer for Chunks {
    fn block(&mut self, usable: Range<u64>, _resident_bytes: u64) {
        let base = usable.start / REACH_BYTES;
        if !self.bases.contains(&base) {
            // The bits of an address allow 16 bases of a TiB each.
            if self.bases.len() >= 16 {
                return;
            }
            self.bases.push(base);
        }
        let Some(key) = self.key(usable.start).filter(|_| usable.start.is_multiple_of(ALIGNMENT)) else {
            return;
        };
        if self.entries.len() < MAX_CHUNKS {
            self.sorted = false;
            self.entries.push(key << SIZE_BITS | (usable.end.saturating_sub(usable.start) / 8).min(MAX_SIZE));
        }
    }
}

/// Sums of chunks by owner: each chunk belongs to the first object that points at it.
#[derive(Debug)]
pub(crate) struct Claims<'a> {
    chunks: &'a Chunks,
    taken: Vec<u64>,
    shared: Option<&'a SharedPages>,
    /// Usable bytes by owner.
    pub(crate) bytes: Vec<u64>,
    /// Their usable bytes on pages shared with the parent, by owner.
    pub(crate) shared_bytes: Vec<u64>,
}

impl<'a> Claims<'a> {
    /// Creates sums in which no chunk has an owner.
    pub(crate) fn new(chunks: &'a Chunks, shared: Option<&'a SharedPages>) -> Self {
        let taken = vec![0; chunks.len().div_ceil(64)];
        Claims { chunks, taken, shared, bytes: Vec::new(), shared_bytes: Vec::new() }
    }

    /// Returns whether the chunk with this number has an owner.
    pub(crate) fn is_taken(&self, number: usize) -> bool {
        self.taken.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

impl super::owners::Taker for Claims<'_> {
    fn take(&mut self, pointer: u64, owner: u32) {
        let Some((number, bytes)) = self.chunks.find(pointer) else { return };
        if self.is_taken(number) {
            return;
        }
        let owner = owner as usize;
        if self.bytes.len() <= owner {
            self.bytes.resize(owner + 1, 0);
            self.shared_bytes.resize(owner + 1, 0);
        }
        self.bytes[owner] += bytes;
        self.shared_bytes[owner] += self.shared.map_or(0, |shared| shared.within(pointer, bytes));
        self.taken[number / 64] |= 1 << (number % 64);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::owners::Taker as _;
    use super::*;

    #[test]
    fn a_chunk_is_found_by_its_address_and_belongs_to_the_first_that_points_at_it() {
        let mut chunks = Chunks::default();
        for (start, bytes) in [(0x7f00_0000_1000, 40), (0x5555_0000_0010, 24), (0x7f00_0000_0010, 1 << 20)] {
            chunks.block(start..start + bytes, 0);
        }
        chunks.sort();
        assert_eq!(chunks.find(0x5555_0000_0010).unwrap().1, 24);
        assert_eq!(chunks.find(0x7f00_0000_0010).unwrap().1, 1 << 20);
        assert_eq!(chunks.find(0x7f00_0000_0018), None);
        assert_eq!(chunks.find(0x1000), None);
        let mut claims = Claims::new(&chunks, None);
        for (pointer, owner) in [(0x7f00_0000_1000, 1), (0x7f00_0000_1000, 0), (0x5555_0000_0010, 0), (8, 0)]
        {
            claims.take(pointer, owner);
        }
        assert_eq!(claims.bytes, [24, 40]);
    }
}
