//! The description of a call by its caller, and the record of a finished one.

use crate::Pid;
use crate::sandbox::names::Name;
use std::ops::Range;
use std::time::Duration;

/// An argument of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Argument {
    /// A number or an address in the target.
    Word(u64),
    /// The address of this zero-terminated string, which lies on the borrowed stack during the call.
    Text(#[serde(with = "crate::sandbox::names")] Name),
}

/// A function in the target to call.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Call {
    /// Its address.
    pub function: u64,
    /// At most five arguments.
    pub arguments: Vec<Argument>,
    /// Maximum stack that it needs, in bytes.
    pub stack_bytes: u64,
    /// Code that a borrowed thread must not be executing.
    pub forbidden: Vec<Range<u64>>,
    /// Time for which the call is supervised from system call to system call, where that preserves the
    /// kernel's own deadline for the thread's wait. Each system call then waits twice for the scheduler. A
    /// call that takes longer continues alone, and the remaining time of the wait's timeout is derived from
    /// how long the thread had slept.
    pub attendance: Duration,
}

/// The caller's verdict on a stopped thread that could be borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Safety {
    /// The function may be called on it.
    Safe,
    /// Not now, on any thread: try again later.
    Busy(&'static str),
}

/// The record of a finished call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Borrowed {
    /// The thread.
    pub thread: Pid,
    /// The system call it was borrowed from.
    pub wait: &'static str,
    /// Time for which the thread was stopped, from the request to stop until it was sent into the call. No
    /// other thread is stopped at all.
    pub held: Duration,
    /// From sending it into the call until it was back in its system call, or left alone.
    pub borrowed: Duration,
    /// Number of failed attempts before.
    pub retries: u32,
    /// The way in which the thread returned.
    pub returned: Returned,
}

/// The way in which a borrowed thread returned to its system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returned {
    /// The call has finished and the thread is back.
    Back,
    /// The call was not supervised to its end.
    LeftAlone(LeftAlone),
}

/// The reason why a thread was left alone during a call. It finishes the call and returns to its work by
/// itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeftAlone {
    /// Job control stopped the process.
    #[error(
        "the process was stopped (SIGSTOP, Ctrl-Z) during the call. When it is continued, the thread finishes the call and \
         returns to its work by itself; a sleep with a timeout may end late"
    )]
    Stopped,
    /// The call takes too long.
    #[error(
        "the call has not returned after {:.0} s. It continues by itself, and the thread then returns to its work; a sleep \
         with a timeout may end late",
        .after.as_secs_f64()
    )]
    Unfinished {
        /// Time for which it was awaited.
        after: Duration,
    },
    /// The thread can no longer be followed.
    #[error(
        "lost track of the thread during the call. It finishes the call and returns to its work by itself, \
        or has ended"
    )]
    LostSight,
}
