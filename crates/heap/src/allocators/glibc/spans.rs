//! The spans of memory that an arena's chunks lie in, and where they end at this moment.

use super::arena::ArenaError;
use super::layout::{ALIGNMENT, CHUNK_HEADER, FLAGS, WORD};
use super::observer::Span;
use super::parameters::ParameterValues;
use super::walk::Frontier;
use super::{ArenaState, Glibc, Heap, runs};
use crate::ranges::{joined, remaining};
use std::ops::Range;
use unbloat_process::resident::word_if_resident;
use unbloat_process::{Backing, Maps, Memory, PAGE_SIZE, ResidentOnly, Result};

/// How far the program break may move while it is read.
const BREAK_MAY_GROW: u64 = 1 << 30;

/// What the spans of arenas are found with.
#[derive(Clone)]
pub struct Ground<'a> {
    /// The allocator.
    pub glibc: &'a Glibc,
    /// The process's memory.
    pub memory: &'a dyn Memory,
    /// Its mappings.
    pub maps: &'a Maps,
    /// The settings in force.
    pub parameters: Option<ParameterValues>,
    /// The main arena's memory that is not on the program break.
    pub runs: Vec<Range<u64>>,
}

impl Ground<'_> {
    /// Looks for the main arena's runs in what no other arena has.
    ///
    /// # Errors
    /// The process is gone or may not be read.
    pub fn find_runs(&mut self, main: &ArenaState, others: &[LiveSpan]) -> Result<()> {
        if main.noncontiguous {
            let taken = joined(others.iter().map(LiveSpan::range).collect());
            let mappings = self.maps.iter().filter(|m| m.is_private_anonymous() && m.backing != Backing::Brk);
            let free: Vec<_> =
                mappings.flat_map(|m| remaining(&m.range(), &taken).collect::<Vec<_>>()).collect();
            self.runs = runs::find(self.memory, &free, main.top)?;
        }
        Ok(())
    }

    /// The spans of an arena.
    ///
    /// # Errors
    /// The chain of its heaps cannot be followed.
    pub fn spans(&self, arena: &ArenaState) -> Result<Vec<LiveSpan>, ArenaError> {
        if arena.main {
            let on_break = LiveSpan::of_break(self, arena);
            return Ok(on_break
                .into_iter()
                .chain(self.runs.iter().map(|run| LiveSpan::of_run(self, arena, run)))
                .collect());
        }
        let heaps = self.glibc.heaps(&ResidentOnly::new(self.memory), arena)?;
        let span = |(i, heap)| LiveSpan::of_heap(self.glibc, arena, heap, i == 0);
        Ok(heaps.iter().enumerate().map(span).collect())
    }
}

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
                if !(self.span.range.start..self.limit).contains(&top) {
                    // The arena has gone on elsewhere meanwhile.
                    return Some(Frontier { end: self.span.range.end, top: None });
                }
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

    /// Tells whether nothing can be added to it any more.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.end == End::Fixed
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
    fn of_break(ground: &Ground<'_>, main: &ArenaState) -> Option<Self> {
        (main.system_mem > 0).then_some(())?;
        let heap = ground.maps.iter().find(|m| m.backing == Backing::Brk)?;
        let heap_end = ground.maps.iter().filter(|m| m.backing == Backing::Brk).map(|m| m.end).max()?;
        let base = ground.parameters.map(|v| v.sbrk_base);
        let known = base.filter(|base| (heap.start..heap_end).contains(base));
        // What malloc got from elsewhere at first, it may have got from the break later: where, is not known.
        let foreign = base.is_some_and(|base| base != 0) && known.is_none();
        let base = known.unwrap_or(heap.start);
        let first_chunk = (base + CHUNK_HEADER).next_multiple_of(ALIGNMENT) - CHUNK_HEADER;
        let mut span = Self::of_main(ground, main, base..heap_end, first_chunk);
        if span.span.has_top {
            span.limit = heap_end.saturating_add(BREAK_MAY_GROW);
            if let Some(frontier) = span.frontier(ground.memory) {
                span.span.range.end = frontier.end;
            }
        }
        (!foreign || span.span.has_top).then_some(span)
    }

    /// The span of a run of the main arena that is not on the program break.
    fn of_run(ground: &Ground<'_>, main: &ArenaState, run: &Range<u64>) -> Self {
        Self::of_main(ground, main, run.clone(), run.start)
    }

    fn of_main(ground: &Ground<'_>, main: &ArenaState, range: Range<u64>, first_chunk: u64) -> Self {
        let has_top = range.contains(&main.top);
        LiveSpan {
            limit: range.end,
            span: Span { arena: main.address, main: true, range, first_chunk, has_top },
            end: if has_top {
                End::Top { pointer: main.address + ground.glibc.layout.top() }
            } else {
                End::Fixed
            },
        }
    }

    /// Addresses.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.span.range.clone()
    }
}
