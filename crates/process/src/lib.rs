//! A Linux process seen from outside: process tree, mappings, resident pages, memory, stopping, and calling
//! functions in it.
//!
//! This is the only crate of the workspace that makes system calls about other processes. It does not
//! interpret the memory; the `heap` crate does.
//!
//! | module | concept |
//! |---|---|
//! | [`pid`] | process IDs |
//! | [`status`] | its kind, parent, name, RSS |
//! | [`rollup`] | its PSS, USS and swap |
//! | [`tree`] | the processes of the machine and their parents |
//! | [`threads`](mod@threads) | its threads |
//! | [`stop`] | stops them for a moment |
//! | [`maps`] | the mappings of an address space (`/proc/PID/maps`) |
//! | `page_size` | the size of a page of this machine |
//! | [`pages`] | the resident pages of a range (`PAGEMAP_SCAN`, `/proc/PID/pagemap`) |
//! | [`populated`] | the parts of an address space that have resident pages |
//! | [`memory`] | reads memory without making absent pages resident |
//! | [`environment`] | the environment of a process, at its start and now |
//! | [`pinned`] | a process that cannot be mistaken for another, and confined access to it |
//! | [`sandbox`] | the confined child in which everything that parses a target runs |
//! | `target_file` | files that a target has mapped, opened safely |
//! | [`stat`] | `/proc/PID/stat`, parsed |
//! | [`watch`] | reads the same files repeatedly at low cost |
//! | [`events`] | every fork, exec and exit, from the kernel |
//! | [`cgroup`] | the memory of a control group |
//! | `crash` | a last byte sent when this process fails |
//! | [`keeper`] | a command that leaves nothing behind |
//! | [`signal`] | asks a process to end, and receives such requests |
//! | [`status_page`] | the status that `libunbloat.so` reports in a process |
//! | [`resident`] | small reads that touch resident pages only |
//! | [`synthetic`] | synthetic memory for tests |
//! | [`elf`] | the contents of an ELF file: symbols, relocations, build ID |
//! | [`image`] | the ELF files mapped by a process |
//! | [`remote`] | calls a function in another process |
//! | [`exec`] | replaces this process by another program |
//! | [`error`] | the errors, with their next steps |

pub mod cgroup;
mod crash;
pub mod elf;
pub mod environment;
pub mod error;
pub mod events;
pub mod exec;
pub mod image;
pub mod keeper;
pub mod maps;
pub mod memory;
mod page_size;
pub mod pages;
pub mod pid;
pub mod pinned;
pub mod populated;
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
pub use page_size::page_size;
pub use pages::{PageMap, Residency};
pub use pid::Pid;
pub use pinned::{Pinned, Stopping, look, look_at, look_beside, look_with_copy};
pub use populated::{Populated, resident_bytes, windows};
pub use resident::ResidentOnly;
pub use rollup::{Backed, Rollup};
pub use stat::Stat;
pub use status::{Kind, Status};
pub use stop::Stopped;
pub use synthetic::SyntheticMemory;
pub use threads::{Thread, threads};
pub use tree::Tree;
