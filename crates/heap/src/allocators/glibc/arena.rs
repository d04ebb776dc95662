//! The ring of arenas and, for each non-main arena, the chain of its heaps.
//!
//! `struct malloc_state` and `struct _heap_info` (malloc/arena.c). The pointers come from another program's
//! memory and may be corrupt, so each one is validated before it is followed.

use super::layout::{ALIGNMENT, CHUNK_HEADER, FASTBINS, HEAP_MAX, NONCONTIGUOUS};
use super::{Glibc, Layout};
use std::collections::HashSet;
use unbloat_process::Memory;

/// Upper bound on the number of arenas, as a sanity check: the default limit is 8 per core.
const MAX_ARENAS: usize = 1 << 16;
/// Upper bound on the number of heaps in one arena, as a sanity check: together they would span 64 TiB.
const MAX_HEAPS: usize = 1 << 20;

/// A snapshot of an arena's `malloc_state`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArenaState {
    /// Its address.
    pub address: u64,
    /// The arena is the main one, which `brk` feeds.
    pub main: bool,
    /// The lock word: 0 while nobody holds it.
    pub mutex: u32,
    /// In the main arena: some of its memory did not come from `brk`. Other arenas always have this set.
    pub noncontiguous: bool,
    /// Heads of the fastbins; empty in versions without fastbins.
    pub fastbins: Vec<u64>,
    /// Address of the top chunk.
    pub top: u64,
    /// Threads that use it.
    pub attached_threads: u64,
    /// Bytes obtained from the kernel.
    pub system_mem: u64,
    /// The alignment and maximum size of its heaps.
    pub heap_max: u64,
    next: u64,
}

/// One heap of a non-main arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heap {
    /// The heap's address, which is also that of its `heap_info`.
    pub address: u64,
    /// Bytes in use by the arena, starting at `address`.
    pub size: u64,
    /// The first chunk.
    pub first_chunk: u64,
    prev: u64,
}

/// The reason why an arena or heap could not be followed further.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// Memory could not be read.
    #[error("{what} at {address:#x}: {source}")]
    Unreadable {
        /// The structure that was to be read.
        what: &'static str,
        /// Its address.
        address: u64,
        /// The reason it could not be read.
        source: unbloat_process::Error,
    },
    /// The ring does not close.
    #[error(
        "the ring of arenas does not close: after {count} arenas it leads to {address:#x}, which was seen before"
    )]
    OpenRing {
        /// Number of arenas visited.
        count: usize,
        /// The address it leads back to.
        address: u64,
    },
    /// A pointer leads to something that is neither an arena nor a heap.
    #[error("{what} at {address:#x} is not plausible: {reason}")]
    Implausible {
        /// The structure expected there.
        what: &'static str,
        /// Its address.
        address: u64,
        /// The check that failed.
        reason: String,
    },
}

/// The arenas reached, and the reason why the ring could not be followed to its end, if it could not.
#[derive(Debug)]
pub struct Ring {
    /// The arenas, the main one first.
    pub arenas: Vec<ArenaState>,
    /// The error that ended the traversal.
    pub broken: Option<ArenaError>,
}

impl Glibc {
    /// Returns all arenas, the main one first. `memory` should be a [`unbloat_process::ResidentOnly`].
    ///
    /// # Errors
    /// The main arena itself cannot be read.
    pub fn arenas(&self, memory: &dyn Memory) -> Result<Ring, ArenaError> {
        let heap_max = self.heap_max(memory);
        let main = self.arena_at(memory, self.main_arena, heap_max)?;
        let mut ring = Ring { arenas: vec![main], broken: None };
        let mut seen = HashSet::from([self.main_arena]);
        while let Some(address) = ring.arenas.last().map(|a| a.next).filter(|&next| next != self.main_arena) {
            if !seen.insert(address) || seen.len() > MAX_ARENAS {
                ring.broken = Some(ArenaError::OpenRing { count: ring.arenas.len(), address });
                break;
            }
            match self.checked_arena_at(memory, address, heap_max) {
                Ok(arena) => ring.arenas.push(arena),
                Err(error) => {
                    ring.broken = Some(error);
                    break;
                }
            }
        }
        Ok(ring)
    }

    /// Reads an arena again to pick up changes.
    ///
    /// # Errors
    /// It cannot be read, or is no arena any more.
    pub fn reread(&self, memory: &dyn Memory, arena: &ArenaState) -> Result<ArenaState, ArenaError> {
        self.arena_at(memory, arena.address, arena.heap_max)
    }

    fn checked_arena_at(
        &self,
        memory: &dyn Memory,
        address: u64,
        heap_max: u64,
    ) -> Result<ArenaState, ArenaError> {
        if !address.is_multiple_of(ALIGNMENT) {
            let reason = "its address is not a multiple of 16".to_owned();
            return Err(ArenaError::Implausible { what: "an arena", address, reason });
        }
        let arena = self.arena_at(memory, address, heap_max)?;
        self.heap_at(memory, &arena, arena.heap_of(address))?;
        Ok(arena)
    }

    fn arena_at(&self, memory: &dyn Memory, address: u64, heap_max: u64) -> Result<ArenaState, ArenaError> {
        let mut bytes = vec![0; self.layout.arena_bytes() as usize];
        memory.read(address, &mut bytes).map_err(|source| ArenaError::Unreadable {
            what: "an arena",
            address,
            source,
        })?;
        let state = ArenaState::parse(self.layout, address, address == self.main_arena, heap_max, &bytes);
        if !state.top.is_multiple_of(ALIGNMENT) && !state.main {
            let reason = format!("its top is {:#x}, which is not aligned", state.top);
            return Err(ArenaError::Implausible { what: "an arena", address, reason });
        }
        Ok(state)
    }

    /// Returns the heaps of a non-main arena, newest first (the newest has the top).
    ///
    /// # Errors
    /// A heap cannot be read or does not belong to the arena, or the chain has a cycle. The heaps read before
    /// the error are dropped on purpose, because their sizes cannot be trusted either.
    pub fn heaps(&self, memory: &dyn Memory, arena: &ArenaState) -> Result<Vec<Heap>, ArenaError> {
        let mut heaps: Vec<Heap> = Vec::new();
        let mut seen = HashSet::new();
        let mut at = arena.heap_of(arena.top);
        while at != 0 {
            if !seen.insert(at) || heaps.len() >= MAX_HEAPS {
                let reason = format!("the chain of {} heaps leads back to it", heaps.len());
                return Err(ArenaError::Implausible { what: "a heap", address: at, reason });
            }
            let heap = self.heap_at(memory, arena, at)?;
            at = heap.prev;
            heaps.push(heap);
        }
        Ok(heaps)
    }

    fn heap_at(&self, memory: &dyn Memory, arena: &ArenaState, address: u64) -> Result<Heap, ArenaError> {
        let mut words = [[0; 8]; 4];
        memory.read(address, words.as_flattened_mut()).map_err(|source| ArenaError::Unreadable {
            what: "a heap",
            address,
            source,
        })?;
        let [arena_of_heap, prev, size, mprotected] = words.map(u64::from_le_bytes);
        let implausible = |reason: String| ArenaError::Implausible { what: "a heap", address, reason };
        if arena_of_heap != arena.address {
            return Err(implausible(format!(
                "it belongs to {arena_of_heap:#x}, not to {:#x}",
                arena.address
            )));
        }
        let max = arena.heap_max;
        if size > max || size > mprotected || size % ALIGNMENT != 0 || size < self.layout.arena_bytes() / 2 {
            return Err(implausible(format!("its size is {size:#x} of {mprotected:#x}")));
        }
        if prev % max != 0 {
            return Err(implausible(format!("its predecessor is {prev:#x}, which is not aligned")));
        }
        let first_chunk = self.first_chunk(arena, address);
        if first_chunk + CHUNK_HEADER > address + size {
            return Err(implausible(format!("its size {size:#x} leaves no room for a chunk")));
        }
        Ok(Heap { address, size, first_chunk, prev })
    }

    /// Returns the address of a heap's first chunk. In the arena's own heap the `malloc_state` follows the
    /// `heap_info`; in the others chunks follow directly (`_int_new_arena` and `sysmalloc`). The size of
    /// `heap_info`, 32 bytes up to 2.34 and 48 from 2.35 on, is the distance from the heap to its arena.
    fn first_chunk(&self, arena: &ArenaState, heap: u64) -> u64 {
        let header = arena.address % arena.heap_max;
        if heap == arena.heap_of(arena.address) {
            (arena.address + self.layout.arena_bytes()).next_multiple_of(ALIGNMENT)
        } else {
            heap + header % 4096
        }
    }

    /// Returns `heap_max_size`, a constant except in glibc 2.35 to 2.41 with mapped huge pages
    /// (`glibc.malloc.hugetlb=2`), where it is four huge pages.
    fn heap_max(&self, memory: &dyn Memory) -> u64 {
        let minor = self.version.as_deref().and_then(|v| v.strip_prefix("2.")?.parse().ok());
        let values = self.parameters.filter(|_| matches!(minor, Some(35..=41))).map(|p| p.read(memory));
        match values {
            Some(Ok(values)) if values.hp_pagesize.is_power_of_two() => values.hp_pagesize.saturating_mul(4),
            _ => HEAP_MAX,
        }
    }
}

impl ArenaState {
    fn parse(layout: Layout, address: u64, main: bool, heap_max: u64, bytes: &[u8]) -> Self {
        let word = |o: u64| {
            let o = o as usize;
            bytes.get(o..o + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let heads = |at: u64| (0..FASTBINS as u64).map(|i| word(at + 8 * i)).collect();
        let lock_and_flags = word(0);
        ArenaState {
            address,
            main,
            mutex: lock_and_flags as u32,
            noncontiguous: (lock_and_flags >> 32) as u32 & NONCONTIGUOUS != 0,
            fastbins: layout.fastbins().map(heads).unwrap_or_default(),
            top: word(layout.top()),
            attached_threads: word(layout.attached_threads()),
            system_mem: word(layout.system_mem()),
            heap_max,
            next: word(layout.next()),
        }
    }

    /// Returns the heap that contains an address of a non-main arena (`heap_for_ptr`).
    fn heap_of(&self, address: u64) -> u64 {
        address / self.heap_max * self.heap_max
    }

    /// Returns the address of the heap with the top, in a non-main arena.
    pub(super) fn newest_heap(&self) -> u64 {
        self.heap_of(self.top)
    }
}
