//! `libunbloat.so`: what runs inside the server.
//!
//! The library is a Ruby extension (`RUBYOPT=-r/…/libunbloat.so`) and can be preloaded as well; in a process that is
//! no Ruby it does nothing. It hears the garbage collector, gives freed memory back to the kernel on a thread of its
//! own, and says what it does on a status page.
//!
//! It is a guest: it never aborts, prints nothing to stdout, and switches itself off, with a reason on the page, when
//! it does not know the ground it stands on. Therefore it has no standard library (no start-up work, no unwinding,
//! 60 kB instead of 400), refers to no Ruby symbol strongly (one build for every Ruby), and to no symbol of glibc
//! that 2.31 lacks.
//!
//! | module | concept |
//! |---|---|
//! | [`adaptive`] | a state machine that decides when to trim; no I/O |
//! | `foresight` | foresees how long a trim would keep threads waiting |
//! | [`settings`] | settings that the environment asks for |
//! | `allocator` | the allocator, and its ways of giving memory back |
//! | `jemalloc` | questions and orders to a jemalloc |
//! | `collector` | hearing the garbage collector |
//! | `worker` | the thread that decides and trims |
//! | `forks` | keeps all this right in a forked child |
//! | `inheritance` | keeps the policy's allocator from other programs, and gives it back to every Ruby |
//! | `page` | writing the status page |
//! | `ruby` | Ruby's C functions, looked up at run time |
//! | `module` | the Ruby module `Unbloat` |
//! | `start` | Ruby's entry into the library |
//! | `panic` | the end of a thread that has panicked |
//! | `sys` | clocks, resident memory, futexes: the few system calls |
#![cfg_attr(not(test), no_std)]
#![allow(unsafe_code)] // in another program's process nearly every call crosses the C border

pub mod adaptive;
mod allocator;
mod collector;
mod foresight;
mod forks;
mod inheritance;
mod jemalloc;
mod module;
mod page;
mod ruby;
pub mod settings;
mod start;
mod sys;
mod worker;

#[cfg(any(test, feature = "standalone"))]
mod panic;
