//! Calls a function in another process, on one of its own threads, leaving the process undisturbed whatever
//! becomes of Unbloat.
//!
//! One thread that is blocked in a system call is stopped, and no other. A [chain of signal frames](arch)
//! that calls the function, puts `errno` back and restores the thread is laid out on its stack, below
//! everything it uses: one write, then one change of its registers, and the kernel does the rest. If Unbloat
//! is still running when the call has finished, it performs the last step itself, with a better result: the
//! kernel then treats the thread as interrupted in its system call, with everything that belongs to it
//! (deadlines, signals that arrived meanwhile).
//!
//! Each module depends only on those above it.
//!
//! | module | concept |
//! |---|---|
//! | `refusal` | the reasons to leave a thread or a process alone |
//! | `call` | the description of a call by its caller, and the record of a finished one |
//! | `blocking_call` | the known list of system calls |
//! | `arch` | everything that depends on the processor |
//! | `wait` | how each listed call is resumed |
//! | `threads` | the threads that are blocked, and their calls |
//! | `preflight` | processes in which nothing is called |
//! | `tracee` | one thread under ptrace |
//! | `stack` | a check that a stack can carry a call |
//! | `unwind` | the functions on a stopped thread's call stack |
//! | `unwinder` | a confined child that unwinds |
//! | `gadgets` | code and data of the target's libc that the chain leads through |
//! | `host` | the process: memory, mappings, gadgets |
//! | `remaining` | the remaining time of a timeout |
//! | `saved` | the state of a stopped thread, and its way back |
//! | `injection` | the chain for one thread, and the registers that start it |
//! | `completion` | the wait for the end of the call |
//! | `borrow` | borrows one thread, step by step |
//! | `search` | the search for a thread that can be borrowed |
//!
//! Implemented for x86-64. `docs/method/trim.md` goes through every moment at which Unbloat can be killed.

mod arch;
mod blocking_call;
mod borrow;
mod call;
mod completion;
mod gadgets;
mod host;
mod injection;
mod preflight;
mod refusal;
mod remaining;
mod saved;
mod search;
mod stack;
#[cfg(test)]
mod tests;
mod threads;
mod tracee;
mod unwind;
mod unwinder;
mod wait;

pub use call::{Argument, Borrowed, Call, LeftAlone, Returned, Safety};
pub use gadgets::{Gadgets, UnknownLibc};
pub use host::Host;
pub use preflight::check as preflight;
pub use refusal::{Refusal, Unfit};
pub use search::call;
pub use unwinder::Unwinder;

/// Called after every action on a thread: each is a moment at which Unbloat may be killed, and the tests kill
/// it at every one.
#[inline]
fn moment() {
    #[cfg(test)]
    tests::moment_passed();
}
