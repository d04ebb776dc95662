//! Memory, CPU and faults of a process at one moment, the memory of its cgroup, and the cost of recording.

use crate::ProcessId;

/// A row of `sample`: one process at one moment. All samples of one look at the tree have the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[allow(missing_docs)] // the columns, explained in schema.sql
pub struct Sample {
    pub time_ns: i64,
    pub process: ProcessId,
    pub rss_bytes: Option<u64>,
    pub pss_bytes: Option<u64>,
    pub uss_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    pub minor_faults: Option<u64>,
    pub major_faults: Option<u64>,
    pub user_s: Option<f64>,
    pub system_s: Option<f64>,
    pub threads: Option<u64>,
}

/// The memory of the whole tree at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeMemory {
    /// Time of the samples.
    pub time_ns: i64,
    /// Number of processes seen.
    pub processes: u64,
    /// Sum of RSS, which counts shared pages once per process.
    pub rss_bytes: Option<u64>,
    /// Sum of PSS; `None` unless it was sampled for every readable process.
    pub pss_bytes: Option<u64>,
}

/// A row of `cgroup`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CgroupMemory {
    pub time_ns: i64,
    pub path: String,
    pub current_bytes: Option<u64>,
    pub peak_bytes: Option<u64>,
}

/// A row of `cost`.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
#[allow(missing_docs)] // the columns, explained in schema.sql
pub struct Cost {
    pub time_ns: i64,
    pub cpu_s: f64,
    pub rss_bytes: Option<u64>,
    pub ticks: u64,
    pub late_ticks: u64,
    pub missed_ticks: u64,
    pub pss_sweeps: u64,
    pub pss_held_s: f64,
    pub censuses: u64,
    pub census_s: f64,
    pub short_lived: u64,
    pub short_lived_cpu_s: f64,
}
