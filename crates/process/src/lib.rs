//! A Linux process seen from outside: the tree, its mappings, its resident pages, its memory, stopping it, calling a
//! function in it.
//!
//! This is the only crate of the workspace that makes system calls about other processes. It knows nothing of what
//! the memory means: that is the `heap` crate's.
//!
//! | module | concept |
//! |---|---|
//! | [`pid`] | a process's number |
//! | [`status`] | its kind, parent, name, RSS |
//! | [`rollup`] | its PSS, USS and swap |
//! | [`tree`] | the processes of the machine and their parents |
//! | [`threads`](mod@threads) | its threads |
//! | [`stop`] | stopping them for a moment |
//! | [`maps`] | the mappings of an address space (`/proc/PID/maps`) |
//! | [`pages`] | the resident pages of a range (`PAGEMAP_SCAN`, `/proc/PID/pagemap`) |
//! | [`memory`] | reading memory, without making absent pages resident |
//! | [`environment`] | the environment of a process, at its start and now |
//! | [`pinned`] | a process that cannot be mistaken for another, and looks at it |
//! | [`sandbox`] | the confined child in which everything that parses a target runs |
//! | `target_file` | files that a target has mapped, opened safely |
//! | [`stat`] | `/proc/PID/stat`, parsed |
//! | [`watch`] | reading the same files again and again, cheaply |
//! | [`events`] | every fork, exec and exit, from the kernel |
//! | [`cgroup`] | the memory of a control group |
//! | [`keeper`] | a command of which nothing is left behind |
//! | [`signal`] | asking a process to end |
//! | [`status_page`] | the account that `libunbloat.so` in a process gives of itself |
//! | [`resident`] | small reads that touch resident pages only |
//! | [`synthetic`] | memory that a test has made up |
//! | [`elf`] | the contents of an ELF file: symbols, relocations, build ID |
//! | [`image`] | the ELF files that it has mapped |
//! | [`remote`] | calling a function in another process |
//! | [`exec`] | becoming another program |
//! | [`error`] | the errors, with their next steps |

pub mod cgroup;
pub mod elf;
pub mod environment;
pub mod error;
pub mod events;
pub mod exec;
pub mod image;
pub mod keeper;
pub mod maps;
pub mod memory;
pub mod pages;
pub mod pid;
pub mod pinned;
#[cfg(target_arch = "x86_64")]
pub mod remote;
pub mod resident;
pub mod rollup;
pub mod sandbox;
pub mod signal;
pub mod stat;
pub mod status;
pub mod status_page;
pub mod stop;
pub mod synthetic;
mod target_file;
pub mod threads;
pub mod tree;
pub mod watch;

pub use cgroup::Cgroup;
pub use error::{Error, Result};
pub use image::Image;
pub use maps::{Backing, Mapping, Maps};
pub use memory::{LiveMemory, Memory};
pub use pages::{PageMap, Residency};
pub use pid::Pid;
pub use pinned::{Pinned, Stopping, look, look_at};
pub use resident::ResidentOnly;
pub use rollup::{Backed, Rollup};
pub use stat::Stat;
pub use status::{Kind, Status};
pub use stop::Stopped;
pub use synthetic::SyntheticMemory;
pub use threads::{Thread, threads};
pub use tree::Tree;

/// The size of a page that this build knows, in bytes. Other page sizes (aarch64 with 16 or 64 KiB) are refused.
pub const PAGE_SIZE: u64 = 4096;
