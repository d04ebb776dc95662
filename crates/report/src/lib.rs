//! Rendering: text, JSON, SVG, self-contained HTML.

pub mod bench;
