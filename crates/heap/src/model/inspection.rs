//! Several processes looked at together: those the user named and the trees below them.

use super::{Census, Finding, Note, ProcessReport};
use serde::{Deserialize, Serialize};
use unbloat_process::Pid;
use unbloat_untrusted::Untrusted;

/// A process that could not be inspected. The others were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The process.
    pub pid: Pid,
    /// Its command line, if that much could be read.
    pub command: Option<Untrusted>,
    /// What it is, why it could not be inspected, and what can be done.
    pub note: Note,
}

/// The result of one `inspect`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// The processes, each parent before its children.
    pub processes: Vec<ProcessReport>,
    /// The processes that could not be inspected.
    pub failures: Vec<Failure>,
    /// What the figures mean for the processes together; empty for a single process.
    pub verdict: Vec<Finding>,
}

impl Inspection {
    /// The processes' proportional bytes together; `None` if one of them is not known.
    #[must_use]
    pub fn pss_bytes(&self) -> Option<u64> {
        self.processes.iter().map(|process| process.pss_bytes).sum()
    }

    /// The bytes that only one of the processes has, together; `None` if one of them is not known.
    #[must_use]
    pub fn uss_bytes(&self) -> Option<u64> {
        self.processes.iter().map(|process| process.uss_bytes).sum()
    }

    /// The sum of the resident bytes, which counts a shared page once for each process that has it.
    #[must_use]
    pub fn rss_sum_bytes(&self) -> u64 {
        self.processes.iter().map(|process| process.rss_bytes).sum()
    }

    /// The proportional censuses of all processes together; `None` if one of them is not known.
    #[must_use]
    pub fn proportional(&self) -> Option<Census> {
        let mut sum = Census::of_walked_heap();
        for process in self.processes.iter().filter(|process| process.rss_bytes > 0) {
            sum.merge(process.proportional.as_ref()?);
        }
        Some(sum)
    }

    /// Bytes that a trim of every process would return; `None` if they are not known of one of them. A page that is shared
    /// stays until all have returned it.
    #[must_use]
    pub fn trimmable_bytes(&self) -> Option<u64> {
        match self.proportional() {
            Some(census) => census.trimmable(),
            None => self.processes.iter().map(ProcessReport::trimmable_bytes).sum(),
        }
    }

    /// Proportional bytes that the processes' programs have freed and the processes keep; `None` if they are not known of
    /// one of them.
    #[must_use]
    pub fn bloat_bytes(&self) -> Option<u64> {
        self.proportional()?.bloat()
    }

    /// PSS − bloat; `None` if one of the two is not known.
    #[must_use]
    pub fn floor_bytes(&self) -> Option<u64> {
        Some(self.pss_bytes()?.saturating_sub(self.bloat_bytes()?))
    }
}
