//! Segments: groups of census categories that a reader tells apart at a glance, in bars, legends and stacked areas.

use crate::style::{Ink, Style};
use std::collections::BTreeMap;
use unbloat_heap::model::{Category, Census};

/// A part of a process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment {
    /// Ruby slots with an object.
    RubyObjects,
    /// Malloc chunks in use.
    Live,
    /// Freed, in a thread cache or fastbin.
    Cached,
    /// Freed, in whole pages that `malloc_trim(0)` returns.
    Trimmable,
    /// Freed, on pages that something live shares.
    Stranded,
    /// Ruby slots without an object.
    RubyFree,
    /// The program, libraries, stacks, files, overhead.
    Rest,
    /// Memory of an allocator, or of a moment, that could not be told apart.
    Untold,
}

impl Segment {
    /// As in a bar: what the program holds, bloat with the worst first, and what is neither.
    pub(crate) const ALL: [Segment; 8] = [
        Segment::RubyObjects,
        Segment::Live,
        Segment::Stranded,
        Segment::Trimmable,
        Segment::Cached,
        Segment::RubyFree,
        Segment::Rest,
        Segment::Untold,
    ];

    /// As areas stand on each other over time: what is needed at the bottom.
    pub(crate) const STACKED: [Segment; 8] = [
        Segment::Rest,
        Segment::RubyObjects,
        Segment::Live,
        Segment::Untold,
        Segment::RubyFree,
        Segment::Cached,
        Segment::Trimmable,
        Segment::Stranded,
    ];

    pub(crate) fn of(category: Category) -> Self {
        Self::named(&category.name())
    }

    /// The segment of a category by its name in JSON and recordings.
    pub(crate) fn named(category: &str) -> Self {
        match category {
            "ruby_free" => Segment::RubyFree,
            "malloc_live" | "mmapped_chunks" => Segment::Live,
            "malloc_cached" => Segment::Cached,
            "malloc_trimmable" => Segment::Trimmable,
            "malloc_stranded" => Segment::Stranded,
            "allocator_other" | "unsettled" | "not_readable" => Segment::Untold,
            name if name.starts_with("ruby_live_") => Segment::RubyObjects,
            _ => Segment::Rest,
        }
    }

    /// Whether the program holds it.
    pub(crate) fn is_live(self) -> bool {
        matches!(self, Segment::RubyObjects | Segment::Live)
    }

    /// Whether it is freed and kept.
    pub(crate) fn is_bloat(self) -> bool {
        matches!(self, Segment::Cached | Segment::Trimmable | Segment::Stranded)
    }

    /// Bytes of a census that belong to the segment.
    pub(crate) fn bytes(self, census: &Census) -> u64 {
        census.iter().filter(|&(category, _)| Segment::of(category) == self).map(|(_, bytes)| bytes).sum()
    }

    /// The same of a census that was recorded, by the names of its categories.
    pub(crate) fn recorded_bytes(self, census: &BTreeMap<String, u64>) -> u64 {
        census.iter().filter(|(name, _)| Segment::named(name) == self).map(|(_, bytes)| bytes).sum()
    }

    /// The segments of a census that was recorded, without those that have no bytes.
    pub(crate) fn recorded(census: &BTreeMap<String, u64>) -> Vec<(Segment, u64)> {
        let all = Segment::ALL.iter().map(|&segment| (segment, segment.recorded_bytes(census)));
        all.filter(|&(_, bytes)| bytes > 0).collect()
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Segment::RubyObjects => "Ruby objects",
            Segment::Live => "malloc live",
            Segment::Cached => "cached",
            Segment::Trimmable => "trimmable",
            Segment::Stranded => "stranded",
            Segment::RubyFree => "Ruby free slots",
            Segment::Rest => "program, other",
            Segment::Untold => "not told apart",
        }
    }

    /// The name in the HTML's data and style sheet.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Segment::RubyObjects => "ruby-live",
            Segment::Live => "live",
            Segment::Cached => "cached",
            Segment::Trimmable => "trimmable",
            Segment::Stranded => "stranded",
            Segment::RubyFree => "ruby-free",
            Segment::Rest => "rest",
            Segment::Untold => "untold",
        }
    }

    /// A cell of a bar: where there are no colors, a letter-like block that stands for it.
    pub(crate) fn cell(self, style: &Style) -> char {
        match self {
            _ if style.color => '█',
            Segment::RubyObjects => '█',
            Segment::Live => '▓',
            Segment::Stranded => '×',
            Segment::Trimmable => '○',
            Segment::Cached => '•',
            Segment::RubyFree => '░',
            Segment::Rest => '·',
            Segment::Untold => '?',
        }
    }

    /// Its color on a terminal.
    pub(crate) fn ink(self) -> Ink {
        match self {
            Segment::RubyObjects => Ink::Magenta,
            Segment::Live => Ink::Blue,
            Segment::Stranded => Ink::Red,
            Segment::Trimmable => Ink::Green,
            Segment::Cached => Ink::Yellow,
            Segment::RubyFree => Ink::BrightMagenta,
            Segment::Rest => Ink::Gray,
            Segment::Untold => Ink::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unbloat_heap::model::RubyType;

    #[test]
    fn live_and_bloat_are_what_the_census_counts_as_such() {
        let categories = [
            Category::RubyLive(RubyType::String),
            Category::RubyFree,
            Category::MallocLive,
            Category::MmappedChunks,
            Category::MallocCached,
            Category::MallocTrimmable,
            Category::MallocStranded,
            Category::MallocTop,
            Category::AllocatorOther,
            Category::LibrariesShared,
        ];
        let mut census = Census::default();
        categories.iter().zip(0..).for_each(|(&category, n)| census.add(category, 1 << n));
        let sum = |belongs: fn(Segment) -> bool| -> u64 {
            Segment::ALL.iter().filter(|&&segment| belongs(segment)).map(|s| s.bytes(&census)).sum()
        };
        assert_eq!(sum(Segment::is_live), census.live());
        assert_eq!(sum(Segment::is_bloat), census.bloat());
        assert_eq!(sum(|_| true), census.total());
        let recorded = census.iter().map(|(category, bytes)| (category.name(), bytes)).collect();
        assert!(Segment::ALL.iter().all(|s| s.recorded_bytes(&recorded) == s.bytes(&census)));
        assert_eq!(Segment::STACKED.map(|s| s.bytes(&census)).iter().sum::<u64>(), census.total());
    }
}
