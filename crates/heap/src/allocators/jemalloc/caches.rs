//! The thread caches (tcache): freed blocks that each thread keeps for its next allocations.
//!
//! | way | where |
//! |---|---|
//! | rings of the arenas | [`Caches::read`]: each arena has the ring of the caches that allocate from it |
//! | the ring of all threads | [`super::tsd`]: builds without statistics have only this one |
//! | memory of threads left behind by a fork | [`super::forgotten`] |
//! | 5.2 | [`super::caches52`] |
//!
//! jemalloc counts a cached block as allocated. The rings are read before the slabs, so that blocks a thread
//! returns in between are seen to be free.

use super::arenas::{ArenaFacts, Arenas};
use super::blocks::Blocks;
use super::caches52;
use super::layout::{CACHES, CacheLayout, ExtentLayout};
use super::reader::{Reader, word_at, words_of};
use super::sizes::SizeClass;
use std::collections::BTreeSet;
use std::ops::Range;
use unbloat_process::{Maps, Result};

/// Upper bound on the number of caches, as a sanity check.
pub(super) const MAX_CACHES: usize = 1 << 16;
/// Maximum number of pointers in one bin (`CACHE_BIN_NCACHED_MAX`, `I/cache_bin.h`: 2^13 − 1 words).
const MAX_BIN: u64 = 8191;
/// Bytes of a `cache_bin_t` (`I/cache_bin.h`).
const BIN_BYTES: usize = 24;
/// Offset in a bin of the lower halves of the ends of its stack: the full end, then the empty end
/// (`low_bits_full`, `low_bits_empty`).
const BIN_FULL: usize = 18;
const BIN_EMPTY: usize = 20;
/// Maximum size of a cache's stacks, which are read at once.
const MAX_STACKS_BYTES: u64 = 4 << 20;

/// The cache of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadCache {
    /// Its address (`tcache_slow_t`), which lies in the thread's own memory.
    pub address: u64,
    /// The arena it allocates from.
    pub arena: Option<u32>,
    /// Number of blocks it holds.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The largest class it may hold: `tcache_max`.
    pub largest: Option<SizeClass>,
    /// An address in the memory of its stacks.
    pub stack: u64,
}

/// All thread caches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caches {
    /// One entry per cache.
    pub list: Vec<ThreadCache>,
    /// Each block held by a cache, with its class, in address order.
    pub held: Vec<(u64, SizeClass)>,
}

/// The facts needed to find and read a cache.
pub struct CacheFacts<'a> {
    /// A reader of the target's memory.
    pub reader: &'a Reader<'a>,
    /// The mappings.
    pub maps: &'a Maps,
    /// The metadata blocks, which contain no cache.
    pub blocks: &'a Blocks,
    /// The arenas.
    pub arenas: &'a Arenas,
    /// The version's layout of extents.
    pub layout: &'a ExtentLayout,
}

impl Caches {
    /// Reads the caches in the rings of all arenas.
    ///
    /// # Errors
    /// The process is gone.
    pub fn read(facts: &CacheFacts<'_>) -> Result<Self> {
        let mut caches = Caches::default();
        for arena in &facts.arenas.list {
            for address in facts.ring_of(arena)? {
                if facts.layout.leaf_has_state {
                    caches.add(facts, address, Some(arena.index))?;
                } else {
                    caches52::add(&mut caches, facts, address, Some(arena.index))?;
                }
            }
        }
        caches.settle();
        Ok(caches)
    }

    /// Reads the cache at an address.
    pub(super) fn add(&mut self, facts: &CacheFacts<'_>, address: u64, arena: Option<u32>) -> Result<()> {
        let Some((layout, tcache)) = facts.layout_of(address)? else { return Ok(()) };
        let Some(stack) = facts.reader.word(address + layout.tcache(facts.layout) - 8)? else {
            return Ok(());
        };
        let bins = facts.reader.range(&(tcache + 8..tcache + 8 + (layout.bins * BIN_BYTES) as u64))?;
        let Some(memory) = facts.maps.find(stack) else { return Ok(()) };
        let stacks = stacks(&bins, &memory.range());
        let mut cache = ThreadCache { address, arena, blocks: 0, bytes: 0, largest: None, stack };
        cache.largest = stacks.iter().map(|(class, _)| *class).max();
        let used = stacks.into_iter().filter(|(_, stack)| !stack.is_empty());
        self.hold(facts.reader, &mut cache, used.collect())?;
        self.list.push(cache);
        Ok(())
    }

    /// Adds the blocks on a cache's stacks, which lie close together.
    pub(super) fn hold(
        &mut self,
        reader: &Reader<'_>,
        cache: &mut ThreadCache,
        stacks: Vec<(SizeClass, Range<u64>)>,
    ) -> Result<()> {
        let start = stacks.iter().map(|(_, stack)| stack.start).min().unwrap_or(0);
        let end = stacks.iter().map(|(_, stack)| stack.end).max().unwrap_or(0);
        if end.saturating_sub(start) > MAX_STACKS_BYTES {
            return Ok(());
        }
        let bytes = reader.range(&(start..end))?;
        for (class, stack) in stacks {
            let part = (stack.start - start) as usize..(stack.end - start) as usize;
            for pointer in words_of(bytes.get(part).unwrap_or(&[])).filter(|&pointer| pointer != 0) {
                self.held.push((pointer, class));
                cache.blocks += 1;
                cache.bytes = cache.bytes.saturating_add(class.bytes());
            }
        }
        Ok(())
    }

    /// Sorts the held blocks. A block held twice was moved meanwhile.
    pub(super) fn settle(&mut self) {
        self.held.sort_unstable();
        self.held.dedup_by_key(|&mut (pointer, _)| pointer);
    }
}

impl CacheFacts<'_> {
    /// Returns the caches of an arena: a word of its `arena_t` leads to their ring. Only confirmed ones are
    /// returned.
    fn ring_of(&self, arena: &ArenaFacts) -> Result<Vec<u64>> {
        let is_cache = |address| {
            if self.layout.leaf_has_state {
                self.is_cache(address, arena.address)
            } else {
                caches52::is_cache(self, address, arena.address)
            }
        };
        let candidates: BTreeSet<u64> =
            arena.outward.iter().copied().filter(|&word| self.may_be_cache(word)).collect();
        for first in candidates {
            let (mut ring, mut at) = (BTreeSet::new(), first);
            while ring.len() < MAX_CACHES && !ring.contains(&at) && is_cache(at)? {
                ring.insert(at);
                at = self.reader.word(at)?.unwrap_or(0);
            }
            if !ring.is_empty() {
                return Ok(ring.into_iter().collect());
            }
        }
        Ok(Vec::new())
    }

    /// Returns whether an address may be that of a cache: in writable memory, outside the metadata.
    pub(super) fn may_be_cache(&self, address: u64) -> bool {
        address.is_multiple_of(8)
            && address != 0
            && self.maps.find(address).is_some_and(|mapping| mapping.write && mapping.file().is_none())
            && self.blocks.at(address).is_none()
    }

    /// Returns whether a `tcache_slow_t` of this arena is at an address: it and its `tcache_t` point at each
    /// other.
    pub(super) fn is_cache(&self, address: u64, arena: u64) -> Result<bool> {
        let Some(head) = self.reader.bytes_now::<48>(address)? else { return Ok(false) };
        let [bins, its_arena] = [32, 40].map(|at| word_at(&head, at).unwrap_or(0));
        if its_arena != arena || !bins.is_multiple_of(8) || bins < 8 {
            return Ok(false);
        }
        Ok(self.reader.word(bins - 8)? == Some(address))
    }

    /// Returns the layout of the cache at an address, and the address of its `tcache_t`.
    fn layout_of(&self, address: u64) -> Result<Option<(&'static CacheLayout, u64)>> {
        for layout in &CACHES {
            let Some(tcache) = self.reader.word(address + layout.tcache(self.layout))? else { continue };
            if tcache.is_multiple_of(8) && tcache != 0 && self.reader.word(tcache)? == Some(address) {
                return Ok(Some((layout, tcache)));
            }
        }
        Ok(None)
    }
}

/// Returns the stacks of a cache's bins, in order of class, including empty ones. An unused bin has no head,
/// no room, or (5.3.1) a head outside the stacks.
fn stacks(bins: &[u8], memory: &Range<u64>) -> Vec<(SizeClass, Range<u64>)> {
    let stack = |(index, bin): (u64, &[u8])| {
        let head = word_at(bin, 0)?;
        let low_bits = |at| Some(u16::from_le_bytes(bin.get(at..at + 2)?.try_into().ok()?));
        let (full, empty) = (low_bits(BIN_FULL)?, low_bits(BIN_EMPTY)?);
        let count = u64::from(empty.wrapping_sub(head as u16)) / 8;
        let end = head.checked_add(8 * count)?;
        let inside = head.is_multiple_of(8) && head >= memory.start && end <= memory.end;
        (inside && full != empty && count <= MAX_BIN).then_some((SizeClass::new(index)?, head..end))
    };
    (0..).zip(bins.chunks_exact(BIN_BYTES)).filter_map(stack).collect()
}
