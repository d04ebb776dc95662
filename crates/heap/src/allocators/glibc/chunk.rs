//! Parses chunks in a copied piece of a heap without trusting its contents.
//!
//! A chunk at `p` has its size, with three flag bits, at `p + 8` and its user memory from `p + 16` on. It is
//! free when the *next* chunk's `PREV_IN_USE` bit is clear; then the next chunk's first word repeats the size
//! ("foot"), which is checked. Chunks in a thread cache or fastbin look as if they were in use. (`struct
//! malloc_chunk`, malloc/malloc.c.)

use super::layout::{ALIGNMENT, CHUNK_HEADER, FLAGS, IS_MMAPPED, MIN_CHUNK, PREV_IN_USE};
use std::ops::Range;

/// A copied, page-aligned piece of a heap.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    start: u64,
    bytes: &'a [u8],
}

/// The contents of a place where a chunk should start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A chunk that ends within the window.
    Chunk {
        /// Its size.
        size: u64,
        /// The chunk is in a bin.
        free: bool,
    },
    /// A chunk whose successor lies outside the window, so that its state is not visible.
    Long {
        /// Its size.
        size: u64,
    },
    /// The two words that end a heap or a run of the main arena; `size` bytes belong to them.
    Fencepost {
        /// Bytes: 16.
        size: u64,
    },
    /// The end of a heap other than the newest.
    End,
    /// The header itself lies outside the window.
    Outside,
    /// Words that malloc would never have written.
    Broken(Break),
}

/// An invalid chunk header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Break {
    /// The address where a chunk should start.
    pub address: u64,
    /// The two words found there. If they are still the same at every later look, they are damage rather than
    /// a change.
    pub words: [u64; 2],
}

impl<'a> Window<'a> {
    /// Wraps `bytes` copied from address `start`.
    #[must_use]
    pub fn new(start: u64, bytes: &'a [u8]) -> Self {
        Window { start, bytes }
    }

    /// Returns the addresses of the window.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes.len() as u64
    }

    /// Returns the word at an address, if it lies in the window.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        Some(u64::from_le_bytes(self.bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
    }

    /// Classifies the contents of `address`, in a heap that ends at `end`.
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
        // In use (32), free (32), in use (48) up to the end of the window, then nothing.
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
