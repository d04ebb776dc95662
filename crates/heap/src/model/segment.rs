//! The segments into which categories are grouped, as a reader distinguishes them at a glance.

use super::{Category, Census};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A part of a process's memory in bars, legends and stacked areas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Segment {
    /// Ruby slots with an object.
    RubyObjects,
    /// Malloc memory in use.
    Live,
    /// Freed, in a thread cache or fastbin.
    Cached,
    /// Freed, and returned by a trim.
    Trimmable,
    /// Freed, and returned by nothing.
    Stranded,
    /// Ruby slots without an object.
    RubyFree,
    /// The program, its libraries, stacks and everything else that is neither heap nor unknown.
    Rest,
    /// Memory of unknown use.
    NotTold,
}

impl Segment {
    /// All segments in the order of a bar: first held memory, then bloat with the worst first, then the rest.
    pub const ALL: [Segment; 8] = [
        Segment::RubyObjects,
        Segment::Live,
        Segment::Stranded,
        Segment::Trimmable,
        Segment::Cached,
        Segment::RubyFree,
        Segment::Rest,
        Segment::NotTold,
    ];

    /// All segments in stacking order: needed memory at the bottom.
    pub const STACKED: [Segment; 8] = [
        Segment::Rest,
        Segment::RubyObjects,
        Segment::Live,
        Segment::NotTold,
        Segment::RubyFree,
        Segment::Cached,
        Segment::Trimmable,
        Segment::Stranded,
    ];

    /// Returns the segment of a category by its name in JSON and recordings. Names unknown to this version
    /// map to [`Segment::NotTold`].
    #[must_use]
    pub fn named(category: &str) -> Self {
        Category::named(category).map_or(Segment::NotTold, Category::segment)
    }

    /// The program holds this memory.
    #[must_use]
    pub fn is_live(self) -> bool {
        matches!(self, Segment::RubyObjects | Segment::Live)
    }

    /// The program freed this memory and the process keeps it.
    #[must_use]
    pub fn is_bloat(self) -> bool {
        matches!(self, Segment::Cached | Segment::Trimmable | Segment::Stranded)
    }

    /// Returns the bytes of a census that belong to the segment.
    #[must_use]
    pub fn bytes(self, census: &Census) -> u64 {
        census.sum(|category| category.segment() == self)
    }

    /// Returns the bytes of a recorded census that belong to the segment, by the names of its categories.
    #[must_use]
    pub fn recorded_bytes(self, census: &BTreeMap<String, u64>) -> u64 {
        let bytes = census.iter().filter(|(name, _)| Segment::named(name) == self).map(|(_, &bytes)| bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Returns the segments of a recorded census that have bytes.
    #[must_use]
    pub fn recorded(census: &BTreeMap<String, u64>) -> Vec<(Segment, u64)> {
        let all = Segment::ALL.iter().map(|&segment| (segment, segment.recorded_bytes(census)));
        all.filter(|&(_, bytes)| bytes > 0).collect()
    }

    /// The name in a legend.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Segment::RubyObjects => "Ruby objects",
            Segment::Live => "malloc live",
            Segment::Cached => "cached",
            Segment::Trimmable => "trimmable",
            Segment::Stranded => "stranded",
            Segment::RubyFree => "Ruby free slots",
            Segment::Rest => "program, other",
            Segment::NotTold => "not broken down",
        }
    }

    /// The name in a page's data and style sheet.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Segment::RubyObjects => "ruby-live",
            Segment::Live => "live",
            Segment::Cached => "cached",
            Segment::Trimmable => "trimmable",
            Segment::Stranded => "stranded",
            Segment::RubyFree => "ruby-free",
            Segment::Rest => "rest",
            Segment::NotTold => "untold",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RubyType;

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
            Category::MallocHoles,
            Category::MallocTop,
            Category::AllocatorOther,
            Category::LibrariesShared,
        ];
        let mut census = Census::of_walked_heap();
        categories.iter().zip(0..).for_each(|(&category, n)| census.add(category, 1 << n));
        let sum = |belongs: fn(Segment) -> bool| -> u64 {
            Segment::ALL.iter().filter(|&&segment| belongs(segment)).map(|s| s.bytes(&census)).sum()
        };
        assert_eq!(sum(Segment::is_live), census.live());
        assert_eq!(Some(sum(Segment::is_bloat)), census.bloat());
        assert_eq!(sum(|_| true), census.total());
        let recorded = census.iter().map(|(category, bytes)| (category.name(), bytes)).collect();
        assert!(Segment::ALL.iter().all(|s| s.recorded_bytes(&recorded) == s.bytes(&census)));
        assert_eq!(Segment::STACKED.map(|s| s.bytes(&census)).iter().sum::<u64>(), census.total());
    }
}
