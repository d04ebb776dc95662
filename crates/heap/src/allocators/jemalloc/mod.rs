//! jemalloc 5, read from outside: no stop, no symbols, no code in the target.
//!
//! All that jemalloc knows of its heap lies apart from it, in blocks of metadata, so a look reads about half a percent of
//! the heap. `ARCHITECTURE.md` ("Inside jemalloc") tells the recipe; each module names its sources.
//!
//! | module | concept |
//! |---|---|
//! | [`descriptor`] | recognizing a file that carries it, and the call that gives its memory back |
//! | [`layout`] | places of the fields of its structures, by version |
//! | [`sizes`] | size classes |
//! | [`reader`] | small reads that touch resident pages only |
//! | [`blocks`] | the blocks of metadata |
//! | [`rtree`] | the radix tree that maps pages to extents |
//! | [`locate`] | finding a jemalloc by the shape of that tree |
//! | [`extent`] | the description of one extent |
//! | [`bases`] | the owners of the blocks of metadata |
//! | [`arenas`] | `arenas[]`, and what each arena tells |
//! | [`caches`] | the thread caches; [`caches52`] those of 5.2, [`tsd`] where arenas keep no rings |
//! | [`forgotten`] | the caches of threads that a fork left behind |
//! | [`walk`] | all extents, in order of address; [`gaps`] what changed meanwhile |
//! | [`slabs`] | the bytes of a slab by use |
//! | [`account`] | the bytes of every extent by use |
//! | [`bins`] | the occupancy of slabs by size class |
//! | [`counts`] | the same as jemalloc counts them |
//! | `settings` | the settings in force |
//! | [`tell`] | telling what was found, block by block |
//! | [`verdict`] | the verdict's sentences on how it is set up |
//! | [`survey`] | one look at all of it |
//! | [`heap`] | its heap as one of those that a process may have |

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
