//! The thread caches of 5.2, where the ring links descriptors inside each `tcache_t`, and pointers lie below
//! the end of each stack (5.2.1 `I/tcache_structs.h`, `I/cache_bin.h`).

use super::caches::{CacheFacts, Caches, ThreadCache};
use super::reader::word_at;
use super::sizes::SizeClass;
use unbloat_process::Result;

/// Bytes of a `cache_bin_t`: `low_water`, `ncached`, requests, `avail`.
const BIN_BYTES: usize = 24;
/// Maximum number of bins of large classes (`nhbins` with the largest `lg_tcache_max`).
const LARGE_BINS: usize = 37;
/// Maximum number of pointers in one bin.
const MAX_BIN: u64 = 4096;

/// Returns whether a `cache_bin_array_descriptor_t` is at an address: the ring's link, `bins_small`,
/// `bins_large`, then the arena. The bins lie around it in the same `tcache_t`.
pub(super) fn is_cache(facts: &CacheFacts<'_>, address: u64, arena: u64) -> Result<bool> {
    let Some(bytes) = facts.reader.bytes_now::<48>(address)? else { return Ok(false) };
    let [small, large, its_arena] = [16, 24, 32].map(|at| word_at(&bytes, at).unwrap_or(0));
    let around = small < address && address < large && large - small < 4096;
    Ok(its_arena == arena && around && small.is_multiple_of(8) && large.is_multiple_of(8))
}

/// Reads the cache with the descriptor at an address.
pub(super) fn add(
    caches: &mut Caches,
    facts: &CacheFacts<'_>,
    address: u64,
    arena: Option<u32>,
) -> Result<()> {
    let Some([small, large]) = facts.reader.words(address + 16)? else { return Ok(()) };
    let range = |start: u64, bins: usize| start..start.saturating_add((bins * BIN_BYTES) as u64);
    let mut bins = facts.reader.range(&range(small, facts.layout.small_classes()))?;
    bins.extend(facts.reader.range(&range(large, LARGE_BINS))?);
    let mut cache = ThreadCache { address, arena, blocks: 0, bytes: 0, largest: None, stack: 0 };
    let mut stacks = Vec::new();
    // Unrelated data follows the last bin in use.
    for (class, bin) in (0..).zip(bins.chunks_exact(BIN_BYTES)) {
        let count = word_at(bin, 0).unwrap_or(0) >> 32;
        let end = word_at(bin, 16).unwrap_or(0);
        let Some(class) = SizeClass::new(class) else { break };
        if end == 0 || !end.is_multiple_of(8) || count > MAX_BIN || facts.maps.find(end).is_none() {
            break;
        }
        if cache.stack == 0 {
            // The end of the first stack: its class always has room.
            cache.stack = end - 8;
        }
        cache.largest = Some(class);
        stacks.push((class, end.saturating_sub(8 * count)..end));
    }
    stacks.retain(|(_, stack)| !stack.is_empty());
    caches.hold(facts.reader, &mut cache, stacks)?;
    caches.list.push(cache);
    Ok(())
}
