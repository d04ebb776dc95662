//! Rendering: text, JSON, SVG, self-contained HTML.
//!
//! Everything here is a function from a model to a string: nothing reads a process, a file or the environment, and
//! nothing prints.
//!
//! | module | concept |
//! |---|---|
//! | [`inspect`] | a look at processes: text, JSON, a page with a heap map |
//! | [`trim`], [`status`] | what trims returned; what the runtime does |
//! | [`recording`] | memory over time: summary, live view, charts, CSV, growth |
//! | [`mod@bench`] | what a load measured |
//! | [`compare`] | an experiment: the answer and its evidence |
//! | [`chart`] | panels over a common axis, as SVG, PNG or an interactive page |
//! | `drawing` | the SVG kit: elements, scales, axes |
//! | `page` | the shell of every page: style, script, light and dark |
//! | `palette` | every color, by name |
//! | [`segment`] | how parts of memory look in text |
//! | [`style`] | text for a terminal: width, color, bars, paragraphs, numbers |
//! | [`json`] | documents as text |
//! | `browser` | tests of the pages in Chromium |

pub mod bench;
#[cfg(test)]
mod browser;
pub mod chart;
pub mod compare;
mod drawing;
pub mod inspect;
pub mod json;
mod page;
mod palette;
pub mod recording;
pub mod segment;
pub mod status;
pub mod style;
pub mod trim;

pub use unbloat_heap::Iec;
