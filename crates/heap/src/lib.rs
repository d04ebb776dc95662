//! Explains the memory of a process: the heaps of its allocators, the CRuby heap, the census (every resident
//! byte in one category) and the verdict.
//!
//! | module | concept |
//! |---|---|
//! | [`allocators`] | the allocators, one folder each: how to recognize them, walk their heaps, and make them return memory |
//! | [`ruby`] | the CRuby heap: pages, slots, and who owns which malloc memory |
//! | [`mod@inspect`] | one inspection of one process |
//! | `closer` | a closer look at a Ruby, shared by the next ones |
//! | [`mod@code`] | the loaded code of a Ruby by file |
//! | [`mod@holds`] | the holders of a Ruby's memory |
//! | [`mod@objects`] | live objects of a Ruby by class |
//! | [`mod@makeup`] | objects and code of a Ruby in few rows, for looks over time |
//! | [`together`] | several processes in one inspection |
//! | `proportional` | censuses by proportional bytes, which can be added up |
//! | [`sharing`] | the memory that a worker still shares with its parent |
//! | [`mod@unshared`] | what un-shared the pages that a worker inherited, by cause |
//! | [`trim`] | returns freed memory of a live process |
//! | [`verdict`] | the meaning of the figures and the advice |
//! | [`cartography`] | draws the heap map during the walks |
//! | [`model`] | the result: plain data |
//! | [`iec`] | human-readable sizes |
//! | `ranges` | lists of address ranges |
//!
//! Everything reads through [`unbloat_process::Memory`], so walks are tested on synthetic heaps. Data flows
//! one way: mappings → claims (Ruby pages, stacks, allocator heaps) → [`model::Census`] →
//! [`model::Finding`]s.

pub mod allocators;
pub mod cartography;
mod closer;
pub mod code;
pub mod holds;
pub mod iec;
pub mod inspect;
pub mod makeup;
pub mod model;
pub mod objects;
mod proportional;
mod ranges;
pub mod ruby;
pub mod sharing;
pub mod together;
pub mod trim;
pub mod unshared;
pub mod verdict;

pub use code::code;
pub use holds::{heap_dump, held, holds};
pub use iec::Iec;
pub use inspect::{Options, Whose, inspect};
pub use makeup::makeup;
pub use objects::{Questions, objects, objects_with};
pub use ruby::holding::Wanted;
pub use together::inspect_all;
pub use unshared::unshared;
