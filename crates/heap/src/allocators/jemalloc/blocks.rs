//! The metadata blocks, which hold everything that jemalloc knows of its heap, out of band.
//!
//! A block (`base_block_t`, `I/base.h`; the same in 5.2 and 5.3) is aligned to 2 MiB and describes itself:
//! its size, the next block of its arena, and an extent that covers its unused end. So each aligned address
//! of anonymous memory is tested for the start of a block. If there is none, there is no jemalloc, and
//! nothing else is searched for.

use super::layout::BLOCK_ALIGNMENT;
use super::reader::{Reader, word_at};
use std::ops::Range;
use unbloat_process::{Mapping, Maps, Result, page_size};

/// Maximum number of addresses tested: every 2 MiB of 1 TiB of anonymous memory with resident pages.
const MAX_PLACES: usize = 1 << 19;
/// Addresses tested at once.
const BATCH: usize = 1024;
/// Bytes of `size`, `next` and the block's extent up to its size.
const HEADER_BYTES: usize = 40;

/// A block of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Its address.
    pub start: u64,
    /// Its size.
    pub bytes: u64,
    /// The next older block of the same arena; 0 for the oldest.
    pub next: u64,
}

impl Block {
    /// The block's addresses.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes
    }

    /// Parses the header of a block at `start`. `limit` is the end of the surrounding memory.
    fn parse(start: u64, header: &[u8], limit: u64) -> Option<Self> {
        let [bytes, next, unused, unused_bytes] = [0, 8, 24, 32].map(|at| word_at(header, at).unwrap_or(0));
        let end = start.checked_add(bytes)?;
        let sound = bytes != 0
            && bytes.is_multiple_of(BLOCK_ALIGNMENT)
            && end <= limit
            && next.is_multiple_of(BLOCK_ALIGNMENT)
            && (start + 1..=end).contains(&unused)
            && unused.checked_add(unused_bytes) == Some(end);
        sound.then_some(Block { start, bytes, next })
    }
}

/// All blocks of a process, in order of address and disjoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocks(Vec<Block>);

impl Blocks {
    /// Finds all blocks in anonymous memory.
    ///
    /// # Errors
    /// The process is gone.
    pub fn find(reader: &Reader<'_>, maps: &Maps) -> Result<Self> {
        let mut blocks = Vec::new();
        let areas = areas(maps);
        let mut places = areas.iter().flat_map(|area| places(reader, area)).take(MAX_PLACES).peekable();
        while places.peek().is_some() {
            let batch: Vec<_> = places.by_ref().take(BATCH).collect();
            Self::ask(reader, &batch, &mut blocks)?;
        }
        let mut end = 0;
        blocks.retain(|block: &Block| {
            let disjoint = block.start >= end;
            end = if disjoint { block.range().end } else { end };
            disjoint
        });
        Ok(Blocks(blocks))
    }

    /// Adds the blocks that start at these addresses.
    fn ask(reader: &Reader<'_>, places: &[(u64, u64)], blocks: &mut Vec<Block>) -> Result<()> {
        let mut resident = Vec::new();
        for &(start, limit) in places {
            if reader.memory().residency(start, page_size())?.is_resident(start) {
                resident.push((start, limit));
            }
        }
        let starts: Vec<u64> = resident.iter().map(|&(start, _)| start).collect();
        let mut buffer = vec![0; starts.len() * HEADER_BYTES];
        let readable = reader.memory().gather(&starts, HEADER_BYTES, &mut buffer)?;
        let headers = buffer.chunks_exact(HEADER_BYTES).zip(readable);
        for ((start, limit), (header, _)) in resident.into_iter().zip(headers).filter(|(_, (_, ok))| *ok) {
            blocks.extend(Block::parse(start, header, limit));
        }
        Ok(())
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the blocks.
    pub fn iter(&self) -> std::slice::Iter<'_, Block> {
        self.0.iter()
    }

    /// Returns the block that contains an address.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<&Block> {
        let after = self.0.partition_point(|block| block.start <= address);
        self.0.get(after.checked_sub(1)?).filter(|block| address < block.range().end)
    }

    /// Returns whether `bytes` from `address` on lie in one block.
    #[must_use]
    pub fn hold(&self, address: u64, bytes: u64) -> bool {
        let end = address.checked_add(bytes);
        self.at(address).is_some_and(|block| end.is_some_and(|end| end <= block.range().end))
    }

    /// Returns the chain of blocks from `head` on, if it ends with an oldest block.
    #[must_use]
    pub fn chain(&self, head: u64) -> Option<Vec<Block>> {
        let mut chain = Vec::new();
        let mut at = head;
        while at != 0 {
            let block = *self.at(at).filter(|block| block.start == at)?;
            // A chain longer than the number of blocks is a cycle.
            (chain.len() < self.0.len()).then(|| chain.push(block))?;
            at = block.next;
        }
        (!chain.is_empty()).then_some(chain)
    }
}

/// Returns private anonymous memory, with adjacent mappings joined, since a block may span two.
fn areas(maps: &Maps) -> Vec<Range<u64>> {
    crate::ranges::joined(maps.iter().filter(|m| m.is_private_anonymous()).map(Mapping::range).collect())
}

/// Returns the addresses of an area at which a block can start, each with the area's end.
fn places(reader: &Reader<'_>, area: &Range<u64>) -> impl Iterator<Item = (u64, u64)> + use<> {
    let end = area.end;
    let last = end.saturating_sub(BLOCK_ALIGNMENT - 1);
    reader.memory().populated(area).into_iter().flat_map(move |part| {
        let first = part.start.checked_next_multiple_of(BLOCK_ALIGNMENT).unwrap_or(u64::MAX);
        (first..part.end.min(last)).step_by(BLOCK_ALIGNMENT as usize).map(move |at| (at, end))
    })
}
