//! The means of one look.

use crate::Pid;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Memory, time and size of the result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Private memory that the child may take beyond what it inherits, in bytes.
    pub memory_bytes: u64,
    /// Time that the look may take.
    pub deadline: Duration,
    /// Bytes of the result.
    pub message_bytes: usize,
}

/// Memory of a look: with what the child inherits, it stays below 100 MB.
const MEMORY_BYTES: u64 = 72 << 20;
/// A larger result is refused.
const MESSAGE_BYTES: usize = 32 << 20;
/// The time of a look at a small process, also on a machine that is busy.
const DEADLINE: Duration = Duration::from_secs(5);
/// Resident bytes that are read in a second at the least. An idle machine reads twenty times as many.
const BYTES_PER_SECOND: u64 = 256 << 20;

impl Limits {
    /// The limits of a look at a process with this many resident bytes, as the kernel counts them.
    #[must_use]
    pub fn of_resident(bytes: u64) -> Self {
        let reading = Duration::from_secs(bytes / BYTES_PER_SECOND);
        Limits {
            memory_bytes: MEMORY_BYTES,
            deadline: DEADLINE.saturating_add(reading),
            message_bytes: MESSAGE_BYTES,
        }
    }
}

/// The reach of a look.
#[derive(Debug, Clone, Default)]
pub struct Scope<'a> {
    /// The processes whose memory may be read.
    pub targets: Vec<Pid>,
    /// Descriptors that the child keeps; all others are closed.
    pub descriptors: Vec<BorrowedFd<'a>>,
    /// Tells whether the look may stop the target's threads (`ptrace`).
    pub may_stop: bool,
}

impl<'a> Scope<'a> {
    /// A look at one process, through descriptors that were opened before.
    #[must_use]
    pub fn of(pid: Pid, descriptors: Vec<BorrowedFd<'a>>) -> Self {
        Scope { targets: vec![pid], descriptors, may_stop: false }
    }
}
