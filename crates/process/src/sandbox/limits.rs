//! The limits of one look.

use crate::Pid;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Memory, time and size of the result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Private memory in bytes that the child may use beyond the inherited.
    pub memory_bytes: u64,
    /// Limit of processor time. [`PATIENCE`] times as much may pass, since an overloaded machine gives a look little.
    pub deadline: Duration,
    /// Maximum size of the result.
    pub message_bytes: usize,
}

/// Factor from the limit of processor time to that of elapsed time.
pub(super) const PATIENCE: u32 = 4;
/// Default memory limit: including inherited memory, the child stays below 100 MB.
const MEMORY_BYTES: u64 = 72 << 20;
/// Default size limit of the result.
const MESSAGE_BYTES: usize = 32 << 20;
/// Processor time for a small process.
const DEADLINE: Duration = Duration::from_secs(5);
/// Resident bytes read per second, at the least. An idle machine reads twenty times as many.
const BYTES_PER_SECOND: u64 = 256 << 20;

impl Limits {
    /// Returns the limits for a process with this many resident bytes according to the kernel.
    #[must_use]
    pub fn of_resident(bytes: u64) -> Self {
        let reading = Duration::from_secs(bytes / BYTES_PER_SECOND);
        Limits {
            memory_bytes: MEMORY_BYTES,
            deadline: DEADLINE.saturating_add(reading),
            message_bytes: MESSAGE_BYTES,
        }
    }

    /// The same with memory for a copy of this many bytes, room for them in the result, and four times the time: what is
    /// copied is then followed word by word.
    #[must_use]
    pub fn with_copy_of(self, bytes: u64) -> Self {
        Limits {
            memory_bytes: self.memory_bytes.saturating_add(bytes),
            deadline: self.deadline.saturating_mul(4),
            message_bytes: self.message_bytes.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX)),
        }
    }
}

/// The permissions of one look.
#[derive(Debug, Clone, Default)]
pub struct Scope<'a> {
    /// The processes whose memory may be read.
    pub targets: Vec<Pid>,
    /// Descriptors that the child keeps; all others are closed.
    pub descriptors: Vec<BorrowedFd<'a>>,
    /// The child may stop the target's threads (`ptrace`).
    pub may_stop: bool,
}

impl<'a> Scope<'a> {
    /// Creates the permissions for one process, through descriptors that are already open.
    #[must_use]
    pub fn of(pid: Pid, descriptors: Vec<BorrowedFd<'a>>) -> Self {
        Scope { targets: vec![pid], descriptors, may_stop: false }
    }
}
