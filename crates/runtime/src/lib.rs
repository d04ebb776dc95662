//! `libunbloat.so`: the library that runs inside the server.
//!
//! The library is a Ruby extension (`RUBYOPT=-r/…/libunbloat.so`) and can also be preloaded; in a process
//! without Ruby it does nothing. It observes the garbage collector, returns freed memory to the kernel on a
//! separate thread, and reports on a status page.
//!
//! It is a guest: it never aborts, prints nothing to stdout, and switches itself off, with a reason on the
//! page, in unknown environments. Therefore it has no standard library (no start-up work, no unwinding, 60 kB
//! instead of 400), refers to no Ruby symbol strongly (one build for every Ruby), and to no symbol of glibc
//! that 2.31 lacks.
//!
//! | module | concept |
//! |---|---|
//! | [`adaptive`] | a state machine that decides when to trim; no I/O |
//! | `foresight` | predicts how long a trim would delay other threads |
//! | [`settings`] | settings from the environment |
//! | `allocator` | the allocator, and its ways of returning memory |
//! | `jemalloc` | queries and commands for jemalloc |
//! | `collector` | observes the garbage collector |
//! | `worker` | the thread that decides and trims |
//! | `forks` | keeps everything consistent in a forked child |
//! | `inheritance` | keeps the policy's allocator out of other programs, and restores it in every Ruby |
//! | `page` | writes the status page |
//! | `ruby` | Ruby's C functions, looked up at run time |
//! | `module` | the Ruby module `Unbloat` |
//! | `start` | Ruby's entry into the library |
//! | `panic` | the end of a thread that has panicked |
//! | `line` | a text of bounded size that is built in place |
//! | `sys` | clocks, resident memory, futexes: the few system calls |
#![cfg_attr(not(test), no_std)]
// A panic under the GVL would end the server or make it wait forever. These keep the source free of the usual ones; that the
// library as built has no path to any is held by a test of crates/bundle.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]
#![allow(unsafe_code)] // in another program's process nearly every call crosses the C boundary

pub mod adaptive;
mod allocator;
mod collector;
mod foresight;
mod forks;
mod inheritance;
mod jemalloc;
mod line;
mod module;
mod page;
mod ruby;
pub mod settings;
mod start;
mod sys;
mod worker;

#[cfg(any(test, feature = "standalone"))]
mod panic;
