//! Memory outside malloc and heap pages that CRuby's static variables point to: the stacks of fibers, and the
//! transient heap.
//!
//! The variables have no dynamic symbol, so the writable data of the file that contains CRuby is searched for
//! unmistakable structures: a pool whose allocation points back at it, an arena that contains its blocks.

use super::words::{half_word, word};
use crate::model::Category;
use std::ops::Range;
use unbloat_process::{Mapping, Maps, Memory, Result, page_size};

/// Data segments larger than this are skipped; libruby's have a few hundred KiB.
const MAX_DATA_BYTES: u64 = 16 << 20;
/// Maximum number of allocations of a fiber pool; each is at least as large as all previous ones together
/// (fiber_pool_expand).
const MAX_ALLOCATIONS: usize = 64;
/// `TRANSIENT_HEAP_TOTAL_SIZE`, `TRANSIENT_HEAP_BLOCK_SIZE` and the resulting number of blocks
/// (transient_heap.c).
const ARENA_BYTES: u64 = 32 << 20;
const BLOCK_BYTES: u64 = 32 << 10;
const BLOCKS: u32 = (ARENA_BYTES / BLOCK_BYTES) as u32;
/// `TRANSIENT_HEAP_PROMOTED_DEFAULT_SIZE`: `promoted_objects` only grows.
const MIN_PROMOTED: u32 = 1024;

/// Returns sorted, disjoint ranges of private anonymous memory with their categories. `data` is the writable
/// data of the file with CRuby.
///
/// # Errors
/// The process is gone or access to it is denied.
pub(super) fn find(
    memory: &dyn Memory,
    maps: &Maps,
    data: &[Range<u64>],
) -> Result<Vec<(Range<u64>, Category)>> {
    let mut found = Vec::new();
    for range in data {
        let start = range.start / page_size() * page_size();
        let len = range.end.saturating_sub(start).next_multiple_of(page_size());
        if len > MAX_DATA_BYTES {
            continue;
        }
        let residency = memory.residency(start, len)?;
        let mut bytes = vec![0; len as usize];
        memory.read_resident(&residency, &mut bytes)?;
        for at in (0..bytes.len()).step_by(8) {
            let here = &bytes[at..];
            found.extend(transient_heap(here).map(|range| (range, Category::RubyTransientHeap)));
            found.extend(
                fiber_stacks(memory, here, start + at as u64).map(|range| (range, Category::ThreadStacks)),
            );
        }
    }
    found.sort_by_key(|(range, _)| range.start);
    found.dedup_by(|next, last| next.0.start < last.0.end);
    Ok(found.iter().flat_map(|(range, category)| mapped(maps, range).map(|part| (part, *category))).collect())
}

/// Returns the parts of `range` that are private anonymous memory: everything except the guard pages, if the
/// range has been identified correctly.
fn mapped<'a>(maps: &'a Maps, range: &'a Range<u64>) -> impl Iterator<Item = Range<u64>> + 'a {
    let overlap = |m: &Mapping| m.start.max(range.start)..m.end.min(range.end);
    maps.iter().filter(|m| m.is_private_anonymous()).map(overlap).filter(|part| !part.is_empty())
}

/// Returns the arena of a `struct transient_heap` (transient_heap.c, 2.7 to 3.2) at the start of `bytes`:
/// three lists of blocks, `promoted_objects_size` at 48, `arena` at 56, `arena_index` at 64, which has had
/// its final value since the program's start.
fn transient_heap(bytes: &[u8]) -> Option<Range<u64>> {
    let arena = word(bytes, 56).filter(|&arena| arena != 0 && arena.is_multiple_of(BLOCK_BYTES))?;
    let range = arena..arena.checked_add(ARENA_BYTES)?;
    let block =
        |at| word(bytes, at).is_some_and(|b| b == 0 || b.is_multiple_of(BLOCK_BYTES) && range.contains(&b));
    let fits = half_word(bytes, 64)? == BLOCKS
        && half_word(bytes, 48)? >= MIN_PROMOTED
        && block(0)
        && block(8)
        && block(16);
    fits.then_some(range)
}

/// Returns `promoted_objects` of a `struct transient_heap` at the start of `bytes`: an array of objects that it does
/// not keep alive.
pub(super) fn promoted_objects(bytes: &[u8]) -> Option<u64> {
    transient_heap(bytes)?;
    word(bytes, 40).filter(|&array| array != 0)
}

/// Returns the memory of a `struct fiber_pool` (cont.c, 2.7 to 4.0) at the start of `bytes`, which lie at
/// `address`: its allocations, with the `size` of a stack at 16. An allocation has base, size, stride, count
/// and, with or without a word before it (`used`, where single allocations can be freed), the address of the
/// pool, then the next allocation.
fn fiber_stacks<'a>(
    memory: &'a dyn Memory,
    bytes: &[u8],
    address: u64,
) -> impl Iterator<Item = Range<u64>> + use<'a> {
    let size = word(bytes, 16).filter(|&size| size >= page_size() && size.is_multiple_of(page_size()));
    let mut next = word(bytes, 0).filter(|&first| size.is_some() && first != 0 && first % 16 == 0);
    let allocation = move || {
        let mut bytes = [0; 64];
        memory.read(next?, &mut bytes).ok()?;
        let field = |i: usize| word(&bytes, 8 * i);
        let (base, stride, count) = (field(0)?, field(2)?, field(3)?);
        let fits =
            field(1) == size && stride == size?.checked_add(page_size())? && base.is_multiple_of(page_size());
        let pool = [4, 5].into_iter().find(|&i| field(i) == Some(address)).filter(|_| fits)?;
        // Where an allocation can be freed, the pointer to the previous one precedes that to the next.
        next = field(if pool == 4 { 5 } else { 7 }).filter(|&next| next != 0);
        let end = base.checked_add(stride.checked_mul(count)?)?;
        Some(base..end)
    };
    std::iter::from_fn(allocation).take(MAX_ALLOCATIONS)
}
