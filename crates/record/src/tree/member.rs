//! A process of the tree.

use crate::ops::Op;
use crate::sampler::sample;
use unbloat_process::Pid;
use unbloat_process::stat::Stat;
use unbloat_process::watch::Watched;
use unbloat_recording::{ProcessId, Sample};
use unbloat_untrusted::Untrusted;

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: ProcessId,
    pub(crate) command: Untrusted,
    /// `None` if it had ended before it could be read.
    pub(crate) last: Option<Stat>,
    pub(super) parent: Pid,
    pub(super) watched: Watched,
    pub(super) peak_rss_bytes: u64,
    pub(super) samples: u64,
    /// CPU of its children for which accounts have been closed, in clock ticks (user, system).
    pub(super) accounted: (u64, u64),
    /// Number of ended children it has not waited for yet.
    pub(super) unreaped: u32,
}

impl Member {
    /// Start time, which together with the PID identifies the process for good.
    pub(crate) fn start_ticks(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.start_ticks)
    }

    pub(super) fn rename(&mut self, command: Untrusted, ops: &mut Vec<Op>) {
        if command != self.command {
            ops.push(Op::Command(self.id, command.clone()));
            self.command = command;
        }
    }

    /// Returns the growth of its children's CPU since the last call (user, system ticks).
    pub(super) fn account(&mut self) -> Option<(u64, u64)> {
        let last = self.last.as_ref()?;
        let now = (last.children_user_ticks, last.children_system_ticks);
        let before = std::mem::replace(&mut self.accounted, now);
        Some((now.0.saturating_sub(before.0), now.1.saturating_sub(before.1)))
    }

    pub(super) fn sample(&mut self, time_ns: i64, stat: &Stat, ticks_per_second: f64) -> Sample {
        self.samples += 1;
        self.peak_rss_bytes = self.peak_rss_bytes.max(stat.rss_bytes);
        sample(self.id, time_ns, stat, ticks_per_second)
    }
}
