//! Observers of a walk over chunks, which receive every chunk and every byte's use, in address order within a
//! span.
//!
//! Everything is checked before it is reported; a piece of a heap that had to be read again is reported once.

use crate::model::Category;
use std::ops::Range;

/// A stretch of an arena's memory filled with chunks from end to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Address of the arena's `malloc_state`.
    pub arena: u64,
    /// The arena is the main one.
    pub main: bool,
    /// Its addresses, including any structures before the first chunk.
    pub range: Range<u64>,
    /// Address of the first chunk.
    pub first_chunk: u64,
    /// The arena's top chunk lies in it.
    pub has_top: bool,
}

/// The use of a chunk by malloc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChunkState {
    /// Held by the program.
    Live,
    /// In a thread cache or fastbin.
    Cached,
    /// In a bin.
    Free,
    /// The arena's top.
    Top,
    /// Used by malloc itself: the structure of a thread cache, the end of a heap.
    Overhead,
    /// Held by the program, with its own mapping.
    Mapped,
}

/// A chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Its address; user memory starts 16 bytes later.
    pub address: u64,
    /// Its size with header. User memory reaches 8 bytes into the next chunk, except for mapped chunks.
    pub size: u64,
    /// Its use.
    pub state: ChunkState,
    /// Its bytes on resident pages.
    pub resident_bytes: u64,
}

impl Chunk {
    /// Addresses of its user memory, which ends 8 bytes after the chunk's own end.
    #[must_use]
    pub fn user(&self) -> Range<u64> {
        let end = self.address + self.size;
        self.address + 16..if self.state == ChunkState::Mapped { end } else { end + 8 }
    }
}

/// A receiver of chunks and bytes.
pub trait Observer {
    /// Receives the start of a span.
    fn span(&mut self, span: &Span) {
        let _ = span;
    }

    /// Receives a chunk, in address order within a span.
    fn chunk(&mut self, chunk: &Chunk) {
        let _ = chunk;
    }

    /// Receives bytes, resident or not, that belong to one category. The ranges of a span are disjoint and,
    /// together with the claims (Ruby pages), cover it.
    fn bytes(&mut self, range: Range<u64>, category: Category) {
        let _ = (range, category);
    }
}

/// An observer that ignores everything.
impl Observer for () {}
