//! What a process's memory holds: glibc arenas, other allocators, the CRuby heap; the census (every resident byte
//! attributed once) and the verdict.
//!
//! Everything reads through [`unbloat_process::Memory`], so walks are tested on heaps that a test has made. Data flows
//! one way: mappings → claims (Ruby pages, stacks, allocator heaps) → [`model::Census`] → [`model::Finding`]s.

pub mod allocators;
pub mod cartography;
pub mod iec;
pub mod inspect;
pub mod model;
mod proportional;
mod ranges;
pub mod ruby;
pub mod sharing;
pub mod together;
pub mod trim;
pub mod verdict;

pub use iec::Iec;
pub use inspect::{Options, inspect};
pub use together::inspect_all;
