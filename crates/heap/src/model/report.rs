//! The report on one process.

use super::{Allocator, Census, HeapMap, Note, RubyHeap, Runtime};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use unbloat_process::Pid;
use unbloat_process::sandbox::names::{self, Name};
use unbloat_untrusted::Untrusted;

/// The result of inspecting one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// The process.
    pub pid: Pid,
    /// Its parent.
    pub parent: Option<Pid>,
    /// Its command line, arguments joined with spaces; the kernel's short name when it has none.
    pub command: Untrusted,
    /// Resident bytes as the kernel counts them.
    pub rss_bytes: u64,
    /// Proportional bytes; absent when `smaps_rollup` may not be read.
    pub pss_bytes: Option<u64>,
    /// Bytes that only this process has.
    pub uss_bytes: Option<u64>,
    /// Swapped-out bytes.
    pub swap_bytes: Option<u64>,
    /// Threads.
    pub threads: u64,
    /// Every resident byte in one category.
    pub census: Census,
    /// The census by proportional bytes (a page that n processes have counts 1/n), where it was asked for and may be
    /// read. Its sum is the PSS.
    pub proportional: Option<Census>,
    /// What the process still shares with the parent that forked it; only where both were inspected.
    pub sharing: Option<Sharing>,
    /// The allocator in force.
    pub allocator: Option<Allocator>,
    /// The Ruby heap, if this is CRuby.
    pub ruby: Option<RubyHeap>,
    /// What the runtime says of itself, if the process runs under `unbloat run`.
    pub runtime: Option<Runtime>,
    /// What every page of the heaps holds; only where it was asked for.
    pub map: Option<HeapMap>,
    /// What the figures mean and what to do.
    pub verdict: Vec<Finding>,
    /// What could not be told, and why.
    pub notes: Vec<Note>,
    /// How long the target was stopped; zero in the default mode.
    pub stopped: Duration,
    /// How long the inspection took.
    pub elapsed: Duration,
}

impl ProcessReport {
    /// Resident bytes that no category explains: the memory changed between the two readings. Negative when the
    /// census found more than the kernel counted.
    #[must_use]
    pub fn unattributed_bytes(&self) -> i64 {
        let missing = i128::from(self.rss_bytes) - i128::from(self.census.total());
        i64::try_from(missing).unwrap_or(if missing < 0 { i64::MIN } else { i64::MAX })
    }

    /// cached + trimmable + stranded; `None` where the allocator's heap was not walked.
    #[must_use]
    pub fn bloat_bytes(&self) -> Option<u64> {
        if self.rss_bytes == 0 { Some(0) } else { self.census.bloat() }
    }

    /// What a trim would return; `None` where the allocator's heap was not walked.
    #[must_use]
    pub fn trimmable_bytes(&self) -> Option<u64> {
        if self.rss_bytes == 0 { Some(0) } else { self.census.trimmable() }
    }

    /// resident − bloat; `None` where the allocator's heap was not walked.
    #[must_use]
    pub fn floor_bytes(&self) -> Option<u64> {
        Some(self.rss_bytes.saturating_sub(self.bloat_bytes()?))
    }
}

/// The private anonymous memory that a forked process and its parent both have at the same address in a mapping that
/// both have: what fork made them share at first, or what both have since grown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// The parent.
    pub parent: Pid,
    /// Bytes that are still one page for both.
    pub shared_bytes: u64,
    /// Bytes of which either has a page of its own: written to since the fork.
    pub unshared_bytes: u64,
}

/// One sentence of the verdict, from evidence in the same report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable identifier, for example `trimmable`.
    #[serde(with = "names")]
    pub code: Name,
    /// The sentence, or the few that belong together.
    pub text: String,
    /// What to do, the first being the one to try first; empty when there is nothing to do.
    pub actions: Vec<super::Action>,
    /// Bytes that the first action would gain, if that can be told.
    pub gain_bytes: Option<u64>,
}
