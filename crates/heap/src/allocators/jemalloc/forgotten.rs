//! The caches of threads left behind by a fork.
//!
//! The child of a fork has one thread. jemalloc forgets the caches of all others (`arena_postfork_child`,
//! `src/arena.c`), but their blocks stay allocated, forever and in every child. The caches' structures remain
//! in the memory of the vanished threads and name their arena, so that memory is searched for arena
//! addresses.

use super::caches::{CacheFacts, Caches};
use super::reader::Reader;
use crate::ranges::remaining;
use std::ops::Range;
use unbloat_process::{Mapping, Result};

/// Offset of the arena in a `tcache_slow_t`.
const ARENA_AT: u64 = 40;
/// Maximum amount of memory to search.
const MAX_SEARCHED_BYTES: u64 = 64 << 20;

/// Reads the caches that are no longer in any ring. `taken`: sorted, disjoint ranges without caches, above
/// all the heap itself. 5.2 leaves no trace to search for.
///
/// # Errors
/// The process is gone.
pub fn read(facts: &CacheFacts<'_>, known: &Caches, taken: &[Range<u64>]) -> Result<Caches> {
    let mut forgotten = Caches::default();
    let mut left = MAX_SEARCHED_BYTES;
    // A fork keeps no more thread memory than libc keeps stacks. The search is useful even if incomplete.
    for mapping in facts.maps.iter().filter(|m| m.is_private_anonymous() && !m.execute) {
        for range in remaining(&mapping.range(), taken) {
            search(facts, known, mapping, &range, &mut left, &mut forgotten)?;
        }
    }
    forgotten.settle();
    Ok(forgotten)
}

fn search(
    facts: &CacheFacts<'_>,
    known: &Caches,
    mapping: &Mapping,
    range: &Range<u64>,
    left: &mut u64,
    forgotten: &mut Caches,
) -> Result<()> {
    for (slot, word) in words_within(facts.reader, range, left)? {
        let Some(arena) = facts.arenas.at(word) else { continue };
        let address = slot.saturating_sub(ARENA_AT);
        let new = known.list.iter().chain(&forgotten.list).all(|cache| cache.address != address);
        if new && address >= mapping.start && facts.is_cache(address, word)? {
            forgotten.add(facts, address, Some(arena.index))?;
        }
    }
    Ok(())
}

/// Returns the words of a range that may be addresses of arenas, reading at most `left` bytes.
fn words_within(reader: &Reader<'_>, range: &Range<u64>, left: &mut u64) -> Result<Vec<(u64, u64)>> {
    let mut words = Vec::new();
    for piece in reader.pieces(range)? {
        let Some(rest) = left.checked_sub(piece.end - piece.start) else { break };
        *left = rest;
        words.extend(reader.nonzero_words(&piece)?.into_iter().filter(|(_, word)| word % 64 == 0));
    }
    Ok(words)
}
