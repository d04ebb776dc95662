//! The live view of processes, without a terminal: its state, its keys, and its drawing into a frame.
//!
//! ```text
//! snapshot, key, answer ──► State ──► Effect (inspect, trim, record, quit: done by the caller)
//!                             └─────► draw ──► frame
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`state`] | everything that the view remembers, and what keys and answers change |
//! | [`mod@column`] | the columns: heads, widths, values, orders |
//! | [`rows`](mod@rows) | the processes in the order of the view, as a tree or flat |
//! | [`draw`](mod@draw) | draws the state |

pub mod column;
pub mod draw;
pub mod rows;
pub mod state;

pub use column::Column;
pub use draw::draw;
pub use state::{Answer, Effect, State};
