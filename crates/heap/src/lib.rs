//! Explains the memory of a process: the heaps of its allocators, the CRuby heap, the census (every resident byte in one
//! category) and the verdict.
//!
//! | module | concept |
//! |---|---|
//! | [`allocators`] | the allocators, a folder each: recognizing them, walking their heaps, giving memory back |
//! | [`ruby`] | the CRuby heap: pages, slots, and who owns which malloc memory |
//! | [`mod@inspect`] | one look at one process |
//! | [`together`] | several processes in one look |
//! | `proportional` | censuses by proportional bytes, which can be added up |
//! | [`sharing`] | the memory that a worker still shares with its parent |
//! | [`trim`] | giving freed memory back in a live process |
//! | [`verdict`] | what the figures mean and what to do |
//! | [`cartography`] | drawing the heap map while the walkers go |
//! | [`model`] | the result: plain data |
//! | [`iec`] | sizes for people |
//! | `ranges` | lists of address ranges |
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
