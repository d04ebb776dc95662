//! Rendering: text, JSON, SVG, self-contained HTML.
//!
//! Everything here is a function from a model to a string: nothing reads a process, a file or the
//! environment, and nothing prints.
//!
//! | module | concept |
//! |---|---|
//! | [`inspect`] | an inspection: text, JSON, a page with a heap map |
//! | [`code`] | the loaded code of a Ruby by gem and file |
//! | [`diff`] | the difference of two looks, by class or gem |
//! | [`holds`] | the holders of a Ruby's memory |
//! | [`objects`] | live objects of a Ruby by class |
//! | `ruby_look` | the frame of every closer look at Rubies |
//! | [`trim`], [`status`] | the results of trims; the runtime's work |
//! | [`recording`] | memory over time: summary, live view, charts, CSV, growth |
//! | [`mod@bench`] | the measurements of a load |
//! | [`compare`] | an experiment: the answer and its evidence |
//! | [`unshared`] | what un-shared a worker's pages |
//! | [`tune`] | a search: what was tried, and its final comparison |
//! | [`chart`] | panels over a common axis, as SVG, PNG or an interactive page |
//! | `drawing` | the SVG kit: elements, scales, axes |
//! | `page` | the shell of every page: style, script, light and dark |
//! | `palette` | every color, by name |
//! | [`segment`] | the appearance of memory segments in text |
//! | [`style`] | text for a terminal: width, color, bars, paragraphs, numbers |
//! | [`json`] | documents as text |
//! | `browser` | tests of the pages in Chromium |

pub mod bench;
#[cfg(test)]
mod browser;
pub mod chart;
pub mod code;
pub mod compare;
pub mod diff;
mod drawing;
pub mod holds;
pub mod inspect;
pub mod json;
pub mod objects;
mod page;
mod palette;
pub mod recording;
mod ruby_look;
pub mod segment;
pub mod status;
pub mod style;
pub mod trim;
pub mod tune;
pub mod unshared;

pub use unbloat_heap::Iec;
