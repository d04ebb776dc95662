//! The thread caches (tcache): what each thread holds back for its next allocations.
//!
//! | way | where |
//! |---|---|
//! | rings of the arenas | [`Caches::read`]: each arena has the ring of the caches that take from it |
//! | the ring of all threads | [`super::tsd`]: builds without statistics have no other |
//! | memory of threads that a fork left behind | [`super::forgotten`] |
//! | 5.2 | [`super::caches52`] |
//!
//! To jemalloc what a cache holds is allocated. The rings are read before the slabs: what a thread gives back meanwhile
//! is then seen to be free.

use super::arenas::{ArenaFacts, Arenas};
use super::blocks::Blocks;
use super::caches52;
use super::layout::{CACHES, CacheLayout, ExtentLayout};
use super::reader::{Reader, word_at, words_of};
use super::sizes::SizeClass;
use std::collections::BTreeSet;
use std::ops::Range;
use unbloat_process::{Maps, Result};

/// Caches that are believed.
pub(super) const MAX_CACHES: usize = 1 << 16;
/// Pointers that one bin may hold (`CACHE_BIN_NCACHED_MAX`, `I/cache_bin.h`: 2^13 − 1 words).
const MAX_BIN: u64 = 8191;
/// Bytes of a `cache_bin_t` (`I/cache_bin.h`).
const BIN_BYTES: usize = 24;
/// Where a bin keeps the lower halves of the ends of its stack: where it is full, and where it is empty
/// (`low_bits_full`, `low_bits_empty`).
const BIN_FULL: usize = 18;
const BIN_EMPTY: usize = 20;
/// What is read at once of the memory that a cache's stacks take.
const MAX_STACKS_BYTES: u64 = 4 << 20;

/// The cache of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadCache {
    /// Its address (`tcache_slow_t`), which lies in its thread's own memory.
    pub address: u64,
    /// The arena that it takes from.
    pub arena: Option<u32>,
    /// Blocks that it holds.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The largest class that it may hold: `tcache_max`.
    pub largest: Option<SizeClass>,
    /// An address in the memory that its stacks take.
    pub stack: u64,
}

/// All thread caches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caches {
    /// One entry a cache.
    pub list: Vec<ThreadCache>,
    /// Each block that a cache holds, with its class; in order of address.
    pub held: Vec<(u64, SizeClass)>,
}

/// What finding and reading a cache takes.
pub struct Ground<'a> {
    /// The memory.
    pub reader: &'a Reader<'a>,
    /// The mappings.
    pub maps: &'a Maps,
    /// The blocks of metadata, in which no cache lies.
    pub blocks: &'a Blocks,
    /// The arenas.
    pub arenas: &'a Arenas,
    /// How the version lays out extents.
    pub layout: &'a ExtentLayout,
}

impl Caches {
    /// Reads the caches in the rings of all arenas.
    ///
    /// # Errors
    /// The process is gone.
    pub fn read(ground: &Ground<'_>) -> Result<Self> {
        let mut caches = Caches::default();
        for arena in &ground.arenas.list {
            for address in ground.ring_of(arena)? {
                if ground.layout.leaf_has_state {
                    caches.add(ground, address, Some(arena.index))?;
                } else {
                    caches52::add(&mut caches, ground, address, Some(arena.index))?;
                }
            }
        }
        caches.settle();
        Ok(caches)
    }

    /// Reads the cache at an address.
    pub(super) fn add(&mut self, ground: &Ground<'_>, address: u64, arena: Option<u32>) -> Result<()> {
        let Some((layout, tcache)) = ground.layout_of(address)? else { return Ok(()) };
        let Some(stack) = ground.reader.word(address + layout.tcache - 8)? else { return Ok(()) };
        let bins = ground.reader.range(&(tcache + 8..tcache + 8 + (layout.bins * BIN_BYTES) as u64))?;
        let Some(memory) = ground.maps.find(stack) else { return Ok(()) };
        let stacks = stacks(&bins, &memory.range());
        let mut cache = ThreadCache { address, arena, blocks: 0, bytes: 0, largest: None, stack };
        cache.largest = stacks.iter().map(|(class, _)| *class).max();
        let used = stacks.into_iter().filter(|(_, stack)| !stack.is_empty());
        self.hold(ground.reader, &mut cache, used.collect())?;
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

    /// Puts what is held in order. A block that is held twice was moved meanwhile.
    pub(super) fn settle(&mut self) {
        self.held.sort_unstable();
        self.held.dedup_by_key(|&mut (pointer, _)| pointer);
    }
}

impl Ground<'_> {
    /// The caches of an arena: a word of its `arena_t` that leads to a ring of them. Proved ones only.
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

    /// Whether an address may be that of a cache: in writable memory, and not among the metadata.
    pub(super) fn may_be_cache(&self, address: u64) -> bool {
        address.is_multiple_of(8)
            && address != 0
            && self.maps.find(address).is_some_and(|mapping| mapping.write && mapping.file().is_none())
            && self.blocks.at(address).is_none()
    }

    /// Whether a `tcache_slow_t` of this arena stands at an address: it and its `tcache_t` point at each other.
    pub(super) fn is_cache(&self, address: u64, arena: u64) -> Result<bool> {
        let Some(head) = self.reader.bytes_now::<48>(address)? else { return Ok(false) };
        let [bins, its_arena] = [32, 40].map(|at| word_at(&head, at).unwrap_or(0));
        if its_arena != arena || !bins.is_multiple_of(8) || bins < 8 {
            return Ok(false);
        }
        Ok(self.reader.word(bins - 8)? == Some(address))
    }

    /// How the cache at an address is laid out, and where its `tcache_t` is.
    fn layout_of(&self, address: u64) -> Result<Option<(&'static CacheLayout, u64)>> {
        for layout in &CACHES {
            let Some(tcache) = self.reader.word(address + layout.tcache)? else { continue };
            if tcache.is_multiple_of(8) && tcache != 0 && self.reader.word(tcache)? == Some(address) {
                return Ok(Some((layout, tcache)));
            }
        }
        Ok(None)
    }
}

/// The stacks of a cache's bins, in order of class, empty ones included. A bin that is not in use has no head, no room,
/// or (5.3.1) a head that lies elsewhere than the stacks.
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
