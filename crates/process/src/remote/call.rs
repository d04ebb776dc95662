//! A call as its caller describes it, and the account of one that was made.

use crate::Pid;
use crate::sandbox::names::Name;
use std::ops::Range;
use std::time::Duration;

/// An argument of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Argument {
    /// A number or an address in the target.
    Word(u64),
    /// The address of this string, with a zero byte behind it, which lies on the borrowed stack during the call.
    Text(#[serde(with = "crate::sandbox::names")] Name),
}

/// A function of the target to be called.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Call {
    /// Its address.
    pub function: u64,
    /// At most five arguments.
    pub arguments: Vec<Argument>,
    /// Stack that it needs at most, in bytes.
    pub stack_bytes: u64,
    /// Code that no borrowed thread may be inside of.
    pub forbidden: Vec<Range<u64>>,
    /// The time that the call is attended from system call to system call, where that keeps the kernel's own deadline for
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
    /// The time that the thread was held still, from asking it to stop to letting it go into the call. No other thread is
    /// stopped at all.
    pub held: Duration,
    /// From letting it go into the call until it was back in its system call, or left alone.
    pub borrowed: Duration,
    /// Attempts that failed before.
    pub retries: u32,
    /// The way in which the thread got back.
    pub returned: Returned,
}

/// The way in which a borrowed thread got back into its system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returned {
    /// The call is over and the thread is back.
    Back,
    /// The call was not seen to its end.
    LeftAlone(LeftAlone),
}

/// The reason why a thread was left alone in the middle of a call. It finishes the call and returns to its work by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeftAlone {
    /// Job control stopped the process.
    #[error(
        "the process was stopped (SIGSTOP, Ctrl-Z) during the call. When it is continued, the thread finishes the call and \
         returns to its work by itself; a sleep with a timeout may end late"
    )]
    Stopped,
    /// The call takes very long.
    #[error(
        "the call has not come back after {:.0} s. It goes on by itself and the thread returns to its work after it; a sleep \
         with a timeout may end late",
        .after.as_secs_f64()
    )]
    Unfinished {
        /// The time that it was waited for.
        after: Duration,
    },
    /// The thread cannot be followed any more.
    #[error(
        "the thread was lost sight of during the call. It finishes the call and returns to its work by itself, or has ended"
    )]
    LostSight,
}
