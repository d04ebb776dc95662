//! The report on one process.

use super::{Allocator, Census, FindingCode, HeapMap, Note, Ownership, RubyHeap, Runtime};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use unbloat_process::Pid;
use unbloat_untrusted::Untrusted;

/// The result of inspecting one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// The process.
    pub pid: Pid,
    /// Its parent.
    pub parent: Option<Pid>,
    /// Its command line, with the arguments joined by spaces, or the kernel's short name if it has none.
    pub command: Untrusted,
    /// Resident bytes as the kernel counts them.
    pub rss_bytes: u64,
    /// Proportional bytes; absent if `smaps_rollup` may not be read.
    pub pss_bytes: Option<u64>,
    /// Bytes that only this process has.
    pub uss_bytes: Option<u64>,
    /// Swapped-out bytes.
    pub swap_bytes: Option<u64>,
    /// Number of threads.
    pub threads: u64,
    /// Every resident byte in one category.
    pub census: Census,
    /// The census in proportional bytes (a page mapped by n processes counts 1/n), if requested and readable.
    /// Its sum is the PSS.
    pub proportional: Option<Census>,
    /// Memory still shared with the parent that forked it; only if both were inspected.
    pub sharing: Option<Sharing>,
    /// The allocator in force.
    pub allocator: Option<Allocator>,
    /// The Ruby heap, if this is CRuby.
    pub ruby: Option<RubyHeap>,
    /// The runtime's own account, if the process runs under `unbloat run`.
    pub runtime: Option<Runtime>,
    /// The owners of the live memory of a Ruby; only if requested.
    pub ownership: Option<Ownership>,
    /// The uses of every heap page; only if requested.
    pub map: Option<HeapMap>,
    /// Findings: what the figures mean and what to do.
    pub verdict: Vec<Finding>,
    /// Limitations of this report, and their reasons.
    pub notes: Vec<Note>,
    /// Time for which the target was stopped; zero by default.
    pub stopped: Duration,
    /// Duration of the inspection.
    pub elapsed: Duration,
}

impl ProcessReport {
    /// Returns the resident bytes that no category explains, because the memory changed between the two
    /// readings. Negative if the census found more than the kernel counted.
    #[must_use]
    pub fn unattributed_bytes(&self) -> i64 {
        let missing = i128::from(self.rss_bytes) - i128::from(self.census.total());
        i64::try_from(missing).unwrap_or(if missing < 0 { i64::MIN } else { i64::MAX })
    }

    /// Returns cached + trimmable + stranded; `None` if the allocator's heap was not walked.
    #[must_use]
    pub fn bloat_bytes(&self) -> Option<u64> {
        if self.rss_bytes == 0 { Some(0) } else { self.census.bloat() }
    }

    /// Returns the bytes that a trim would return; `None` if the allocator's heap was not walked.
    #[must_use]
    pub fn trimmable_bytes(&self) -> Option<u64> {
        if self.rss_bytes == 0 { Some(0) } else { self.census.trimmable() }
    }

    /// Returns resident − bloat; `None` if the allocator's heap was not walked.
    #[must_use]
    pub fn floor_bytes(&self) -> Option<u64> {
        Some(self.rss_bytes.saturating_sub(self.bloat_bytes()?))
    }

    /// Returns the floor without the slots and malloc memory of garbage that waits for a collection; `None` if either is
    /// unknown.
    #[must_use]
    pub fn floor_without_waiting_bytes(&self) -> Option<u64> {
        let waiting = self.ownership.as_ref()?.waiting?;
        waiting.malloc_bytes?;
        Some(self.floor_bytes()?.saturating_sub(waiting.bytes()))
    }
}

/// The private anonymous memory that a forked process and its parent both have at the same address in a
/// mapping that both have: shared since the fork, or grown by both since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// The parent.
    pub parent: Pid,
    /// Bytes that are still on a common page.
    pub shared_bytes: u64,
    /// Bytes for which each has its own page: written to since the fork.
    pub unshared_bytes: u64,
}

/// One statement of the verdict, with evidence in the same report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its subject.
    pub code: FindingCode,
    /// The statement: one sentence, or a few that belong together.
    pub text: String,
    /// Suggested actions, the first one to be tried first; empty if there are none.
    pub actions: Vec<super::Action>,
    /// Estimated gain of the first action in bytes, if known.
    pub gain_bytes: Option<u64>,
}
