//! Reading chunks out of a copied piece of a heap, trusting nothing.
//!
//! A chunk at `p` has its size, with three flag bits, at `p + 8` and its user memory from `p + 16` on. It is free when
//! the *next* chunk's `PREV_IN_USE` bit is clear; then the next chunk's first word repeats the size ("foot"), which is
//! checked. Chunks in a thread cache or fastbin look as if in use. (`struct malloc_chunk`, malloc/malloc.c.)

use super::layout::{ALIGNMENT, CHUNK_HEADER, FLAGS, IS_MMAPPED, MIN_CHUNK, PREV_IN_USE};
use std::ops::Range;

/// A copied, page-aligned piece of a heap.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    start: u64,
    bytes: &'a [u8],
}

/// What stands at a place where a chunk should start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A chunk that ends within the window.
    Chunk {
        /// Its size.
        size: u64,
        /// It is in a bin.
        free: bool,
    },
    /// A chunk whose successor lies outside of the window, so that its state cannot be seen.
    Long {
        /// Its size.
        size: u64,
    },
    /// The two words that end a heap or a run of the main arena; `size` bytes belong to it.
    Fencepost {
        /// Bytes, 16.
        size: u64,
    },
    /// The end of a heap that is not the newest.
    End,
    /// The header itself lies outside of the window.
    Outside,
    /// Nothing that malloc would have written.
    Broken(Break),
}

/// What is wrong at a place where a chunk should start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Break {
    /// Where the chunk should start.
    pub address: u64,
    /// The two words there: equal ones at every later look mean damage, not change.
    pub words: [u64; 2],
}

impl<'a> Window<'a> {
    /// `bytes` as copied from `start` on.
    #[must_use]
    pub fn new(start: u64, bytes: &'a [u8]) -> Self {
        Window { start, bytes }
    }

    /// Addresses of the window.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes.len() as u64
    }

    /// The word at an address, if it lies in the window.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        Some(u64::from_le_bytes(self.bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
    }

    /// What stands at `address`, in a heap that ends at `end`.
    #[must_use]
    pub fn place(&self, address: u64, end: u64) -> Place {
        let (Some(foot), Some(head)) = (self.word(address), self.word(address + 8)) else {
            return Place::Outside;
        };
        let broken = Place::Broken(Break { address, words: [foot, head] });
        let size = head & !FLAGS;
        match size {
            0 if head == PREV_IN_USE => return Place::End,
            0 => return broken,
            CHUNK_HEADER => return Place::Fencepost { size },
            _ => {}
        }
        let next = address.saturating_add(size);
        if size < MIN_CHUNK
            || !size.is_multiple_of(ALIGNMENT)
            || head & IS_MMAPPED != 0
            || next.saturating_add(CHUNK_HEADER) > end
        {
            return broken;
        }
        let (Some(next_foot), Some(next_head)) = (self.word(next), self.word(next + 8)) else {
            return Place::Long { size };
        };
        match next_head & PREV_IN_USE != 0 {
            true => Place::Chunk { size, free: false },
            false if next_foot == size => Place::Chunk { size, free: true },
            false => broken,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn window(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    #[test]
    fn places_are_told_apart() {
        // In use (32), free (32), in use (48) to the end of the window, then nothing.
        let bytes = window(&[0, 0x21, 1, 2, 0, 0x21, 3, 4, 0x20, 0x30, 5, 6, 0, 0]);
        let w = Window::new(0x1000, &bytes);
        assert_eq!(w.place(0x1000, 0x9000), Place::Chunk { size: 32, free: false });
        assert_eq!(w.place(0x1020, 0x9000), Place::Chunk { size: 32, free: true });
        assert_eq!(w.place(0x1040, 0x9000), Place::Long { size: 48 });
        assert_eq!(w.place(0x1040, 0x1070), Place::Broken(Break { address: 0x1040, words: [0x20, 0x30] }));
        assert_eq!(w.place(0x1070, 0x9000), Place::Outside);
        assert!(matches!(w.place(0x1060, 0x9000), Place::Broken(_)));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_can_be_looked_at(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..256), at: u64, end: u64) {
            let _ = Window::new(0x7f00_0000_0000, &bytes).place(at.min(u64::MAX - 16), end);
        }
    }
}
