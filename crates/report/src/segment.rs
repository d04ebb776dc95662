//! How the segments of memory look in bars and legends of text.

use crate::style::{Ink, Style};
pub use unbloat_heap::model::Segment;

/// How a segment looks.
pub(crate) trait Appearance {
    /// A cell of a bar: where there are no colors, a letter-like block that stands for it.
    fn cell(self, style: &Style) -> char;
    /// Its color on a terminal.
    fn ink(self) -> Ink;
}

impl Appearance for Segment {
    fn cell(self, style: &Style) -> char {
        match self {
            _ if style.color => '█',
            Segment::RubyObjects => '█',
            Segment::Live => '▓',
            Segment::Stranded => '×',
            Segment::Trimmable => '○',
            Segment::Cached => '•',
            Segment::RubyFree => '░',
            Segment::Rest => '·',
            Segment::NotTold => '?',
        }
    }

    fn ink(self) -> Ink {
        match self {
            Segment::RubyObjects => Ink::Magenta,
            Segment::Live => Ink::Blue,
            Segment::Stranded => Ink::Red,
            Segment::Trimmable => Ink::Green,
            Segment::Cached => Ink::Yellow,
            Segment::RubyFree => Ink::BrightMagenta,
            Segment::Rest => Ink::Gray,
            Segment::NotTold => Ink::None,
        }
    }
}
