//! The sampler: process tree and census over time, written to a store.
//!
//! [`record`] is the entry point: it starts a command (or attaches to processes), follows the tree, samples
//! it and writes it to a [`unbloat_store::Writer`]. One look at the tree proceeds as follows:
//!
//! ```text
//! schedule: a look is due ──► births: new and ended processes ─► tree: one read of /proc/PID/stat each ─► ops ─► writer thread
//!                         └► budget allows? ─► reading thread: smaps_rollup or census of each ───────► ops ─┘
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`session`] | a recording from start to end |
//! | [`schedule`] | the times of the looks |
//! | `clock` | the wall clock beside the monotonic one |
//! | `cpu` | the recorder's own CPU time |
//! | [`budget`] | the CPU budget for PSS, the census and looks at Rubies |
//! | `membership` | the processes that belong to the tree |
//! | `births` | follows births, execs and ends |
//! | `tree` | the members, their samples and accounts |
//! | [`evidence`] | evidence for the policy that a process was started with |
//! | [`sampler`] | memory and CPU of several processes at one moment |
//! | [`census`] | the composition of their memory |
//! | `steps` | marks for the steps that the gem takes to keep memory small |
//! | `rubies` | objects by class, code by gem, holders |
//! | `growing` | the classes whose holders are worth finding |
//! | `reading` | PSS, the census and looks at Rubies, on a separate thread |
//! | `ops` | the operations to write |
//! | `writing` | the thread that writes them |
//! | `backlog` | operations that wait while another process locks the file |
//! | [`progress`] | the state, for a live view |
//! | [`error`] | errors of a recording |
//! | [`monitor`] | running processes, watched without recording them |
//! | [`provenance`] | collects facts about the origin of the figures |

mod backlog;
mod births;
pub mod budget;
pub mod census;
mod clock;
mod cpu;
pub mod error;
pub mod evidence;
mod growing;
mod membership;
pub mod monitor;
mod ops;
pub mod progress;
pub mod provenance;
mod reading;
mod rubies;
pub mod sampler;
pub mod schedule;
pub mod session;
mod steps;
mod tree;
mod writing;

pub use error::{Error, Result};
pub use progress::Progress;
pub use session::{Ending, Options, Target, record};
