//! Finds the pages of the Ruby heap from the mappings alone: no symbol and no `rb_objspace_t` is needed.
//!
//! A page's body lies at a multiple of its size and begins with a pointer to its `struct heap_page` (`struct
//! heap_page_header`). That structure in turn names the first slot, which must be just past that pointer, and
//! the number and size of slots, which must fit. Two independent structures that point at each other do not
//! occur by chance.

use super::layout::{IN_TOMB, PAGE_HEAD_BYTES, PAGE_LAYOUTS, PageLayout, RVALUE_BYTES};
use super::words::{half, half_word, word};
use std::ops::Range;
use unbloat_process::{Backing, Mapping, Maps, Memory, Result, page_size, windows};

/// Maximum range of one residency query.
const WINDOW_BYTES: u64 = 64 << 20;
/// Structures read per call.
const BATCH: usize = 1024;
/// Size of the largest slot of any version (`HEAP_COUNT` 5: 40 << 4). The first slot lies within twice that.
const MAX_SLOT_BYTES: u64 = 640;

/// One page of the Ruby heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapPage {
    /// Address of the body.
    pub body: u64,
    /// Address of its `struct heap_page`.
    pub header: u64,
    /// Address of its size pool inside `rb_objspace_t`; 0 in versions without pools.
    pub pool: u64,
    /// Offset of the first slot in the body.
    pub first_slot: u32,
    /// Number of slots; 0 for a page that currently belongs to no size pool (from 3.4 on).
    pub slots: u16,
    /// Size of a slot.
    pub slot_bytes: u16,
    /// The page is in the tomb: empty, and reused before new pages are allocated.
    pub tomb: bool,
    /// Link to the next page of the same heap: the address of its `page_node`, or of the list's head.
    pub next_node: u64,
}

impl HeapPage {
    /// Returns the addresses of its slots.
    #[must_use]
    pub fn slot_range(&self) -> Range<u64> {
        let start = self.body + u64::from(self.first_slot);
        start..start + u64::from(self.slots) * u64::from(self.slot_bytes)
    }
}

/// The pages of a Ruby heap, in address order, disjoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapPages {
    /// Their shape.
    pub layout: PageLayout,
    /// The pages.
    pub pages: Vec<HeapPage>,
}

impl HeapPages {
    /// Finds the pages. `layout` is the version's shape; without one, every known shape is tried and the one
    /// that fits most pages wins. Use a view that touches resident pages only.
    ///
    /// # Errors
    /// The process is gone or access to it is denied.
    pub fn find(memory: &dyn Memory, maps: &Maps, layout: Option<PageLayout>) -> Result<Option<Self>> {
        let layouts: &[PageLayout] = match &layout {
            Some(layout) => std::slice::from_ref(layout),
            None => &PAGE_LAYOUTS,
        };
        // From 3.1 on pages have their own mappings, so the program break, which holds much of malloc's
        // memory, has none, unless that Ruby was built without mmap.
        let found = match layouts.iter().all(|layout| layout.pool.is_some()) {
            true => Self::best(memory, maps, layouts, |m| m.backing != Backing::Brk)?,
            false => None,
        };
        match found {
            Some(found) => Ok(Some(found)),
            None => Self::best(memory, maps, layouts, |_| true),
        }
    }

    /// Finds the pages in the given mappings, using the layout that fits most.
    fn best(
        memory: &dyn Memory,
        maps: &Maps,
        layouts: &[PageLayout],
        within: impl Fn(&Mapping) -> bool,
    ) -> Result<Option<Self>> {
        let step = layouts.iter().map(|l| l.page_bytes).min().unwrap_or(page_size());
        let mut found: Vec<HeapPages> =
            layouts.iter().map(|&layout| HeapPages { layout, pages: Vec::new() }).collect();
        let mut candidates = Vec::with_capacity(BATCH);
        for window in in_mappings(memory, maps, within) {
            let residency = memory.residency(window.start, window.end - window.start)?;
            for run in residency.resident_runs() {
                for address in (run.start.next_multiple_of(step)..run.end).step_by(step as usize) {
                    candidates.push(address);
                    if candidates.len() == BATCH {
                        check(memory, maps, &candidates, &mut found)?;
                        candidates.clear();
                    }
                }
            }
        }
        check(memory, maps, &candidates, &mut found)?;
        // The first among equals, since the strictest shapes come first.
        let best = found.into_iter().rev().max_by_key(|found| found.pages.len());
        Ok(best.filter(|found| !found.pages.is_empty()))
    }

    /// Iterates over the addresses of the bodies, in order.
    pub fn bodies(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.pages.iter().map(|page| page.body..page.body + self.layout.body_bytes)
    }
}

/// Returns whether a mapping can hold heap pages. It may be smaller than the heap page that starts in it, but
/// never unaligned.
fn may_hold_pages(mapping: &Mapping) -> bool {
    mapping.is_private_anonymous() && mapping.read
}

/// Returns the populated parts of the candidate mappings, joining small neighbors into one window, since a Ruby process
/// has thousands of them.
fn in_mappings(memory: &dyn Memory, maps: &Maps, within: impl Fn(&Mapping) -> bool) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for mapping in maps.iter().filter(|m| may_hold_pages(m) && within(m)) {
        for window in windows(memory, &mapping.range(), WINDOW_BYTES) {
            match joined.last_mut() {
                Some(last) if last.start / WINDOW_BYTES == window.start / WINDOW_BYTES => {
                    last.end = window.end;
                }
                _ => joined.push(window),
            }
        }
    }
    joined
}

/// Adds the candidates that are heap pages to the shapes they fit.
fn check(memory: &dyn Memory, maps: &Maps, candidates: &[u64], found: &mut [HeapPages]) -> Result<()> {
    let mut words = vec![0; candidates.len() * 8];
    let readable = memory.gather(candidates, 8, &mut words)?;
    let pointers: Vec<(u64, u64)> = candidates
        .iter()
        .zip(words.chunks_exact(8))
        .zip(readable)
        .filter_map(|((&body, bytes), readable)| Some((body, word(bytes, 0).filter(|_| readable)?)))
        .filter(|&(_, header)| header != 0 && header % 16 == 0)
        .filter(|&(body, header)| [body, header].iter().all(|&a| maps.find(a).is_some_and(may_hold_pages)))
        .collect();
    let headers: Vec<u64> = pointers.iter().map(|&(_, header)| header).collect();
    let mut heads = vec![0; headers.len() * PAGE_HEAD_BYTES];
    let readable = memory.gather(&headers, PAGE_HEAD_BYTES, &mut heads)?;
    for ((&(body, header), head), readable) in
        pointers.iter().zip(heads.chunks_exact(PAGE_HEAD_BYTES)).zip(readable)
    {
        for found in found.iter_mut().filter(|_| readable) {
            found.pages.extend(parse(&found.layout, body, header, head));
        }
    }
    Ok(())
}

/// Parses the page at `body` whose `struct heap_page` begins with the bytes `head`, if everything in it is
/// consistent.
fn parse(layout: &PageLayout, body: u64, header: u64, head: &[u8]) -> Option<HeapPage> {
    let slot_bytes = match layout.slot_size {
        Some(at) => u64::from(half(head, at)?),
        None => RVALUE_BYTES,
    };
    let slots = half(head, layout.total_slots)?;
    let start = word(head, layout.start)?;
    let page = HeapPage {
        body,
        header,
        pool: layout.pool.map_or(Some(0), |at| word(head, at))?,
        first_slot: 0,
        slots,
        slot_bytes: slot_bytes as u16,
        tomb: layout.tomb_flags.map_or(Some(0), |at| half_word(head, at))? & IN_TOMB != 0,
        next_node: word(head, layout.node)?,
    };
    let aligned = body.is_multiple_of(layout.page_bytes);
    if let Some(at) = layout.body {
        (word(head, at)? == body).then_some(())?;
        // A page of the global list of empty pages (`heap_page_in_global_empty_pages_pool`).
        let empty = slots == 0 && slot_bytes == 0 && start == 0 && page.pool == 0;
        if empty && aligned {
            return Some(page);
        }
    }
    let first_slot = start.checked_sub(body)?;
    let fits = slots > 0
        && (RVALUE_BYTES..=MAX_SLOT_BYTES).contains(&slot_bytes)
        && slot_bytes % 8 == 0
        && (8..=2 * MAX_SLOT_BYTES).contains(&first_slot)
        && first_slot % 8 == 0
        && first_slot + u64::from(slots) * slot_bytes <= layout.body_bytes
        && half(head, layout.free_slots)? <= slots
        && (layout.pool.is_none() || page.pool != 0);
    (aligned && fits).then_some(HeapPage { first_slot: first_slot as u32, ..page })
}
