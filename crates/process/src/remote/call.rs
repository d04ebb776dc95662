//! A call as its caller describes it, and the account of one that was made.

use crate::Pid;
use std::ops::Range;
use std::time::Duration;

/// An argument of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// A number or an address in the target.
    Word(u64),
    /// The address of this string, with a zero byte behind it, which lies on the borrowed stack during the call.
    Text(&'static str),
}

/// A function of the target to be called.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its address.
    pub function: u64,
    /// At most five arguments.
    pub arguments: Vec<Argument>,
    /// Stack that it needs at most, in bytes.
    pub stack_bytes: u64,
    /// Code that no borrowed thread may be inside of.
    pub forbidden: Vec<Range<u64>>,
    /// How long the call is attended from system call to system call, where that keeps the kernel's own deadline for
    /// the thread's wait. Each system call then waits twice for the scheduler. A call that takes longer goes on alone,
    /// and what is left of the wait's timeout is told from how long the thread had slept.
    pub attendance: Duration,
}

/// The caller's answer about a thread that is stopped and could be borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Safety {
    /// The function may be called on it.
    Safe,
    /// Not now, on no thread: try again later.
    Busy(&'static str),
}

/// A call that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Borrowed {
    /// The thread.
    pub thread: Pid,
    /// The system call that it was borrowed from.
    pub wait: &'static str,
    /// How long the thread was held still, from asking it to stop to letting it go into the call. No other thread is
    /// stopped at all.
    pub held: Duration,
    /// From letting it go into the call until it was back in its system call.
    pub borrowed: Duration,
    /// Attempts that failed before.
    pub retries: u32,
}
