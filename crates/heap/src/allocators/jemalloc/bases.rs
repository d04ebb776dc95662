//! The bases: one per arena, each of which owns the metadata blocks that the arena has filled.

use super::blocks::{Block, Blocks};
use super::layout::{BASES, BaseLayout, ExtentLayout};
use super::reader::Reader;
use std::collections::BTreeMap;
use unbloat_process::Result;

/// Arenas end below this index (`MALLOCX_ARENA_LIMIT`, `I/jemalloc_internal_types.h`).
const MAX_ARENAS: u32 = 4095;

/// The base of one arena (`base_t`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The index of its arena.
    pub arena: u32,
    /// The base's address.
    pub address: u64,
    /// Its blocks, newest first; the last holds the base itself and its arena.
    pub chain: Vec<Block>,
    /// Its counters, if the layout is known.
    pub counters: Option<Counters>,
}

/// The counters of a base, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// The layout by which they were read.
    pub layout: &'static BaseLayout,
    /// Handed out.
    pub allocated: u64,
    /// On pages that were touched at least once.
    pub resident: u64,
}

impl Base {
    /// Returns the oldest block.
    #[must_use]
    pub fn oldest(&self) -> Option<&Block> {
        self.chain.last()
    }
}

/// Returns the bases whose oldest blocks are the target of one of these words, by arena.
///
/// # Errors
/// The process is gone.
pub fn find(
    reader: &Reader<'_>,
    blocks: &Blocks,
    words: &[(u64, u64)],
    extents: &ExtentLayout,
) -> Result<BTreeMap<u32, Base>> {
    let mut bases = BTreeMap::new();
    let pointed = words.iter().filter_map(|&(_, word)| blocks.at(word)).filter(|block| block.next == 0);
    let oldest: BTreeMap<u64, &Block> = pointed.map(|block| (block.start, block)).collect();
    for block in oldest.into_values() {
        if let Some(base) = base_in(reader, blocks, block, extents)? {
            bases.entry(base.arena).or_insert(base);
        }
    }
    Ok(bases)
}

/// Returns the base in an oldest block: it names a chain that ends with this very block.
fn base_in(
    reader: &Reader<'_>,
    blocks: &Blocks,
    oldest: &Block,
    extents: &ExtentLayout,
) -> Result<Option<Base>> {
    let address = oldest.start + extents.base_at();
    let Some(first) = reader.word(address)? else { return Ok(None) };
    let arena = first as u32;
    for layout in BASES.iter().filter(|_| arena <= MAX_ARENAS) {
        let Some(head) = reader.word(address + layout.blocks)? else { continue };
        if let Some(chain) = blocks.chain(head).filter(|chain| chain.last() == Some(oldest)) {
            let counters = counters(reader, address, &chain)?;
            return Ok(Some(Base { arena, address, chain, counters }));
        }
    }
    Ok(None)
}

/// Reads the counters, using the layout in which the sizes of the blocks add up to `mapped`.
fn counters(reader: &Reader<'_>, base: u64, chain: &[Block]) -> Result<Option<Counters>> {
    let sum: u64 = chain.iter().map(|block| block.bytes).sum();
    for layout in &BASES {
        let Some([resident, mapped]) = reader.words(base + layout.mapped - 8)? else { continue };
        let Some(allocated) = reader.word(base + layout.allocated)? else { continue };
        if mapped == sum && allocated <= resident && resident <= mapped {
            return Ok(Some(Counters { layout, allocated, resident }));
        }
    }
    Ok(None)
}
