//! The result of a closer look at the Ruby of one process.

use super::Note;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use unbloat_process::Pid;
use unbloat_untrusted::Untrusted;

/// The result of a closer look at the Ruby of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RubyLook<T> {
    /// The process.
    pub pid: Pid,
    /// Its parent.
    pub parent: Option<Pid>,
    /// Its command line.
    pub command: Untrusted,
    /// Resident bytes as the kernel counts them.
    pub rss_bytes: u64,
    /// Bytes of malloc memory that the program holds; `None` if the allocator's heap was not walked.
    pub malloc_live_bytes: Option<u64>,
    /// `3.1.2`; `None` if no Ruby was found, or one with an unknown version.
    pub version: Option<String>,
    /// The findings; `None` if there is no Ruby, or an unknown one.
    pub found: Option<T>,
    /// Gaps of the findings, with the reasons.
    pub notes: Vec<Note>,
    /// Time that the target was stopped.
    pub stopped: Duration,
    /// Time that the look took.
    pub elapsed: Duration,
}

impl<T> RubyLook<Option<T>> {
    /// Returns the same look, in which an empty finding counts as none.
    #[must_use]
    pub fn flattened(self) -> RubyLook<T> {
        RubyLook {
            found: self.found.flatten(),
            pid: self.pid,
            parent: self.parent,
            command: self.command,
            rss_bytes: self.rss_bytes,
            malloc_live_bytes: self.malloc_live_bytes,
            version: self.version,
            notes: self.notes,
            stopped: self.stopped,
            elapsed: self.elapsed,
        }
    }
}
