//! The rows of a recording as Rust sees them. `Option` means: not known or not sampled, stored as NULL.

use crate::owner::Owner;
use std::time::{SystemTime, UNIX_EPOCH};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl rusqlite::ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                self.0.to_sql()
            }
        }

        impl rusqlite::types::FromSql for $name {
            fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
                i64::column_result(value).map($name)
            }
        }
    )*};
}

ids! {
    /// A row of `process`.
    ProcessId
    /// A row of `run`.
    RunId
    /// A row of `variant`.
    VariantId
    /// A row of `block`.
    BlockId
    /// A row of `step`.
    StepId
}

/// What made a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `unbloat record`.
    Record,
    /// `unbloat bench`.
    Bench,
    /// `unbloat compare`.
    Experiment,
    /// `unbloat import`.
    Import,
}

impl Kind {
    pub(crate) const ALL: [(Kind, &'static str); 4] = [
        (Kind::Record, "record"),
        (Kind::Bench, "bench"),
        (Kind::Experiment, "experiment"),
        (Kind::Import, "import"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("record", |(_, name)| name)
    }
}

/// The one row of `recording`.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// What made the file.
    pub kind: Kind,
    /// The version of Unbloat that wrote it.
    pub tool_version: String,
    /// Start, in nanoseconds since 1970 UTC.
    pub started_wall_ns: i64,
    /// The same moment on `CLOCK_MONOTONIC`.
    pub started_monotonic_ns: i64,
    /// Who writes, or wrote, it.
    pub owner: Option<Owner>,
    /// When it ended; `None` while it is being written or when its writer was killed.
    pub ended_ns: Option<i64>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// Exit status of the recorded command, as a shell would see it.
    pub exit_status: Option<i64>,
}

impl Recording {
    /// A recording that begins now and is written by this process.
    #[must_use]
    pub fn begin(kind: Kind) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Recording {
            kind,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_wall_ns: i64::try_from(wall.as_nanos()).unwrap_or(i64::MAX),
            started_monotonic_ns: monotonic_ns(),
            owner: Some(Owner::this()),
            ended_ns: None,
            end_reason: None,
            exit_status: None,
        }
    }

    /// Nanoseconds since the recording began, now.
    #[must_use]
    pub fn elapsed_ns(&self) -> i64 {
        monotonic_ns() - self.started_monotonic_ns
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> i64 {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| t.tv_sec() * 1_000_000_000 + t.tv_nsec())
}

/// A process when it is first seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewProcess {
    /// The run it belongs to.
    pub run: Option<RunId>,
    /// Its pid.
    pub pid: i32,
    /// Field 22 of `/proc/PID/stat`.
    pub start_ticks: Option<u64>,
    /// The process that forked it, as far as known.
    pub parent: Option<ProcessId>,
    /// Its command line.
    pub command: String,
    /// When it was seen first.
    pub first_seen_ns: i64,
}

/// A process when it has ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessEnd {
    /// When.
    pub ended_ns: i64,
    /// As a shell would see it: 128 + the signal's number for one that was killed.
    pub exit_status: Option<i64>,
    /// CPU of its whole life in user mode, without children, in seconds.
    pub user_s: Option<f64>,
    /// The same in the kernel.
    pub system_s: Option<f64>,
    /// How the two are known: `wait`, `exit`, `parent` or `sample`.
    pub cpu_source: Option<&'static str>,
    /// The largest RSS, as far as known.
    pub peak_rss_bytes: Option<u64>,
}

/// A row of `process`.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[allow(missing_docs)] // the columns, explained in schema.sql
pub struct Process {
    pub id: ProcessId,
    pub run: Option<RunId>,
    pub pid: i32,
    pub start_ticks: Option<u64>,
    pub parent: Option<ProcessId>,
    pub command: String,
    pub first_seen_ns: i64,
    pub last_seen_ns: i64,
    pub ended_ns: Option<i64>,
    pub exit_status: Option<i64>,
    pub user_s: Option<f64>,
    pub system_s: Option<f64>,
    pub cpu_source: Option<String>,
    pub peak_rss_bytes: Option<u64>,
    pub runtime: Option<String>,
    pub note: Option<String>,
}

/// A row of `folded`: processes that have no row of their own any more, by the minute in which they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
#[allow(missing_docs)] // the columns, explained in schema.sql
pub struct Folded {
    pub time_ns: i64,
    pub processes: u64,
    pub user_s: f64,
    pub system_s: f64,
}

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

/// A row of `census`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CategoryBytes {
    pub time_ns: i64,
    pub process: ProcessId,
    pub category: String,
    /// Bytes of this process; over a process they sum up to its RSS.
    pub bytes: u64,
    /// The same with shared pages divided among those that have them, where that is known.
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

/// A row of `mark`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[allow(missing_docs)]
pub struct Mark {
    pub time_ns: i64,
    pub name: String,
    pub run: Option<RunId>,
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

/// The memory of the whole tree at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeMemory {
    /// When.
    pub time_ns: i64,
    /// Processes seen then.
    pub processes: u64,
    /// Sum of RSS: counts shared pages once a process.
    pub rss_bytes: Option<u64>,
    /// Sum of PSS; `None` when it was not sampled then for every process that could be read.
    pub pss_bytes: Option<u64>,
}

/// A row of `variant`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Variant {
    pub id: VariantId,
    pub name: String,
    /// JSON.
    pub settings: String,
}

/// A row of `run`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Run {
    pub id: RunId,
    pub variant: Option<VariantId>,
    /// The block's number.
    pub block: Option<i64>,
    pub position: Option<i64>,
    pub started_ns: i64,
    pub ended_ns: Option<i64>,
    /// `done`, or what went wrong; `None` while it runs or when it was cut short.
    pub outcome: Option<String>,
}

/// A row of `step`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Step {
    pub id: StepId,
    pub run: Option<RunId>,
    pub name: String,
    pub started_ns: i64,
    pub ended_ns: Option<i64>,
    /// JSON.
    pub parameters: String,
}

/// A row of `latency`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latency {
    /// The step it was measured in.
    pub step: StepId,
    /// `fan_out`, `ack`, `delivery`, `response`, `queue`, …
    pub kind: String,
    /// Number of values in the histogram.
    pub count: u64,
    /// HdrHistogram V2 bytes (not deflated), values in nanoseconds.
    pub histogram: Vec<u8>,
}

/// A row of `metric`.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Metric {
    pub run: Option<RunId>,
    pub step: Option<StepId>,
    pub name: String,
    pub value: f64,
    pub unit: String,
}
