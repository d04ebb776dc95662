//! The pointers to malloc memory held by Ruby objects, and the sum of the chunks they match.
//!
//! [`Owned`] is filled while the slots are walked and then receives every live chunk of the malloc walk. A
//! pointer takes four bytes: heaps are divided into windows of 64 MiB, so that 22 bits give the address
//! (chunks lie at multiples of 16) and five bits the object's type. Beyond `MAX_POINTERS` a random half is
//! dropped, then a quarter …, and the rest is scaled. The result is then an estimate, as [`Owned::share`]
//! shows.

use std::collections::HashMap;

/// Size of a window.
const WINDOW_BYTES: u64 = 64 << 20;
/// malloc's user addresses are multiples of this (`MALLOC_ALIGNMENT`, malloc/malloc-alignment.h, 64-bit).
const ALIGNMENT: u64 = 16;
/// Number of possible chunk addresses in a window.
const PLACES: usize = (WINDOW_BYTES / ALIGNMENT) as usize;
/// Bits of an address within a window; the type code is stored above.
const PLACE_BITS: u32 = PLACES.trailing_zeros();
/// Maximum number of pointers kept: 16 MiB, or twice that with the spare capacity of growing vectors.
const MAX_POINTERS: usize = 4 << 20;

/// Pointers by window, and the bytes found by type code.
#[derive(Debug, Default)]
pub struct Owned {
    windows: HashMap<u64, Vec<u32>>,
    /// The window being filled: neighbors mostly own neighbors.
    filling: (u64, Vec<u32>),
    pointers: usize,
    /// One in `1 << sampling` addresses is considered.
    sampling: u32,
    /// The window prepared for lookups, with the type code of each of its addresses, or 0.
    open: Option<u64>,
    places: Vec<u8>,
    bytes: [u64; 32],
}

impl super::owners::Taker for Owned {
    /// Remembers that an object of this type code holds `pointer`.
    fn take(&mut self, pointer: u64, owner: u32) {
        self.insert(pointer, owner as u8);
    }
}

impl Owned {
    /// Records that an object of the type `code` holds `pointer`.
    pub(super) fn insert(&mut self, pointer: u64, code: u8) {
        if !pointer.is_multiple_of(ALIGNMENT) || !self.sampled(pointer) {
            return;
        }
        let place = (pointer % WINDOW_BYTES / ALIGNMENT) as u32;
        self.fill(pointer / WINDOW_BYTES);
        self.filling.1.push(u32::from(code) << PLACE_BITS | place);
        self.pointers += 1;
        if self.pointers > MAX_POINTERS {
            self.halve();
        }
    }

    /// Receives a live chunk with `bytes` of user memory at `user`. Fast if neighbors arrive in sequence.
    pub fn chunk(&mut self, user: u64, bytes: u64) {
        if !user.is_multiple_of(ALIGNMENT) || !self.sampled(user) {
            return;
        }
        let window = user / WINDOW_BYTES;
        if self.open != Some(window) {
            self.lay_out(window);
        }
        let place = (user % WINDOW_BYTES / ALIGNMENT) as usize;
        if let Some(&code) = self.places.get(place).filter(|&&code| code != 0) {
            self.bytes[usize::from(code)] += bytes << self.sampling;
        }
    }

    /// Returns the bytes by type code of the chunks received so far.
    #[must_use]
    pub fn bytes(&self) -> &[u64; 32] {
        &self.bytes
    }

    /// Returns the share of pointers kept if there were too many, in which case the sums are estimates.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.sampling > 0).then(|| 0.5f64.powi(self.sampling as i32))
    }

    fn sampled(&self, pointer: u64) -> bool {
        // Fibonacci hashing: the upper bits of the product are evenly distributed.
        let hash = (pointer / ALIGNMENT).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.sampling == 0 || hash >> (64 - self.sampling) == 0
    }

    fn fill(&mut self, window: u64) {
        if self.filling.0 != window {
            let next = (window, self.windows.remove(&window).unwrap_or_default());
            let (window, entries) = std::mem::replace(&mut self.filling, next);
            self.windows.insert(window, entries);
        }
    }

    fn halve(&mut self) {
        self.sampling += 1;
        self.fill(u64::MAX);
        let mut windows = std::mem::take(&mut self.windows);
        for (window, entries) in &mut windows {
            let address = |entry: u32| window * WINDOW_BYTES + u64::from(entry) % PLACES as u64 * ALIGNMENT;
            entries.retain(|&entry| self.sampled(address(entry)));
            entries.shrink_to_fit();
        }
        self.pointers = windows.values().map(Vec::len).sum();
        self.windows = windows;
    }

    fn lay_out(&mut self, window: u64) {
        self.fill(u64::MAX);
        self.open = Some(window);
        self.places.clear();
        let Some(entries) = self.windows.get(&window) else { return };
        self.places.resize(PLACES, 0);
        for &entry in entries.iter().rev() {
            self.places[entry as usize % PLACES] = (entry >> PLACE_BITS) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_belongs_to_the_first_that_points_at_it() {
        let mut owned = Owned::default();
        let far = 5 * WINDOW_BYTES + 4096;
        for (pointer, code) in [(0x1000, 5), (far, 7), (0x1000, 8), (0x2008, 5), (far + 16, 31)] {
            owned.insert(pointer, code);
        }
        for (user, bytes) in [(0x1000, 100), (0x1010, 1), (0x2008, 1), (far, 40), (far + 16, 2)] {
            owned.chunk(user, bytes);
        }
        let found = [5, 7, 8, 31].map(|code| owned.bytes()[code]);
        assert_eq!((found, owned.share()), ([100, 40, 0, 2], None));
    }

    #[test]
    fn too_many_pointers_become_a_sample_whose_sum_is_close() {
        let mut owned = Owned::default();
        let count = 2 * MAX_POINTERS as u64 + 1000;
        (0..count).for_each(|i| owned.insert(i * 48, 5));
        assert!(owned.pointers <= MAX_POINTERS);
        (0..count).for_each(|i| owned.chunk(i * 48, 40));
        let (found, all) = (owned.bytes()[5] as f64, (count * 40) as f64);
        assert!((found / all - 1.0).abs() < 0.01, "{found} of {all}");
        assert_eq!(owned.share(), Some(0.25));
    }
}
