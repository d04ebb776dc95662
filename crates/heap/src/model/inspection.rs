//! Several processes looked at together: those the user named and the trees below them.

use super::{Finding, Note, ProcessReport};
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
