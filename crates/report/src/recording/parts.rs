//! The parts that a recording's categories are gathered in, as a reader tells them apart at a glance.

use crate::chart::Color;
use crate::style::Ink;
use std::collections::BTreeMap;

/// A part of a process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Ruby slots with an object.
    RubyLive,
    /// malloc chunks in use.
    Live,
    /// Freed, but on a page that something live shares.
    Stranded,
    /// Freed, in whole pages that a trim returns.
    Trimmable,
    /// Freed, kept in a thread cache or fastbin.
    Cached,
    /// Ruby's free slots.
    RubyFree,
    /// Everything else: libraries, stacks, overhead, files.
    Rest,
}

impl Part {
    /// In the order in which they are stacked: what is needed at the bottom.
    pub const ALL: [Part; 7] = [
        Part::Rest,
        Part::RubyLive,
        Part::Live,
        Part::RubyFree,
        Part::Cached,
        Part::Trimmable,
        Part::Stranded,
    ];

    /// The part of a category, by its name in the recording.
    #[must_use]
    pub fn of(category: &str) -> Self {
        match category {
            "ruby_free" => Part::RubyFree,
            "malloc_live" | "mmapped_chunks" | "allocator_other" => Part::Live,
            "malloc_cached" => Part::Cached,
            "malloc_trimmable" => Part::Trimmable,
            "malloc_stranded" => Part::Stranded,
            name if name.starts_with("ruby_live_") => Part::RubyLive,
            _ => Part::Rest,
        }
    }

    /// What it is called in a legend.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Part::RubyLive => "Ruby objects",
            Part::Live => "live",
            Part::Stranded => "stranded",
            Part::Trimmable => "trimmable",
            Part::Cached => "cached",
            Part::RubyFree => "Ruby free slots",
            Part::Rest => "rest",
        }
    }

    /// Its color on a terminal, the same as in `unbloat inspect`.
    #[must_use]
    pub fn ink(self) -> Ink {
        match self {
            Part::RubyLive => Ink::Magenta,
            Part::Live => Ink::Blue,
            Part::Stranded => Ink::Red,
            Part::Trimmable => Ink::Green,
            Part::Cached => Ink::Yellow,
            Part::RubyFree => Ink::BrightMagenta,
            Part::Rest => Ink::Gray,
        }
    }

    /// Its color in a chart.
    #[must_use]
    pub fn color(self) -> Color {
        match self {
            Part::Live => Color::Nth(0),
            Part::Stranded => Color::Nth(1),
            Part::Trimmable => Color::Nth(2),
            Part::RubyFree => Color::Nth(3),
            Part::Cached => Color::Nth(4),
            Part::RubyLive => Color::Nth(5),
            Part::Rest => Color::Neutral,
        }
    }

    /// Sums of bytes by part, in the order of [`Part::ALL`].
    #[must_use]
    pub fn sums(census: &BTreeMap<String, u64>) -> Vec<(Part, u64)> {
        let sum =
            |part| census.iter().filter(|(name, _)| Part::of(name) == part).map(|(_, bytes)| bytes).sum();
        Part::ALL.iter().map(|&part| (part, sum(part))).collect()
    }
}
