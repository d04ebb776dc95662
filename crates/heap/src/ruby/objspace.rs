//! The counters that the garbage collector keeps in `rb_objspace_t`.
//!
//! The structure is found through the pages: from 3.1 on each points to its size pool inside it; before, the
//! page list leads to its head there. The counters are accepted only if they agree with those of the scan.

use super::layout::{ObjspaceLayout, PageList, RVALUE_BYTES};
use super::pages::{HeapPage, HeapPages};
use super::words::word;
use std::collections::HashSet;
use unbloat_process::{Error, Memory, Result};

/// The facts from the collector's own counters that the scan does not yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objspace {
    /// `heap_pages.sorted_length` (`GC.stat[:heap_sorted_length]`); from 3.4 on the length of the array that
    /// replaced it (`GC.stat[:heap_allocated_pages]`).
    pub sorted_length: u64,
}

impl Objspace {
    /// Reads the counters; `None` if they are not where this version should have them, or do not agree with
    /// the pages.
    ///
    /// # Errors
    /// The process is gone.
    pub fn read(memory: &dyn Memory, pages: &HeapPages, layout: &ObjspaceLayout) -> Result<Option<Self>> {
        let Some(pools) = first_pool(pages, layout) else { return Ok(None) };
        let mut bytes = vec![0; layout.heap_pages + 4 * 8];
        match memory.read(pools, &mut bytes) {
            Err(gone @ Error::Gone { .. }) => return Err(gone),
            Err(_) => return Ok(None),
            Ok(()) => {}
        }
        if !counters_agree(&bytes, pages, layout, pools) {
            return Ok(None);
        }
        let at = |i: usize| word(&bytes, layout.heap_pages + 8 * i);
        let sorted_length = match layout.list {
            // sorted, allocated_pages, allocatable_pages, sorted_length
            PageList::Array => at(3).filter(|&length| at(1).is_some_and(|allocated| allocated <= length)),
            // sorted: a pointer at `{ size, capa, data[] }` (darray.h)
            PageList::Darray => at(0).and_then(|sorted| memory.word(sorted).ok()),
        };
        let found = pages.pages.len() as u64;
        // With room for growth; anything longer is implausible.
        let plausible = |length: &u64| *length >= found - found / 16 && *length <= 64 * found + 4096;
        Ok(sorted_length.filter(plausible).map(|sorted_length| Objspace { sorted_length }))
    }
}

/// Returns the address of the first size pool (`size_pools[0]`, `heaps[0]`; `eden_heap` before 3.1).
pub(crate) fn first_pool(pages: &HeapPages, layout: &ObjspaceLayout) -> Option<u64> {
    if pages.layout.pool.is_none() {
        let nodes: HashSet<u64> = pages.pages.iter().map(|p| p.header + pages.layout.node as u64).collect();
        let eden = pages.pages.iter().filter(|page| !page.tomb);
        let head = eden.map(|page| page.next_node).find(|next| !nodes.contains(next))?;
        return head.checked_sub(layout.list_head);
    }
    let first = |page: &HeapPage| {
        let index = (u64::from(page.slot_bytes) / RVALUE_BYTES).checked_ilog2()?;
        page.pool.checked_sub(u64::from(index) * layout.pool_bytes)
    };
    let mut found = pages.pages.iter().filter(|page| page.slots > 0).map(first);
    let pool = found.next()??;
    found.all(|other| other == Some(pool)).then_some(pool)
}

/// Returns whether each pool's `total_pages` and `total_slots`, in eden and in the tomb, match the scan.
fn counters_agree(bytes: &[u8], pages: &HeapPages, layout: &ObjspaceLayout, pools: u64) -> bool {
    let agree = |at: Option<usize>, pool: u64, tomb: bool| {
        let Some(at) = at else { return true };
        let of_pool = |page: &&HeapPage| {
            page.slots > 0 && page.tomb == tomb && (page.pool == pool || pages.layout.pool.is_none())
        };
        let (count, slots) = pages
            .pages
            .iter()
            .filter(of_pool)
            .fold((0, 0), |(count, slots), page| (count + 1, slots + u64::from(page.slots)));
        let near = |counter: Option<u64>, scanned: u64| {
            // A running target adds and frees pages between the two readings.
            counter.is_some_and(|counter| counter.abs_diff(scanned) <= scanned / 16)
        };
        near(word(bytes, at), count) && near(word(bytes, at + 8), slots)
    };
    (0..layout.pools).all(|i| {
        let from = i * layout.pool_bytes as usize;
        let pool = pools + from as u64;
        agree(Some(from + layout.eden_totals), pool, false)
            && agree(layout.tomb_totals.map(|at| from + at), pool, true)
    })
}
