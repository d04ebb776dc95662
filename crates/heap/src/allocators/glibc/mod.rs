//! glibc's malloc, read from outside.
//!
//! | module | concept |
//! |---|---|
//! | [`layout`] | offsets of the fields of glibc's structures, by version |
//! | [`locate`] | `main_arena` and `mp_`, found without symbols |
//! | [`arena`] | the ring of arenas and their heaps |
//! | [`parameters`] | the settings in force (`mp_`) |
//! | [`chunk`] | chunks parsed from copied bytes |
//! | [`walk`] | walks a span of chunks in bounded memory, with re-reading |
//! | [`accounting`] | tallies a walk's findings and passes them on |
//! | [`runs`] | the main arena's memory that is not on the program break |
//! | [`spans`] | the pieces of memory that an arena has, and where they end now |
//! | `at_rest` | stops the process while an arena is at rest |
//! | [`survey`] | one pass over all arenas |
//! | [`damage`] | tells damage from change |
//! | [`mmapped`] | large chunks with mappings of their own |
//! | [`bins`] | lists of cached chunks |
//! | [`threads`] | libc's view of each thread: arena, cache, stack |
//! | [`tcache`] | the thread caches |
//! | [`marks`] | chunks that look in use but are cached |
//! | [`trim`] | predicts what `malloc_trim(0)` would return |
//! | [`locks`] | proof that a thread holds no malloc lock |
//! | [`heap`] | the interface for inspect and trim |
//! | [`observer`] | receivers of a walk's chunks and bytes |
//! | `verdict` | the verdict's sentence on stranded memory |
//!
//! All facts come from `malloc/malloc.c` and `malloc/arena.c` of glibc 2.27 to 2.43, 64-bit.

pub mod accounting;
pub mod arena;
mod at_rest;
pub mod bins;
pub mod chunk;
pub mod damage;
pub mod heap;
pub mod layout;
pub mod locate;
pub mod locks;
pub mod marks;
pub mod mmapped;
pub mod observer;
pub mod parameters;
pub mod runs;
pub mod spans;
pub mod survey;
pub mod tcache;
pub mod threads;
pub mod trim;
mod verdict;
pub mod walk;

pub use arena::{ArenaState, Heap};
pub use layout::Layout;
pub use locate::{Glibc, LocateError};
pub use observer::{Chunk, ChunkState, Observer, Span};
pub use parameters::Parameters;
pub use survey::Survey;

use super::{Descriptor, Release, ReleaseCall};
use crate::model::AllocatorKind;
#[cfg(target_arch = "x86_64")]
use unbloat_process::remote::Argument;

/// glibc's row of the table of allocators.
pub const DESCRIPTOR: Descriptor = Descriptor {
    kind: AllocatorKind::Glibc,
    in_libc: true,
    file_names: &[],
    symbols: &["gnu_get_libc_version", "__libc_malloc"],
    message: None,
    // [`Glibc::locate`] reads it from libc, which may be a different file from the one with the symbols.
    version: |_| None,
    release: Release::Call(RELEASE),
    stranded_cure: Some(verdict::stranded_cure),
};

/// `malloc_trim(0)` returns whole free pages of all arenas and the top of the main one. Measured on painted
/// stacks, it needs under 0.3 KiB (glibc 2.31 to 2.43), plus up to 3.3 KiB when the call triggers lazy symbol
/// binding.
pub const RELEASE: ReleaseCall = ReleaseCall {
    functions: &["malloc_trim"],
    #[cfg(target_arch = "x86_64")]
    arguments: &[Argument::Word(0)],
    stack_bytes: 16 << 10,
    refuses: |_| None,
    reach: "malloc_trim returns whole free pages of all arenas",
};
