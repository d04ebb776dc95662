//! The composition of a process's memory at one moment, by category, with its counters.

use crate::ProcessId;

/// A row of `census`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CategoryBytes {
    pub time_ns: i64,
    pub process: ProcessId,
    pub category: String,
    /// Bytes of this process; they sum up to its RSS.
    pub bytes: u64,
    /// The same with shared pages divided among the processes that map them, if known.
    pub proportional_bytes: Option<u64>,
}

/// A row of `counter`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counter {
    pub time_ns: i64,
    pub process: ProcessId,
    pub name: String,
    pub value: u64,
}
