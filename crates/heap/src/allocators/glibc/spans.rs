//! The memory spans that hold an arena's chunks, and their current ends.

use super::arena::ArenaError;
use super::layout::{ALIGNMENT, CHUNK_HEADER, FLAGS, WORD};
use super::observer::Span;
use super::parameters::ParameterValues;
use super::walk::Frontier;
use super::{ArenaState, Glibc, Heap, runs};
use crate::ranges::{joined, remaining};
use std::ops::Range;
use unbloat_process::resident::word_if_resident;
use unbloat_process::{Backing, Maps, Memory, ResidentOnly, Result, page_size};

/// Maximum growth of the program break while it is read.
const BREAK_MAY_GROW: u64 = 1 << 30;

/// The facts needed to find the spans of arenas.
#[derive(Clone)]
pub struct SpanFacts<'a> {
    /// The located glibc.
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

impl SpanFacts<'_> {
    /// Searches for the main arena's runs in memory that belongs to no other arena.
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

    /// Returns the spans of an arena.
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

/// A span, and the location of its current end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSpan {
    /// The part that stays fixed during the read.
    pub span: Span,
    /// Upper bound of the span, whatever memory says.
    limit: u64,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The span with the top chunk; `pointer` is the location of the top's address.
    Top { pointer: u64 },
    /// The newest heap of an arena; the fields are the locations of the top pointer and of the heap's size.
    NewestHeap { pointer: u64, size: u64 },
    /// A complete span.
    Fixed,
}

impl LiveSpan {
    /// Reads the span's current end; `None` if it cannot be read or is implausible.
    pub fn frontier(&self, memory: &dyn Memory) -> Option<Frontier> {
        let word = |address| word_if_resident(memory, address).ok().flatten();
        let frontier = match self.end {
            End::Fixed => Frontier { end: self.span.range.end, top: None },
            End::Top { pointer } => {
                let top = word(pointer)?;
                if !(self.span.range.start..self.limit).contains(&top) {
                    // The arena has meanwhile moved on to other memory.
                    return Some(Frontier { end: self.span.range.end, top: None });
                }
                let size = word(top.checked_add(WORD)?)? & !FLAGS;
                // The break is page-aligned, and so is the top's end; anything else was read during a change.
                let end = top.checked_add(size).filter(|end| end.is_multiple_of(page_size()))?;
                Frontier { end, top: Some(top) }
            }
            End::NewestHeap { pointer, size } => {
                let top = word(pointer)?;
                let end = self.span.range.start.checked_add(word(size)?)?;
                // A newer heap was added meanwhile, so this one now ends like the older ones.
                Frontier { end, top: Some(top).filter(|_| self.span.range.start < top && top < end) }
            }
        };
        let inside = self.span.range.start..=self.limit;
        (inside.contains(&frontier.end) && frontier.top.is_none_or(|top| inside.contains(&top)))
            .then_some(frontier)
    }

    /// Returns whether nothing more can be added to the span.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.end == End::Fixed
    }

    /// Creates the span of one heap of a non-main arena. `newest`: the heap has the top.
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

    /// Creates the main arena's span on the program break; `None` if the break was never used.
    fn of_break(facts: &SpanFacts<'_>, main: &ArenaState) -> Option<Self> {
        (main.system_mem > 0).then_some(())?;
        let heap = facts.maps.iter().find(|m| m.backing == Backing::Brk)?;
        let heap_end = facts.maps.iter().filter(|m| m.backing == Backing::Brk).map(|m| m.end).max()?;
        let base = facts.parameters.map(|v| v.sbrk_base);
        let known = base.filter(|base| (heap.start..heap_end).contains(base));
        // malloc may have moved to the break after first using other memory; where it started is unknown.
        let foreign = base.is_some_and(|base| base != 0) && known.is_none();
        let base = known.unwrap_or(heap.start);
        let first_chunk = (base + CHUNK_HEADER).next_multiple_of(ALIGNMENT) - CHUNK_HEADER;
        let mut span = Self::of_main(facts, main, base..heap_end, first_chunk);
        if span.span.has_top {
            span.limit = heap_end.saturating_add(BREAK_MAY_GROW);
            if let Some(frontier) = span.frontier(facts.memory) {
                span.span.range.end = frontier.end;
            }
        }
        (!foreign || span.span.has_top).then_some(span)
    }

    /// Creates the span of a run of the main arena outside the program break.
    fn of_run(facts: &SpanFacts<'_>, main: &ArenaState, run: &Range<u64>) -> Self {
        Self::of_main(facts, main, run.clone(), run.start)
    }

    fn of_main(facts: &SpanFacts<'_>, main: &ArenaState, range: Range<u64>, first_chunk: u64) -> Self {
        let has_top = range.contains(&main.top);
        LiveSpan {
            limit: range.end,
            span: Span { arena: main.address, main: true, range, first_chunk, has_top },
            end: if has_top {
                End::Top { pointer: main.address + facts.glibc.layout.top() }
            } else {
                End::Fixed
            },
        }
    }

    /// The span's addresses.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.span.range.clone()
    }
}
