//! jemalloc 5, read from outside: no stop, no symbols, no code in the target.
//!
//! jemalloc keeps all knowledge of its heap apart from the heap, in metadata blocks, so an inspection reads
//! about half a percent of the heap. `ARCHITECTURE.md` ("Inside jemalloc") explains the procedure; each
//! module names its sources.
//!
//! | module | concept |
//! |---|---|
//! | [`descriptor`] | signs of a file that carries it, and the call that returns its memory |
//! | [`layout`] | field offsets of its structures, by version |
//! | [`sizes`] | size classes |
//! | [`reader`] | small reads that touch resident pages only |
//! | [`blocks`] | the metadata blocks |
//! | [`rtree`] | the radix tree that maps pages to extents |
//! | [`locate`] | finds a jemalloc by the shape of that tree |
//! | [`extent`] | the description of one extent |
//! | [`bases`] | the owners of the metadata blocks |
//! | [`arenas`] | `arenas[]`, and the facts readable from each arena |
//! | [`caches`] | the thread caches; [`caches52`] those of 5.2, [`tsd`] those of builds whose arenas keep no rings |
//! | [`forgotten`] | the caches of threads left behind by a fork |
//! | [`walk`] | all extents, in address order; [`gaps`] those that changed meanwhile |
//! | [`slabs`] | the bytes of a slab by use |
//! | [`account`] | the bytes of every extent by use |
//! | [`bins`] | the occupancy of slabs by size class |
//! | [`counts`] | the same bytes as jemalloc counts them |
//! | `settings` | the settings in force |
//! | [`tell`] | reports the findings, block by block |
//! | [`verdict`] | the verdict's sentences about its configuration |
//! | [`survey`] | one pass over everything it manages |
//! | [`heap`] | its heap, behind the interface of all walkers |

pub mod account;
pub mod arenas;
pub mod bases;
pub mod bins;
pub mod blocks;
pub mod caches;
mod caches52;
pub mod counts;
pub mod descriptor;
pub mod extent;
pub mod forgotten;
pub mod gaps;
pub mod heap;
pub mod layout;
pub mod locate;
pub mod reader;
pub mod rtree;
mod settings;
pub mod sizes;
pub mod slabs;
pub mod survey;
pub mod tell;
pub mod tsd;
pub mod verdict;
pub mod walk;

pub use descriptor::DESCRIPTOR;
pub use heap::JemallocHeap;
pub use locate::{Jemalloc, Search};
pub use survey::{Context, Survey};
pub use tell::Listener;
