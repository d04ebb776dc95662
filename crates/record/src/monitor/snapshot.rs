//! The latest readings of all processes: plain data.

use super::{Place, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;
use unbloat_contract::Word;
use unbloat_heap::model::{ProcessReport, Sharing};
use unbloat_process::Pid;
use unbloat_untrusted::Untrusted;

/// A process that cannot be mistaken for another one with the same PID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Its PID.
    pub pid: Pid,
    /// Its start, in clock ticks since boot.
    pub start_ticks: u64,
}

/// A value and the time of its reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Taken<T> {
    /// The time.
    pub at: SystemTime,
    /// The value.
    pub value: T,
}

/// Memory that is shared, and memory that is not, as the kernel counts it (`smaps_rollup`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Proportional bytes.
    pub pss_bytes: u64,
    /// Bytes that only this process has.
    pub uss_bytes: u64,
}

/// A look into a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// The inspection.
    pub report: ProcessReport,
    /// Memory shared with the parent, if that is watched too.
    pub sharing: Option<Sharing>,
    /// The runtime's counters, under `unbloat run`.
    pub counters: Option<Counters>,
    /// The most that may be charged to its control group, in bytes.
    pub limit_bytes: Option<u64>,
    /// The policy in force, or else the one that it was started with.
    pub policy: Option<Untrusted>,
    /// Parts of the policy that are not live, in words.
    pub not_live: Vec<String>,
    /// CPU seconds that the look took.
    pub cpu_s: f64,
}

/// Counters of the runtime in a process, since its start or its last fork.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes returned.
    pub returned_bytes: u64,
    /// Trims.
    pub trims: u64,
    /// Collections of young objects only.
    pub minor_collections: u64,
    /// Full collections.
    pub major_collections: u64,
}

impl Counters {
    pub(super) fn of(page: &unbloat_contract::Snapshot) -> Self {
        let major = page.word(Word::GcMajorCount);
        Counters {
            returned_bytes: page.word(Word::TrimReturnedBytes),
            trims: page.word(Word::Trims),
            minor_collections: page.word(Word::GcCount).saturating_sub(major),
            major_collections: major,
        }
    }
}

/// A watched process with its latest readings. What was not read yet, or cannot be, is absent.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The process.
    pub id: Identity,
    /// Its parent.
    pub parent: Pid,
    /// Its command line or title.
    pub command: Untrusted,
    /// Its role.
    pub role: Role,
    /// Its number among the processes with the same name, role and place: the server's own where it gives one and it
    /// is free, else the smallest that is free. A successor inherits it, so there are never more than processes at once.
    pub number: u32,
    /// Its place.
    pub place: Place,
    /// The time of its start, in seconds since 1970.
    pub started_unix_s: f64,
    /// Resident bytes.
    pub rss_bytes: Taken<u64>,
    /// PSS and USS.
    pub memory: Option<Taken<Memory>>,
    /// The latest look.
    pub look: Option<Taken<Arc<Look>>>,
    /// Codes of what could not be read ([`unbloat_heap::model::NoteCode`]), of the latest attempt of each kind.
    pub unread: BTreeSet<&'static str>,
}

/// The latest readings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// The processes by identity.
    pub processes: BTreeMap<Identity, Seen>,
    /// The time of the latest list of processes; `None` before the first.
    pub listed: Option<SystemTime>,
    /// The list of processes itself could not be read, with the reason.
    pub problem: Option<String>,
    /// The monitor's own cost.
    pub cost: Cost,
}

/// The monitor's own cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// The share of one core that it may use.
    pub budget: f64,
    /// The share of one core that this process used in the last minute, looks included; `None` in the first seconds.
    pub used: Option<f64>,
}
