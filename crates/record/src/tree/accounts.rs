//! Closes the accounts of processes that have ended: when, with what status, and how much CPU they used in all.
//!
//! The process that waited for them knows best. The keeper reports its children and the kernel reports every end, each in its
//! own time. An account stays open until both have reported, or have had time to.

use super::{Member, Tree};
use crate::ops::Op;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use unbloat_process::Pid;
use unbloat_process::keeper;
use unbloat_process::stat::Stat;
use unbloat_recording::{CpuSource, ProcessEnd, Sample};

/// Longest wait for the reports of the keeper and the kernel on a process that has ended, in nanoseconds. Both come
/// within milliseconds; on a machine that has no time for them, not at once.
const PATIENCE_NS: i64 = 5_000_000_000;

/// Longest wait for them at the end of a recording.
const LAST_PATIENCE: Duration = Duration::from_millis(500);

/// A member that has gone, until its account is closed.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) pid: Pid,
    pub(super) member: Member,
    pub(super) at_ns: i64,
    pub(super) status: Option<i64>,
    pub(super) used: Option<Used>,
    /// The kernel has told of it.
    pub(super) kernel_reported: bool,
}

/// CPU of a whole life, in clock ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    user: u64,
    system: u64,
    source: CpuSource,
}

impl Used {
    pub(super) fn exact(stat: &Stat, source: CpuSource) -> Self {
        Used { user: stat.user_ticks, system: stat.system_ticks, source }
    }
}

/// The keeper's report of the end of a process whose birth was not reported yet.
#[derive(Debug)]
pub(super) struct Early {
    ended: keeper::Ended,
    at_ns: i64,
}

impl Ending {
    /// Its CPU as far as known.
    fn used(&self) -> Option<Used> {
        self.used.or_else(|| self.member.last.as_ref().map(|last| Used::exact(last, CpuSource::Sample)))
    }

    pub(super) fn cpu_ticks(&self) -> u64 {
        self.used().map_or(0, |used| used.user + used.system)
    }

    fn is_reaped_by_keeper(&self) -> bool {
        self.used.is_some_and(|used| used.source == CpuSource::Wait)
    }

    fn keeper_reports(&mut self, ended: &keeper::Ended) {
        self.status = Some(ended.status);
        self.used =
            Some(Used { user: ended.user_ticks, system: ended.system_ticks, source: CpuSource::Wait });
        if let Some(last) = &mut self.member.last {
            last.children_user_ticks = ended.children_user_ticks;
            last.children_system_ticks = ended.children_system_ticks;
        }
    }
}

impl Tree {
    /// Takes in what the keeper read of a child before it reaped it.
    pub(crate) fn reaped(&mut self, ended: &keeper::Ended, time_ns: i64, ops: &mut Vec<Op>) {
        if self.births.kernel_reports_all() {
            self.take_in(time_ns, ops);
        }
        let pid = ended.pid;
        let known = self.endings.iter().any(|ending| ending.pid == pid && !ending.is_reaped_by_keeper());
        if !known {
            self.leave(pid, time_ns, None, None);
        }
        // An account that is closed is that of a zombie whose parent left it to the keeper.
        if !self.settle(ended)
            && !self.births.knows(pid)
            && !self.closed.iter().any(|&(_, closed)| closed == pid)
        {
            self.early.push(Early { ended: *ended, at_ns: time_ns });
        }
    }

    fn settle(&mut self, ended: &keeper::Ended) -> bool {
        let mut open = self.endings.iter_mut();
        let Some(ending) = open.find(|e| e.pid == ended.pid && !e.is_reaped_by_keeper()) else {
            return false;
        };
        ending.keeper_reports(ended);
        true
    }

    /// The kernel's word on an end.
    pub(super) fn reported_end(&mut self, pid: Pid, at_ns: i64, status: Option<i64>, stat: Option<Stat>) {
        if self.members.contains_key(&pid) && !self.endings.iter().any(|e| e.pid == pid && !e.kernel_reported)
        {
            self.leave(pid, at_ns, status, stat.clone());
        }
        // Seen to have ended before that was told.
        let Some(ending) = self.endings.iter_mut().find(|e| e.pid == pid && !e.kernel_reported) else {
            return;
        };
        (ending.kernel_reported, ending.at_ns) = (true, ending.at_ns.min(at_ns));
        ending.status = ending.status.or(status);
        if let Some(stat) = stat.filter(|_| !ending.is_reaped_by_keeper()) {
            ending.used = Some(Used::exact(&stat, CpuSource::Exit));
        }
    }

    pub(super) fn leave(&mut self, pid: Pid, at_ns: i64, status: Option<i64>, dead: Option<Stat>) {
        let Some(mut member) = self.members.remove(&pid) else { return };
        self.births.ended(pid, member.start_ticks(), dead.is_some());
        let used = dead.as_ref().map(|stat| Used::exact(stat, CpuSource::Exit));
        if let Some(stat) = &dead {
            member.parent = stat.parent;
            member.last = dead;
        } else if let Some(last) = &member.last {
            member.parent = last.parent;
        }
        self.endings.push(Ending { pid, member, at_ns, status, used, kernel_reported: false });
    }

    pub(super) fn close_accounts(&mut self, time_ns: i64, ops: &mut Vec<Op>) {
        self.hear_what_came_early(time_ns);
        self.infer_from_parents();
        let open = std::mem::take(&mut self.endings);
        let (waiting, closing): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|ending| self.waits(ending, time_ns));
        self.endings = waiting;
        for ending in closing {
            self.close(&ending, time_ns, ops);
        }
    }

    /// Tells whether somebody may still have something to say on it.
    fn waits(&self, ending: &Ending, time_ns: i64) -> bool {
        let orphan =
            Some(ending.member.parent) == self.keeper || !self.members.contains_key(&ending.member.parent);
        let keeper_speaks = self.keeper.is_some() && orphan && !ending.is_reaped_by_keeper();
        let awaits_kernel = self.births.kernel_reports_all() && !ending.kernel_reported;
        (keeper_speaks || awaits_kernel) && time_ns - ending.at_ns < PATIENCE_NS
    }

    fn hear_what_came_early(&mut self, time_ns: i64) {
        for early in std::mem::take(&mut self.early) {
            if self.settle(&early.ended) {
                continue;
            }
            if !self.births.kernel_reports_all() {
                // An orphan that nobody has seen.
                self.count_short_lived(early.ended.user_ticks + early.ended.system_ticks);
            } else if time_ns - early.at_ns < PATIENCE_NS {
                self.early.push(early);
            }
        }
    }

    /// Closes all accounts with what is known, at the end of the recording. `time_ns` says what time it is.
    pub(crate) fn close_all(&mut self, time_ns: impl Fn() -> i64, ops: &mut Vec<Op>) {
        let begun = Instant::now();
        while self.births.kernel_reports_all()
            && self.endings.iter().any(|ending| !ending.kernel_reported)
            && begun.elapsed() < LAST_PATIENCE
        {
            std::thread::sleep(Duration::from_millis(1));
            self.take_in(time_ns(), ops);
        }
        let time_ns = time_ns();
        self.refresh_commands(time_ns, ops);
        self.hear_what_came_early(time_ns);
        self.infer_from_parents();
        for ending in std::mem::take(&mut self.endings) {
            self.close(&ending, time_ns, ops);
        }
    }

    fn close(&mut self, ending: &Ending, time_ns: i64, ops: &mut Vec<Op>) {
        if !ending.is_reaped_by_keeper() {
            self.closed.retain(|&(at_ns, _)| time_ns - at_ns < PATIENCE_NS);
            self.closed.push((time_ns, ending.pid));
        }
        let (member, used) = (&ending.member, ending.used());
        if member.samples == 0 {
            self.count_short_lived(ending.cpu_ticks());
        } else {
            self.ended_cpu_s += ending.cpu_ticks() as f64 / self.ticks_per_second;
        }
        let seconds = |ticks: u64| ticks as f64 / self.ticks_per_second;
        if let Some(used) = used.filter(|_| member.samples > 0) {
            // The last sample of a process says what it used in all; it has no memory any more.
            let (user_s, system_s) = (Some(seconds(used.user)), Some(seconds(used.system)));
            let last = Sample { time_ns, process: member.id, user_s, system_s, ..Sample::default() };
            ops.push(Op::Samples(vec![last]));
        }
        let end = ProcessEnd {
            ended_ns: ending.at_ns,
            exit_status: ending.status,
            user_s: used.map(|used| seconds(used.user)),
            system_s: used.map(|used| seconds(used.system)),
            cpu_source: used.map(|used| used.source),
            peak_rss_bytes: Some(member.peak_rss_bytes).filter(|&bytes| bytes > 0),
        };
        ops.push(Op::Ended(member.id, end));
    }

    /// A process that was reaped before we could read it: its parent's account of its children has grown by what it
    /// used in all.
    fn infer_from_parents(&mut self) {
        let parents: BTreeSet<Pid> = self.endings.iter().map(|ending| ending.member.parent).collect();
        for (&pid, parent) in &mut self.members {
            if parents.contains(&pid)
                && let Ok(stat) = parent.watched.stat(&mut self.buffer)
            {
                parent.last = Some(stat);
            }
            if let Some(grown) = parent.account() {
                parent.unreaped += share_out(&mut self.endings, pid, grown);
            }
        }
        // Parents that have ended themselves, and left their last word.
        for parent in 0..self.endings.len() {
            let Some(ending) = self.endings.get_mut(parent).filter(|ending| ending.used.is_some()) else {
                continue;
            };
            let pid = ending.pid;
            if let Some(grown) = ending.member.account() {
                share_out(&mut self.endings, pid, grown);
            }
        }
    }
}

/// Shares what a parent's account of its children has grown by (user, system ticks) among those of them that have ended
/// and of whom nothing exact is known, evenly beyond what each was last seen to have used. Returns the number of its
/// children that are known exactly: they may not have been waited for yet.
fn share_out(endings: &mut [Ending], parent: Pid, (mut user, mut system): (u64, u64)) -> u32 {
    let seen =
        |ending: &Ending| ending.member.last.as_ref().map_or((0, 0), |l| (l.user_ticks, l.system_ticks));
    let (mut exact, mut unknown) = (0, 0);
    for child in endings.iter().filter(|ending| ending.member.parent == parent) {
        let known = child.used.map_or_else(|| seen(child), |used| (used.user, used.system));
        let last = child.member.last.as_ref();
        user = user.saturating_sub(known.0 + last.map_or(0, |last| last.children_user_ticks));
        system = system.saturating_sub(known.1 + last.map_or(0, |last| last.children_system_ticks));
        if child.used.is_some() { exact += 1 } else { unknown += 1 }
    }
    for child in endings.iter_mut().filter(|ending| ending.member.parent == parent && ending.used.is_none()) {
        let (seen_user, seen_system) = seen(child);
        let (user, system) = (seen_user + user / unknown, seen_system + system / unknown);
        child.used = Some(Used { user, system, source: CpuSource::Parent });
    }
    exact
}
