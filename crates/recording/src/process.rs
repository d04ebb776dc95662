//! The processes of the recorded tree: when each is first seen, what it was, and how it ended.

use crate::{ProcessId, RunId};
use unbloat_untrusted::Untrusted;

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
    pub command: Untrusted,
    /// The moment of its first sighting.
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
    /// Source of the two.
    pub cpu_source: Option<CpuSource>,
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
    pub command: Untrusted,
    pub first_seen_ns: i64,
    pub last_seen_ns: i64,
    pub ended_ns: Option<i64>,
    pub exit_status: Option<i64>,
    pub user_s: Option<f64>,
    pub system_s: Option<f64>,
    pub cpu_source: Option<CpuSource>,
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

/// The source of the CPU of a process's whole life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuSource {
    /// Unbloat was its parent and asked the kernel.
    Wait,
    /// Read as it ended.
    Exit,
    /// The growth of its parent's account of reaped children.
    Parent,
    /// The last sample: what came after it is missing.
    Sample,
}

impl CpuSource {
    /// All sources.
    pub const ALL: [CpuSource; 4] = [CpuSource::Wait, CpuSource::Exit, CpuSource::Parent, CpuSource::Sample];

    /// The name in the file and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CpuSource::Wait => "wait",
            CpuSource::Exit => "exit",
            CpuSource::Parent => "parent",
            CpuSource::Sample => "sample",
        }
    }

    /// The source of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }
}
