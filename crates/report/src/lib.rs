//! Rendering: text, JSON, SVG, self-contained HTML.
//!
//! Everything here is a function from a model to a string: nothing reads a process, a file or the environment, and
//! nothing prints.

pub mod bench;
#[cfg(test)]
mod browser;
pub mod chart;
pub mod compare;
mod drawing;
pub mod inspect;
mod page;
mod palette;
pub mod recording;
pub mod segment;
pub mod status;
pub mod style;
pub mod trim;

pub use unbloat_heap::Iec;
