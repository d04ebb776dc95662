//! Rendering: text, JSON, SVG, self-contained HTML.
