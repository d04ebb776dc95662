//! Thread caches found through the ring of all threads, for builds without statistics, whose arenas keep no
//! rings.
//!
//! `tsd_nominal_tsds` (`src/tsd.c`) is a word of the library's data that points to a thread's `tsd_t`, in
//! which a `tcache_slow_t` and a `tcache_t` point at each other; the link in each `tsd_t` leads to that of
//! the next thread.

use super::caches::{CacheFacts, Caches, MAX_CACHES};
use super::layout::CACHES;
use super::reader::words_of;
use std::collections::BTreeSet;
use unbloat_process::Result;

/// Bytes examined of a `tsd_t`.
const TSD_BYTES: u64 = 4096;
/// Maximum number of candidate `tsd_t` structures examined in one search.
const MAX_LOOKS: usize = 1 << 17;

/// Reads the caches of the ring that one of these words leads to.
///
/// # Errors
/// The process is gone.
pub fn read(facts: &CacheFacts<'_>, words: &[(u64, u64)]) -> Result<Caches> {
    let mut caches = Caches::default();
    let heads: BTreeSet<u64> =
        words.iter().map(|&(_, word)| word).filter(|&w| facts.may_be_cache(w)).collect();
    let mut looks = MAX_LOOKS;
    for head in heads {
        let ring = ring_from(facts, head, &mut looks)?;
        for &(tsd, slow) in &ring {
            let arena = facts.reader.word(tsd + slow + 40)?.and_then(|address| facts.arenas.at(address));
            caches.add(facts, tsd + slow, arena.map(|arena| arena.index))?;
        }
        if !ring.is_empty() {
            break;
        }
    }
    caches.settle();
    Ok(caches)
}

/// Returns the ring that begins at a `tsd_t`: each `tsd_t` with the offset of its `tcache_slow_t`.
fn ring_from(facts: &CacheFacts<'_>, head: u64, looks: &mut usize) -> Result<Vec<(u64, u64)>> {
    *looks = looks.saturating_sub(1);
    if *looks == 0 {
        return Ok(Vec::new());
    }
    let Some((slow, words)) = tsd_at(facts, head)? else { return Ok(Vec::new()) };
    // The link (next, previous) lies somewhere before.
    for link in (0..slow).step_by(8) {
        let mut ring = vec![(head, slow)];
        let mut at = words.get(link as usize / 8).copied().unwrap_or(0);
        let mut seen = BTreeSet::from([head]);
        while at != head && seen.len() < MAX_CACHES.min(*looks) && facts.may_be_cache(at) && seen.insert(at) {
            match tsd_at(facts, at)? {
                Some((its_slow, _)) if its_slow == slow => ring.push((at, slow)),
                _ => break,
            }
            at = facts.reader.word(at + link)?.unwrap_or(0);
        }
        *looks = looks.saturating_sub(seen.len());
        let previous = words.get(link as usize / 8 + 1).copied().unwrap_or(0);
        if at == head && seen.contains(&previous) {
            return Ok(ring);
        }
    }
    Ok(Vec::new())
}

/// Returns the offset of the `tcache_slow_t` in the `tsd_t` at an address, and the words of the `tsd_t`.
fn tsd_at(facts: &CacheFacts<'_>, address: u64) -> Result<Option<(u64, Vec<u64>)>> {
    let end = facts.maps.find(address).map_or(address, |mapping| mapping.end);
    let words: Vec<u64> = words_of(&facts.reader.range(&(address..end.min(address + TSD_BYTES)))?).collect();
    let inside = |word: u64| word.checked_sub(address).filter(|&at| at.is_multiple_of(8) && at < TSD_BYTES);
    let word_of = |at: u64| words.get(at as usize / 8).copied().unwrap_or(0);
    let slow = (0..).zip(&words).find_map(|(i, &word)| {
        // The last word of the slow part is the address of the tcache_t, whose first word is that of the slow
        // part.
        let slow = inside(word_of(inside(word)?))?;
        CACHES.iter().any(|layout| slow + layout.tcache(facts.layout) == 8 * i).then_some(slow)
    });
    Ok(slow.map(|slow| (slow, words)))
}
