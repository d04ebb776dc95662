//! Thread caches: `tcache_perthread_struct` (malloc/malloc.c).
//!
//! | glibc | counters | lists | chunk |
//! |---|---|---|---|
//! | 2.27 to 2.29 | 64 of one byte, chunks in the list | 64 | 0x250 |
//! | 2.30 to 2.41 | 64 of two bytes, chunks in the list | 64 | 0x290 |
//! | 2.42 and newer | 76 of two bytes, *free places* | 64, and 12 for chunks up to 4 MiB | 0x300 |
//!
//! The structure is an ordinary chunk, so its size identifies the form (or that size plus 16 bytes, when a
//! remainder would have been too small). List `i` of the first 64 has chunks of 32 + 16 `i` bytes; a list's
//! head is not mangled, its links are.

use super::bins::{List, follow_all};
use super::layout::{ALIGNMENT, CHUNK_HEADER, MIN_CHUNK};
use super::marks::Marks;
use super::threads::ThreadState;
use super::{Glibc, threads};
use std::ops::Range;
use unbloat_process::{Memory, Pid, ResidentOnly, Result, page_size};

/// Number of lists with chunks of one size.
const SMALL_LISTS: usize = 64;
/// Upper bound on the length of a list: `MAX_TCACHE_COUNT` is `UINT16_MAX`.
const MAX_COUNT: u64 = 65_535;

/// The three forms of the structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheLayout {
    /// One-byte counters.
    Bytes,
    /// Two-byte counters.
    Halves,
    /// Two-byte counters that count down, and lists for large chunks.
    Large,
}

impl CacheLayout {
    /// Returns the form whose structure occupies a chunk of this size.
    #[must_use]
    pub fn of_chunk_size(size: u64) -> Option<Self> {
        [CacheLayout::Bytes, CacheLayout::Halves, CacheLayout::Large]
            .into_iter()
            .find(|layout| (layout.chunk_size()..=layout.chunk_size() + ALIGNMENT).contains(&size))
    }

    fn chunk_size(self) -> u64 {
        (self.bytes() as u64 + 8).next_multiple_of(ALIGNMENT)
    }

    fn lists(self) -> usize {
        if self == CacheLayout::Large { SMALL_LISTS + 12 } else { SMALL_LISTS }
    }

    fn counter_bytes(self) -> usize {
        if self == CacheLayout::Bytes { 1 } else { 2 }
    }

    fn heads(self) -> usize {
        self.counter_bytes() * self.lists()
    }

    fn bytes(self) -> usize {
        self.heads() + 8 * self.lists()
    }

    /// Parses the lists of a cache, each with the maximum number of its chunks.
    fn parse(self, bytes: &[u8], owner: usize) -> Option<Vec<List>> {
        let head = |i: usize| {
            let at = self.heads() + 8 * i;
            Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
        };
        let counter = |i: usize| match self {
            CacheLayout::Bytes => bytes.get(i).map(|&count| u64::from(count)),
            _ => Some(u64::from(u16::from_le_bytes(bytes.get(2 * i..2 * i + 2)?.try_into().ok()?))),
        };
        let mut lists = Vec::new();
        for i in 0..self.lists() {
            let (at, counter) = (head(i)?, counter(i)?);
            if at == 0 {
                continue;
            }
            if at % ALIGNMENT != 0 || at < page_size() {
                return None;
            }
            let left = if self == CacheLayout::Large { MAX_COUNT } else { counter };
            let size = (i < SMALL_LISTS).then(|| MIN_CHUNK + ALIGNMENT * i as u64);
            lists.push(List { at, size, link_to_user: 0, left, owner });
        }
        Some(lists)
    }
}

/// The contents of all threads' caches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caches {
    /// The threads, in the order in which they were passed.
    pub threads: Vec<ThreadState>,
    /// Chunks and bytes of each thread's cache.
    pub held: Vec<(u64, u64)>,
    /// All cached chunks.
    pub chunks: Marks,
    /// The chunks that hold the caches' own structures.
    pub structures: Marks,
    /// Sorted ranges that contain chunks.
    spans: Vec<Range<u64>>,
}

impl Caches {
    /// Reads the threads' caches. `spans`: sorted ranges that contain chunks.
    ///
    /// # Errors
    /// The process is gone or may not be read.
    pub fn read(
        glibc: &Glibc,
        memory: &dyn Memory,
        threads: &[unbloat_process::Thread],
        arenas: &[u64],
        spans: &[Range<u64>],
    ) -> Result<Self> {
        let careful = ResidentOnly::new(memory);
        let is_cache = |address| inside(spans, address) && structure(&careful, address).is_some();
        let threads = threads::read(&careful, threads, arenas, &is_cache)?;
        let mut caches = Caches { threads, spans: spans.to_vec(), ..Caches::default() };
        caches.reread(glibc, memory)?;
        Ok(caches)
    }

    /// Reads the caches' contents again.
    ///
    /// # Errors
    /// The process is gone or may not be read.
    pub fn reread(&mut self, glibc: &Glibc, memory: &dyn Memory) -> Result<()> {
        let careful = ResidentOnly::new(memory);
        let (mut lists, mut structures, mut chunks) = (Vec::new(), Vec::new(), Vec::new());
        for (owner, thread) in self.threads.iter().enumerate() {
            let Some((address, parsed)) = thread.cache.and_then(|at| Some((at, structure(&careful, at)?)))
            else {
                continue;
            };
            structures.push(address - CHUNK_HEADER);
            lists.extend(parsed.into_iter().map(|list| List { owner, ..list }));
        }
        let mut held = vec![(0, 0); self.threads.len()];
        follow_all(memory, glibc.mangles_links(), lists, |owner, chunk, size| {
            let fits = inside(&self.spans, chunk) && chunks.len() < Marks::MAX;
            if let Some((count, bytes)) = held.get_mut(owner).filter(|_| fits) {
                chunks.push(chunk);
                *count += 1;
                *bytes += size;
            }
            fits
        })?;
        (self.held, self.chunks, self.structures) = (held, Marks::new(chunks), Marks::new(structures));
        Ok(())
    }

    /// Returns the threads of an arena, with their caches' contents (from any arena).
    #[must_use]
    pub fn of_arena(&self, arena: u64) -> Vec<crate::model::ThreadCache> {
        let of_arena = self.threads.iter().zip(&self.held).filter(|(thread, _)| thread.arena == Some(arena));
        of_arena
            .map(|(thread, &(cached_chunks, cached_bytes))| crate::model::ThreadCache {
                tid: thread.tid,
                name: thread.name.clone(),
                cached_chunks,
                cached_bytes,
            })
            .collect()
    }

    /// Returns the threads whose arena is unknown.
    #[must_use]
    pub fn unknown(&self) -> Vec<Pid> {
        self.threads.iter().filter(|thread| thread.arena.is_none()).map(|thread| thread.tid).collect()
    }
}

fn inside(spans: &[Range<u64>], address: u64) -> bool {
    let next = spans.partition_point(|span| span.end <= address);
    spans.get(next).is_some_and(|span| span.start <= address)
}

/// Returns the lists of the cache at an address, if there can be one.
fn structure(memory: &dyn Memory, address: u64) -> Option<Vec<List>> {
    let layout = threads::may_be_cache(memory, address)?;
    let mut bytes = vec![0; layout.bytes()];
    memory.read(address, &mut bytes).ok()?;
    layout.parse(&bytes, 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Sizes of `tcache_perthread_struct` from debugging information: 576, 640 and 760 bytes.
    #[test]
    fn the_chunks_size_tells_the_form() {
        let forms = [CacheLayout::Bytes, CacheLayout::Halves, CacheLayout::Large];
        assert_eq!(forms.map(CacheLayout::bytes), [576, 640, 760]);
        assert_eq!(forms.map(CacheLayout::chunk_size), [0x250, 0x290, 0x300]);
        assert_eq!(CacheLayout::of_chunk_size(0x2a0), Some(CacheLayout::Halves));
        assert_eq!(CacheLayout::of_chunk_size(0x2b0), None);
    }

    #[test]
    fn lists_are_parsed() {
        let mut bytes = vec![0; 640];
        bytes[2 * 3] = 5;
        bytes[128 + 8 * 3..128 + 8 * 4].copy_from_slice(&0x7000_0010u64.to_le_bytes());
        let lists = CacheLayout::Halves.parse(&bytes, 7).unwrap();
        assert_eq!(lists, [List { at: 0x7000_0010, size: Some(80), link_to_user: 0, left: 5, owner: 7 }]);
        bytes[128] = 3;
        assert_eq!(CacheLayout::Halves.parse(&bytes, 7), None);
    }
}
