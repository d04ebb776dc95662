//! The sampler: process tree and census over time, written to a store.
//!
//! [`record`] does it all: it starts a command (or attaches to processes), follows the tree, samples it and writes it
//! to a [`unbloat_store::Writer`]. One look at the tree goes like this:
//!
//! ```text
//! schedule: a look is due ──► births: who came, who ended ─► tree: one read of /proc/PID/stat each ─► ops ─► writer thread
//!                         └► budget allows? ─► reading thread: smaps_rollup or census of each ───────► ops ─┘
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`session`] | a recording from start to end |
//! | [`schedule`] | when to look |
//! | `clock` | the wall clock beside the monotonic one |
//! | `cpu` | the recorder's own CPU time |
//! | [`budget`] | how often PSS and the census may be taken |
//! | `membership` | which processes belong to the tree |
//! | `births` | following births, execs and ends |
//! | `tree` | the members, their samples and accounts |
//! | [`evidence`] | what a process shows of the policy that it was started with |
//! | [`sampler`] | memory and CPU of several processes at one moment |
//! | [`census`] | what their memory is made of |
//! | `reading` | PSS and the census, on a thread of their own |
//! | `ops` | the things that are written |
//! | `writing` | the thread that writes them |
//! | `backlog` | what waits while another process locks the file |
//! | [`progress`] | the state, for whoever watches |
//! | [`error`] | errors of a recording |
//! | [`provenance`] | collecting facts about where the figures come from |

mod backlog;
mod births;
pub mod budget;
pub mod census;
mod clock;
mod cpu;
pub mod error;
pub mod evidence;
mod membership;
mod ops;
pub mod progress;
pub mod provenance;
mod reading;
pub mod sampler;
pub mod schedule;
pub mod session;
mod tree;
mod writing;

pub use error::{Error, Result};
pub use progress::Progress;
pub use session::{Options, Outcome, Target, record};
