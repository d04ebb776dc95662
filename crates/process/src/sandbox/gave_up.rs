//! The ways in which a look fails.

use nix::sys::signal::Signal;
use std::time::Duration;

/// The reason why a look was given up. The target was not changed, and a later look may succeed.
#[derive(Debug, thiserror::Error)]
pub enum GaveUp {
    /// It took too long.
    #[error(
        "gave up after {:.0} s: its memory, its mappings or its files kept the look busy. A process that is not damaged takes \
         a fraction of that; on an overloaded machine try again later",
        .after.as_secs_f64()
    )]
    Deadline {
        /// The time that the look had.
        after: Duration,
    },
    /// It needed too much memory.
    #[error(
        "gave up: the look needed more than {} MiB of memory, as only a process with damaged or faked structures makes it",
        .bytes >> 20
    )]
    Memory {
        /// The memory that the look had.
        bytes: u64,
    },
    /// It ended by a signal.
    #[error(
        "gave up: the look crashed with {signal}. Please report this; the process itself was not touched"
    )]
    Crashed {
        /// The signal.
        signal: Signal,
    },
    /// It panicked.
    #[error(
        "gave up: the look failed with \"{message}\". Please report this; the process itself was not touched"
    )]
    Panicked {
        /// The first line of what it said.
        message: String,
    },
    /// The result was too large.
    #[error("gave up: the result of the look is larger than {} MiB", .bytes >> 20)]
    TooLarge {
        /// The bytes that it might have.
        bytes: usize,
    },
    /// The result was not understood.
    #[error(
        "gave up: the look ended without a result. Please report this; the process itself was not touched"
    )]
    Garbled,
    /// The child could not be confined.
    #[error(
        "gave up: the look could not be confined ({reason}). Unbloat needs seccomp filters, which the kernel or a container denies"
    )]
    Unconfined {
        /// The kernel's reason.
        reason: String,
    },
    /// The child could not be started.
    #[error("gave up: no process could be started for the look: {0}")]
    NotStarted(#[from] std::io::Error),
}

impl GaveUp {
    /// The reason of a look within a look, which says nothing of its own.
    pub(crate) fn unknown() -> Self {
        GaveUp::Garbled
    }
}
