//! An inspection as text, JSON and HTML.
//!
//! | module | concept |
//! |---|---|
//! | `words` | facts about a process in words |
//! | [`text`](fn@text) | for a person at a terminal |
//! | `tree` | several processes in one table |
//! | [`changes`](fn@changes) | two inspections side by side, for `--watch` |
//! | [`json`](fn@json) | for scripts: `docs/reference/inspect.schema.json` |
//! | [`html`](fn@html) | one self-contained page with the heap map |

mod advice;
mod changes;
mod html;
mod json;
mod text;
mod tree;
mod words;

pub use changes::changes;
pub use html::{Html, html};
pub use json::json;
pub use text::{Detail, text};

#[cfg(test)]
pub(crate) mod fixture;
