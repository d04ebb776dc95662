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
//! | [`adaptive`] | when to trim: a state machine without I/O |
//! | `foresight` | how long a trim would keep threads waiting |
//! | [`settings`] | what the environment asks for |
//! | `allocator` | which allocator is here and how it gives memory back |
//! | `jemalloc` | what a jemalloc is asked and told |
//! | `collector` | hearing the garbage collector |
//! | `worker` | the thread that decides and trims |
//! | `forks` | what happens to all this in a forked child |
//! | `page` | writing the status page |
//! | `ruby` | Ruby's C functions, looked up at run time |
//! | `module` | the Ruby module `Unbloat` |
//! | `sys` | clocks, resident memory, futexes: the few system calls |
#![cfg_attr(not(test), no_std)]
#![allow(unsafe_code)] // in another program's process nearly every call crosses the C border

pub mod adaptive;
mod allocator;
mod collector;
mod foresight;
mod forks;
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
