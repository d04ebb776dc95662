//! Several processes inspected together: those named by the user and the trees below them.

use super::{Census, Finding, Note, ProcessReport};
use serde::{Deserialize, Serialize};
use unbloat_process::Pid;
use unbloat_untrusted::Untrusted;

/// A process that could not be inspected, while the others were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The process.
    pub pid: Pid,
    /// Its command line, if that much could be read.
    pub command: Option<Untrusted>,
    /// The reason why it could not be inspected, and the next step.
    pub note: Note,
}

/// The result of one `inspect`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// The processes, each parent before its children.
    pub processes: Vec<ProcessReport>,
    /// The processes that could not be inspected.
    pub failures: Vec<Failure>,
    /// Findings about the processes together; empty for a single process.
    pub verdict: Vec<Finding>,
}

impl Inspection {
    /// Returns the processes' total proportional bytes; `None` if any is unknown.
    #[must_use]
    pub fn pss_bytes(&self) -> Option<u64> {
        self.processes.iter().map(|process| process.pss_bytes).sum()
    }

    /// Returns the processes' total unique bytes; `None` if any is unknown.
    #[must_use]
    pub fn uss_bytes(&self) -> Option<u64> {
        self.processes.iter().map(|process| process.uss_bytes).sum()
    }

    /// Returns the sum of the resident bytes, which counts a shared page once for each process that has it.
    #[must_use]
    pub fn rss_sum_bytes(&self) -> u64 {
        self.processes.iter().map(|process| process.rss_bytes).sum()
    }

    /// Returns the sum of the proportional censuses; `None` if any is unknown.
    #[must_use]
    pub fn proportional(&self) -> Option<Census> {
        let mut sum = Census::of_walked_heap();
        for process in self.processes.iter().filter(|process| process.rss_bytes > 0) {
            sum.merge(process.proportional.as_ref()?);
        }
        Some(sum)
    }

    /// Returns the bytes that a trim of every process would return; `None` if unknown for any of them. A
    /// shared page stays until all have returned it.
    #[must_use]
    pub fn trimmable_bytes(&self) -> Option<u64> {
        match self.proportional() {
            Some(census) => census.trimmable(),
            None => self.processes.iter().map(ProcessReport::trimmable_bytes).sum(),
        }
    }

    /// Returns the proportional bytes that the processes keep although their programs freed them; `None` if
    /// unknown for any of them.
    #[must_use]
    pub fn bloat_bytes(&self) -> Option<u64> {
        self.proportional()?.bloat()
    }

    /// Returns PSS − bloat; `None` if either is unknown.
    #[must_use]
    pub fn floor_bytes(&self) -> Option<u64> {
        Some(self.pss_bytes()?.saturating_sub(self.bloat_bytes()?))
    }
}
