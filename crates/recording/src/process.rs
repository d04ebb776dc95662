//! The processes of the recorded tree: first sighting, identity, and end.

use crate::{ProcessId, RunId};
use unbloat_untrusted::Untrusted;

/// A process at its first sighting.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewProcess {
    /// The run it belongs to.
    pub run: Option<RunId>,
    /// Its PID.
    pub pid: i32,
    /// Field 22 of `/proc/PID/stat`.
    pub start_ticks: Option<u64>,
    /// The process that forked it, as far as known.
    pub parent: Option<ProcessId>,
    /// Its command line.
    pub command: Untrusted,
    /// Time of its first sighting.
    pub first_seen_ns: i64,
}

/// A process at its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessEnd {
    /// Time of its end.
    pub ended_ns: i64,
    /// Its status, as a shell shows it: 128 + the signal's number for a killed process.
    pub exit_status: Option<i64>,
    /// CPU of its whole life in user mode, without children, in seconds.
    pub user_s: Option<f64>,
    /// The same in kernel mode.
    pub system_s: Option<f64>,
    /// Source of the CPU figures.
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

/// A row of `folded`: processes that no longer have rows of their own, by the minute in which they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
#[allow(missing_docs)] // the columns, explained in schema.sql
pub struct Folded {
    pub time_ns: i64,
    pub processes: u64,
    pub user_s: f64,
    pub system_s: f64,
}

/// The source of a process's total CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuSource {
    /// Unbloat was its parent and asked the kernel.
    Wait,
    /// Read as it ended.
    Exit,
    /// The growth of its parent's account of reaped children.
    Parent,
    /// The last sample, so CPU used afterwards is missing.
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

    /// Returns the source with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }
}
