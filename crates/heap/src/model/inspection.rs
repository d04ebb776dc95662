//! Several processes looked at together: those the user named and the trees below them.

use super::{Category, Census, Finding, Note, ProcessReport};
use unbloat_process::Pid;

/// A process that could not be inspected. The others were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The process.
    pub pid: Pid,
    /// Its command line, if that much could be read.
    pub command: Option<String>,
    /// What it is, why it could not be inspected, and what can be done.
    pub note: Note,
}

/// The result of one `inspect`.
#[derive(Debug, Clone, Default, PartialEq)]
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
        let mut sum = Census::default();
        for process in &self.processes {
            for (category, bytes) in process.proportional.as_ref()?.iter() {
                sum.add(category, bytes);
            }
        }
        Some(sum)
    }

    /// Bytes that a trim of every process would return. A page that is shared stays until all have returned it.
    #[must_use]
    pub fn trimmable_bytes(&self) -> u64 {
        match self.proportional() {
            Some(census) => census.bytes(Category::MallocTrimmable),
            None => self.processes.iter().map(|p| p.census.bytes(Category::MallocTrimmable)).sum(),
        }
    }
}
