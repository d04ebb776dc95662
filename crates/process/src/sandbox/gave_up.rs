//! The ways in which a confined child fails.

use nix::sys::signal::Signal;
use std::time::Duration;

/// The reason why a look was abandoned. The target was not changed, and a later attempt may succeed.
#[derive(Debug, thiserror::Error)]
pub enum GaveUp {
    /// It took too long.
    #[error(
        "gave up after {:.0} s: its memory, its mappings or its files took too long to read. An undamaged \
         process takes a fraction of that; on an overloaded machine try again later",
        .after.as_secs_f64()
    )]
    Deadline {
        /// Its time limit.
        after: Duration,
    },
    /// It needed too much memory.
    #[error(
        "gave up: the inspection needed more than {} MiB of memory, which only a process with damaged or \
        faked structures causes",
        .bytes >> 20
    )]
    Memory {
        /// Its memory limit.
        bytes: u64,
    },
    /// It was ended by a signal.
    #[error(
        "gave up: the inspection crashed with {signal}. Please report this; the process itself was not \
        touched"
    )]
    Crashed {
        /// The signal.
        signal: Signal,
    },
    /// It panicked.
    #[error(
        "gave up: the inspection failed with \"{message}\". Please report this; the process itself was not \
        touched"
    )]
    Panicked {
        /// The first line of its message.
        message: String,
    },
    /// The result was too large.
    #[error("gave up: the result of the inspection is larger than {} MiB", .bytes >> 20)]
    TooLarge {
        /// The size limit.
        bytes: usize,
    },
    /// The result could not be parsed.
    #[error(
        "gave up: the inspection ended without a result. Please report this; the process itself was not \
        touched"
    )]
    Garbled,
    /// The child could not be confined.
    #[error(
        "gave up: the inspection could not be confined ({reason}). Unbloat needs seccomp filters, which \
        the kernel or a container denies"
    )]
    Unconfined {
        /// The kernel's reason.
        reason: String,
    },
    /// The child could not be started.
    #[error("gave up: no process could be started for the inspection: {0}")]
    NotStarted(#[from] std::io::Error),
}

impl GaveUp {
    /// The reason of a nested look, which has none of its own.
    pub(crate) fn unknown() -> Self {
        GaveUp::Garbled
    }
}
