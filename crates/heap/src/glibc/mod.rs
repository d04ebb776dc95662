//! glibc's malloc, read from outside.
//!
//! | module | concept |
//! |---|---|
//! | [`layout`] | where the fields of glibc's structures lie, by version |
//! | [`locate`] | finding `main_arena` and `mp_` without symbols |
//! | [`arena`] | the ring of arenas and their heaps |
//! | [`parameters`] | the settings in force (`mp_`) |
//!
//! All facts come from `malloc/malloc.c` and `malloc/arena.c` of glibc 2.27 to 2.43, 64-bit.

pub mod arena;
pub mod layout;
pub mod locate;
pub mod parameters;

pub use arena::{ArenaState, Heap};
pub use layout::Layout;
pub use locate::{Glibc, LocateError};
pub use parameters::Parameters;
