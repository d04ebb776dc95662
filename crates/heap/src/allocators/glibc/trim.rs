//! Predicts what `malloc_trim(0)` would return, following `mtrim` and `systrim` (malloc/malloc.c, 2.27 to
//! 2.43).
//!
//! For each arena `mtrim` first merges the fastbin chunks with their free neighbors (`malloc_consolidate`;
//! chunks that touch the top become part of it), then returns the whole pages inside every free chunk,
//! starting 48 bytes into it. The top is cut only in the main arena, only if it ends at the program break,
//! and down to `MINSIZE` + 1 bytes, in pages (or in huge pages with `glibc.malloc.hugetlb`). Thread caches
//! are left alone.

use super::layout::{FREE_CHUNK_HEADER, MIN_CHUNK};
use crate::model::Category;
use std::ops::Range;
use unbloat_process::page_size;

/// The use of the bytes of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Use {
    /// Held by the program.
    Live,
    /// In a thread cache or fastbin.
    Cached,
    /// Freed, and returned by `malloc_trim(0)`.
    Trimmable,
    /// Freed, but not returned.
    Stranded,
    /// The part of the top that a trim keeps.
    Top,
    /// Used by malloc itself.
    Overhead,
    /// Not consistently readable.
    Unsettled,
    /// Not malloc's: something else moved the program break.
    Foreign,
}

impl Use {
    /// The number of uses.
    pub const COUNT: usize = 8;
}

impl Use {
    /// Returns the category in the census.
    #[must_use]
    pub fn category(self) -> Category {
        match self {
            Use::Live => Category::MallocLive,
            Use::Cached => Category::MallocCached,
            Use::Trimmable => Category::MallocTrimmable,
            Use::Stranded => Category::MallocStranded,
            Use::Top => Category::MallocTop,
            Use::Overhead => Category::MallocOverhead,
            Use::Unsettled => Category::Unsettled,
            Use::Foreign => Category::OtherAnonymous,
        }
    }

    /// All uses.
    pub const ALL: [Use; Use::COUNT] = [
        Use::Live,
        Use::Cached,
        Use::Trimmable,
        Use::Stranded,
        Use::Top,
        Use::Overhead,
        Use::Unsettled,
        Use::Foreign,
    ];
}

/// A run of adjacent freed chunks, free or in a fastbin, that `malloc_consolidate` would merge into one.
///
/// It classifies bytes as early as it can, so that a run of any length takes little memory: less than a page
/// stays undecided.
#[derive(Debug, Default)]
pub struct FreeRun {
    active: bool,
    end: u64,
    /// The first page that could be returned.
    aligned: u64,
    /// End of the bytes returned so far.
    returned: u64,
    open: Vec<(Range<u64>, Use)>,
}

impl FreeRun {
    /// Returns whether the run is open.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Returns whether the chunk at `start` continues the run.
    #[must_use]
    pub fn continues_at(&self, start: u64) -> bool {
        self.active && self.end == start
    }

    /// Starts a new run with the chunk at `start`. The previous run must have been closed.
    pub fn start(&mut self, start: u64) {
        self.aligned = start.saturating_add(FREE_CHUNK_HEADER).next_multiple_of(page_size());
        (self.active, self.end, self.returned) = (true, start, self.aligned);
    }

    /// Adds a chunk that ends at `end`. `bytes` are the bytes it accounts for, and `kept` is the use of those
    /// not returned.
    pub fn add(&mut self, bytes: Range<u64>, end: u64, kept: Use, emit: &mut dyn FnMut(Range<u64>, Use)) {
        self.end = end;
        if bytes.start < self.aligned {
            emit(bytes.start..bytes.end.min(self.aligned), kept);
        }
        let whole = end / page_size() * page_size();
        if whole > self.returned {
            // All undecided bytes lie on pages that are now complete.
            self.open.clear();
            emit(self.returned..whole, Use::Trimmable);
            self.returned = whole;
        }
        let rest = bytes.start.max(self.returned)..bytes.end;
        if !rest.is_empty() {
            self.open.push((rest, kept));
        }
    }

    /// Ends the run; undecided bytes are kept.
    pub fn close(&mut self, emit: &mut dyn FnMut(Range<u64>, Use)) {
        self.active = false;
        self.open.drain(..).for_each(|(range, kept)| emit(range, kept));
    }
}

/// The way a trim treats an arena's top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopRule {
    /// Address from which freed chunks touch the top and become part of it.
    pub merged_from: u64,
    /// The top can be cut, because it belongs to the main arena and ends at the program break.
    pub cuttable: bool,
    /// Unit of the cut in bytes: a page or a huge page.
    pub unit: u64,
}

impl TopRule {
    /// Returns the first byte cut off a top that ends at `end`, or `end` itself if nothing is.
    #[must_use]
    pub fn cut(&self, end: u64) -> u64 {
        let spare = end.saturating_sub(self.merged_from).saturating_sub(MIN_CHUNK + 1);
        if self.cuttable {
            end - spare / self.unit.max(page_size()) * self.unit.max(page_size())
        } else {
            end
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes adjacent chunks as `(start, size, in a fastbin)` and returns the ranges by use.
    fn run(chunks: &[(u64, u64, bool)]) -> Vec<(Range<u64>, Use)> {
        let mut out = Vec::new();
        let mut emit = |range, kept| out.push((range, kept));
        let mut run = FreeRun::default();
        run.start(chunks[0].0);
        for &(start, size, fast) in chunks {
            let kept = if fast { Use::Cached } else { Use::Stranded };
            run.add(start + 8..start + size + 8, start + size, kept, &mut emit);
        }
        run.close(&mut emit);
        out
    }

    #[test]
    fn whole_pages_from_48_bytes_after_the_start() {
        use Use::{Stranded, Trimmable};
        assert_eq!(run(&[(0x1000, 0x1000, false)]), [(0x1008..0x2000, Stranded), (0x2000..0x2008, Stranded)]);
        assert_eq!(
            run(&[(0xfd0, 0x1100, false)]),
            [(0xfd8..0x1000, Stranded), (0x1000..0x2000, Trimmable), (0x2000..0x20d8, Stranded)]
        );
        assert_eq!(run(&[(0xfe0, 0x1100, false)])[1], (0x2000..0x20e8, Stranded));
    }

    #[test]
    fn fastbin_chunks_join_their_neighbors() {
        let chunks =
            [(0x1f00, 0x80, true), (0x1f80, 0x800, false), (0x2780, 0x60, true), (0x27e0, 0x900, false)];
        let parts = run(&chunks);
        assert_eq!(parts[1], (0x1f88..0x2000, Use::Stranded));
        assert_eq!(parts[2], (0x2000..0x3000, Use::Trimmable));
        assert_eq!(parts.last(), Some(&(0x3000..0x30e8, Use::Stranded)));
    }

    #[test]
    fn the_parts_tile_the_run() {
        let chunks: Vec<_> = (0..1000).map(|i| (0x5010 + i * 0x50, 0x50, i % 3 == 0)).collect();
        let parts = run(&chunks);
        assert_eq!(parts[0].0.start, 0x5018);
        assert!(parts.windows(2).all(|pair| pair[0].0.end == pair[1].0.start));
        assert_eq!(parts.last().map(|p| p.0.end), Some(0x5010 + 1000 * 0x50 + 8));
    }

    #[test]
    fn only_the_main_arenas_top_is_cut_and_33_bytes_stay() {
        let rule = TopRule { merged_from: 0x10_0000, cuttable: true, unit: page_size() };
        assert_eq!(rule.cut(0x12_1000), 0x10_1000);
        assert_eq!(TopRule { merged_from: 0x10_0fdf, ..rule }.cut(0x12_1000), 0x10_1000);
        assert_eq!(TopRule { merged_from: 0x10_0fe0, ..rule }.cut(0x12_1000), 0x10_2000);
        assert_eq!(TopRule { cuttable: false, ..rule }.cut(0x12_1000), 0x12_1000);
        assert_eq!(TopRule { unit: 2 << 20, ..rule }.cut(0x12_1000), 0x12_1000);
    }
}
