//! Observers of a walk over chunks: every chunk and every byte's use, in order of address within a span.
//!
//! Nothing is told before it was checked: a piece of a heap that had to be read again is told once.

use crate::model::Category;
use std::ops::Range;

/// A stretch of an arena's memory with chunks from one end to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Address of the arena's `malloc_state`.
    pub arena: u64,
    /// It is of the main arena.
    pub main: bool,
    /// First and last address: structures before the first chunk included.
    pub range: Range<u64>,
    /// Where the first chunk starts.
    pub first_chunk: u64,
    /// The arena's top chunk lies in it.
    pub has_top: bool,
}

/// What malloc uses a chunk for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChunkState {
    /// The program holds it.
    Live,
    /// In a thread cache or fastbin.
    Cached,
    /// In a bin.
    Free,
    /// The arena's top.
    Top,
    /// malloc's own: a thread cache's structure, the end of a heap.
    Overhead,
    /// The program holds it and it has a mapping of its own.
    Mapped,
}

/// A chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Its address; user memory starts 16 bytes later.
    pub address: u64,
    /// Its size with header. User memory reaches 8 bytes into the next chunk, except for mapped chunks.
    pub size: u64,
    /// What it is used for.
    pub state: ChunkState,
    /// Bytes of it on resident pages.
    pub resident_bytes: u64,
}

impl Chunk {
    /// Addresses of its user memory, which end 8 bytes after the chunk's own end.
    #[must_use]
    pub fn user(&self) -> Range<u64> {
        let end = self.address + self.size;
        self.address + 16..if self.state == ChunkState::Mapped { end } else { end + 8 }
    }
}

/// Who is told.
pub trait Observer {
    /// A span starts.
    fn span(&mut self, span: &Span) {
        let _ = span;
    }

    /// A chunk; in order of address within a span.
    fn chunk(&mut self, chunk: &Chunk) {
        let _ = chunk;
    }

    /// Bytes, resident or not, that belong to one category. Ranges of a span are disjoint and, together with the claims
    /// (Ruby pages), cover it.
    fn bytes(&mut self, range: Range<u64>, category: Category) {
        let _ = (range, category);
    }
}

/// Nobody.
impl Observer for () {}
