//! The spans of memory that an arena's chunks lie in, and where they end at this moment.

use super::layout::{ALIGNMENT, CHUNK_HEADER, FLAGS, WORD};
use super::observer::Span;
use super::parameters::ParameterValues;
use super::walk::Frontier;
use super::{ArenaState, Glibc, Heap};
use std::ops::Range;
use unbloat_process::resident::word_if_resident;
use unbloat_process::{Backing, Maps, Memory, PAGE_SIZE};

/// How far the program break may move while it is read.
const BREAK_MAY_GROW: u64 = 1 << 30;

/// A span, and where to read its end again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSpan {
    /// What does not change while it is read.
    pub span: Span,
    /// Nothing beyond is the arena's, whatever memory says.
    limit: u64,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The top chunk is in it; its address stands here.
    Top { pointer: u64 },
    /// The newest heap of an arena: the top pointer stands here, the heap's size there.
    NewestHeap { pointer: u64, size: u64 },
    /// Complete.
    Fixed,
}

impl LiveSpan {
    /// Where the span ends now; `None` when that cannot be read or makes no sense.
    pub fn frontier(&self, memory: &dyn Memory) -> Option<Frontier> {
        let word = |address| word_if_resident(memory, address).ok().flatten();
        let frontier = match self.end {
            End::Fixed => Frontier { end: self.span.range.end, top: None },
            End::Top { pointer } => {
                let top = word(pointer)?;
                let size = word(top.checked_add(WORD)?)? & !FLAGS;
                // The break is page-aligned, and so is the top's end; anything else was read in the middle of a change.
                let end = top.checked_add(size).filter(|end| end.is_multiple_of(PAGE_SIZE))?;
                Frontier { end, top: Some(top) }
            }
            End::NewestHeap { pointer, size } => {
                let top = word(pointer)?;
                let end = self.span.range.start.checked_add(word(size)?)?;
                // A newer heap has been added meanwhile: then this one ends like the older ones.
                Frontier { end, top: Some(top).filter(|_| self.span.range.start < top && top < end) }
            }
        };
        let inside = self.span.range.start..=self.limit;
        (inside.contains(&frontier.end) && frontier.top.is_none_or(|top| inside.contains(&top)))
            .then_some(frontier)
    }

    /// The span of one heap of a non-main arena. `newest`: it has the top.
    #[must_use]
    pub fn of_heap(glibc: &Glibc, arena: &ArenaState, heap: &Heap, newest: bool) -> Self {
        let end = if newest {
            End::NewestHeap { pointer: arena.address + glibc.layout.top(), size: heap.address + 0x10 }
        } else {
            End::Fixed
        };
        LiveSpan {
            span: Span {
                arena: arena.address,
                main: false,
                range: heap.address..heap.address + heap.size,
                first_chunk: heap.first_chunk,
                has_top: newest,
            },
            limit: heap.address + arena.heap_max,
            end,
        }
    }

    /// The span of the main arena that the program break feeds; `None` when it has never been used.
    #[must_use]
    pub fn of_break(
        glibc: &Glibc,
        main: &ArenaState,
        values: Option<&ParameterValues>,
        memory: &dyn Memory,
        maps: &Maps,
    ) -> Option<Self> {
        (main.system_mem > 0).then_some(())?;
        let heap = maps.iter().find(|m| m.backing == Backing::Brk)?;
        let heap_end = maps.iter().filter(|m| m.backing == Backing::Brk).map(|m| m.end).max()?;
        let base = values.map(|v| v.sbrk_base).filter(|base| (heap.start..heap_end).contains(base));
        let base = base.unwrap_or(heap.start);
        let first_chunk = (base + CHUNK_HEADER).next_multiple_of(ALIGNMENT) - CHUNK_HEADER;
        let has_top = (base..heap_end).contains(&main.top);
        let mut span = LiveSpan {
            span: Span { arena: main.address, main: true, range: base..heap_end, first_chunk, has_top },
            limit: if has_top { heap_end.saturating_add(BREAK_MAY_GROW) } else { heap_end },
            end: if has_top { End::Top { pointer: main.address + glibc.layout.top() } } else { End::Fixed },
        };
        if let Some(frontier) = span.frontier(memory) {
            span.span.range.end = frontier.end;
        }
        Some(span)
    }

    /// Addresses.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.span.range.clone()
    }
}
