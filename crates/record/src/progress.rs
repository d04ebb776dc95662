//! The state of a running recording, for a live view.

use crate::tree::{Member, Totals};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use unbloat_process::Pid;
use unbloat_recording::{Cost, ProcessId};
use unbloat_untrusted::Untrusted;

/// The state at this moment.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Time since the recording began.
    pub elapsed: Duration,
    /// Number of processes in the tree.
    pub processes: usize,
    /// Sum of RSS; counts shared pages once per process.
    pub rss_bytes: u64,
    /// Sum of PSS at the last reading.
    pub pss_bytes: Option<u64>,
    /// CPU use over about the last second, in cores.
    pub cpu_cores: f64,
    /// PSS over time, newest last: seconds since the start, and bytes; at most [`HISTORY`] points of the last
    /// [`HISTORY_TIME`].
    pub history: VecDeque<(f64, u64)>,
    /// The process with the most memory: its PID, command and bytes (PSS if known, else RSS).
    pub biggest: Option<(Pid, Untrusted, u64)>,
    /// Bytes by category over the tree at the last census; empty before the first.
    pub census: BTreeMap<String, u64>,
    /// The cost of the recording so far.
    pub cost: Cost,
    /// The command's exit status; others of its tree may still run.
    pub command_status: Option<i64>,
    /// The file can no longer be written; the command continues.
    pub file_failed: bool,
    /// CPU seconds of the tree at the looks of about the last second.
    pub cpu: VecDeque<(Duration, f64)>,
    /// PSS of each process at the last reading.
    pub by_process: BTreeMap<ProcessId, u64>,
}

/// Maximum number of points in the history.
pub const HISTORY: usize = 600;
/// Time span of the history.
pub const HISTORY_TIME: Duration = Duration::from_secs(600);

impl Progress {
    /// Returns the growth of PSS over the history in bytes per second; `None` before ten seconds have passed.
    #[must_use]
    pub fn growth_bytes_per_s(&self) -> Option<f64> {
        let (&(from_s, from), &(to_s, to)) = (self.history.front()?, self.history.back()?);
        (to_s - from_s >= 10.0).then(|| (to as f64 - from as f64) / (to_s - from_s))
    }

    pub(crate) fn look(&mut self, elapsed: Duration, totals: Totals, members: &BTreeMap<Pid, Member>) {
        (self.elapsed, self.processes, self.rss_bytes) = (elapsed, totals.processes, totals.rss_bytes);
        self.cpu.push_back((elapsed, totals.cpu_s));
        while self.cpu.len() > 2
            && self.cpu.front().is_some_and(|&(at, _)| elapsed - at > Duration::from_secs(1))
        {
            self.cpu.pop_front();
        }
        if let (Some(&(from, before)), Some(&(to, after))) = (self.cpu.front(), self.cpu.back())
            && to > from
        {
            self.cpu_cores = ((after - before) / (to - from).as_secs_f64()).max(0.0);
        }
        let size = |member: &Member| {
            let rss = member.last.as_ref().map_or(0, |stat| stat.rss_bytes);
            self.by_process.get(&member.id).copied().unwrap_or(rss)
        };
        self.biggest = members
            .iter()
            .max_by_key(|(_, member)| size(member))
            .map(|(&pid, member)| (pid, member.command.clone(), size(member)));
    }

    pub(crate) fn pss(&mut self, time_ns: i64, by_process: &BTreeMap<ProcessId, u64>) {
        let sum = by_process.values().sum();
        self.by_process.clone_from(by_process);
        self.pss_bytes = Some(sum);
        let at_s = time_ns as f64 / 1e9;
        let spacing = HISTORY_TIME.as_secs_f64() / HISTORY as f64;
        match self.history.len().checked_sub(2).and_then(|i| self.history.get(i)) {
            // The newest point moves until it is far enough from the previous one.
            Some(&(before_s, _)) if at_s - before_s < spacing => {
                self.history.pop_back();
            }
            _ => {}
        }
        self.history.push_back((at_s, sum));
        while self.history.front().is_some_and(|&(first_s, _)| at_s - first_s > HISTORY_TIME.as_secs_f64()) {
            self.history.pop_front();
        }
    }

    pub(crate) fn census(&mut self, census: BTreeMap<String, u64>) {
        if !census.is_empty() {
            self.census = census;
        }
    }
}
