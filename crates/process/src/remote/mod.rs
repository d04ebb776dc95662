//! Calling a function in another process, on one of its own threads, so that whatever becomes of Unbloat the process
//! goes on as if nothing had happened.
//!
//! One thread that is blocked in a system call is stopped; no other thread ever is. On its stack, below everything that
//! it uses, a [chain of signal frames](frame) is laid out that calls the function, puts `errno` back and restores the
//! thread: one write, then one change of its registers, and the kernel does the rest. If Unbloat is still there when the
//! call is over, it does the last step itself, because it can do it even better: the kernel then treats the thread as
//! interrupted in its system call, with everything that belongs to it (deadlines, signals that came meanwhile).
//!
//! | module | concept |
//! |---|---|
//! | `preflight` | processes in which nothing is called |
//! | `wait` | the known list of system calls, and how each is taken up again |
//! | `threads` | which threads are blocked, and in what |
//! | `tracee` | one thread under ptrace |
//! | `stack` | whether its stack can carry a call |
//! | `footholds` | places in the target's libc that the chain leads through |
//! | `xstate`, `frame` | the bytes of the chain |
//! | `call` | what a caller says of a call, and what it is told |
//! | `host` | finding a thread, until there is one or the time is over |
//! | `borrow` | borrowing one thread, step by step |
//! | `found` | a stopped thread as it was found, and its way back |
//! | `rest` | what is left of its timeout |
//! | `errand` | the chain for one thread, and what starts it |
//! | `over` | the time of the call |
//! | `refusal` | why a thread or a process is left alone |
//!
//! x86-64 only. `docs/method/trim.md` goes through every moment at which Unbloat can be killed.

mod borrow;
mod call;
mod errand;
mod footholds;
mod found;
mod frame;
mod host;
mod over;
mod preflight;
mod refusal;
mod rest;
mod stack;
#[cfg(test)]
mod tests;
mod threads;
mod tracee;
mod wait;
mod xstate;

pub use call::{Argument, Borrowed, Call, Verdict};
pub use footholds::{Footholds, UnknownLibc};
pub use host::Host;
pub use preflight::check as preflight;
pub use refusal::{Refusal, Unfit};

/// Called after everything that is done to a thread: each is a moment at which Unbloat may be killed, and the tests
/// kill it at every one.
#[inline]
fn moment() {
    #[cfg(test)]
    tests::killed_here();
}
