//! The appearance of memory segments in text: bar cells and colors.

use crate::style::{Ink, Style};
pub use unbloat_heap::model::Segment;

/// The appearance of a segment on a terminal.
pub(crate) trait Appearance {
    /// Returns the cell of a bar, distinguishable without color.
    fn cell(self, style: &Style) -> char;
    /// Returns its color on a terminal.
    fn ink(self) -> Ink;
}

impl Appearance for Segment {
    fn cell(self, style: &Style) -> char {
        if style.color {
            return '█';
        }
        match self {
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
