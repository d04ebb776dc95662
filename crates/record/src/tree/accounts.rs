//! Closes the accounts of ended processes: end time, status, and total CPU.
//!
//! The process that waited for them has the best figures. The keeper reports its children and the kernel
//! reports every end, each at its own pace. An account stays open until both have reported, or have had time
//! to.

use super::Member;
use super::spent::Spent;
use crate::ops::Op;
use std::collections::{BTreeMap, BTreeSet};
use unbloat_process::Pid;
use unbloat_process::keeper;
use unbloat_process::stat::Stat;
use unbloat_recording::{CpuSource, ProcessEnd, Sample};

/// Maximum wait for the reports of the keeper and the kernel on an ended process, in nanoseconds. Both
/// usually come within milliseconds, but later on a busy machine.
const PATIENCE_NS: i64 = 5_000_000_000;

/// A member that is gone, until its account is closed.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) pid: Pid,
    pub(super) member: Member,
    pub(super) at_ns: i64,
    status: Option<i64>,
    used: Option<Used>,
    /// The kernel has reported the end.
    kernel_reported: bool,
}

/// CPU of a process's whole life, in clock ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    user: u64,
    system: u64,
    source: CpuSource,
}

impl Used {
    fn exact(stat: &Stat, source: CpuSource) -> Self {
        Used { user: stat.user_ticks, system: stat.system_ticks, source }
    }
}

/// The keeper's report of the end of a process whose birth has not been reported yet.
#[derive(Debug)]
struct Early {
    ended: keeper::Ended,
    at_ns: i64,
}

impl Ending {
    /// Opens the account of a member that is gone; `dead` was read while it was a zombie.
    pub(super) fn of(
        mut member: Member,
        pid: Pid,
        at_ns: i64,
        status: Option<i64>,
        dead: Option<Stat>,
    ) -> Self {
        let used = dead.as_ref().map(|stat| Used::exact(stat, CpuSource::Exit));
        member.last = dead.or(member.last);
        member.parent = member.last.as_ref().map_or(member.parent, |last| last.parent);
        Ending { pid, member, at_ns, status, used, kernel_reported: false }
    }

    /// Returns its CPU as far as known.
    fn used(&self) -> Option<Used> {
        self.used.or_else(|| self.member.last.as_ref().map(|last| Used::exact(last, CpuSource::Sample)))
    }

    fn cpu_ticks(&self) -> u64 {
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

/// The parties that report ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reporters {
    /// Our own process between the recorder and the tree.
    pub(super) keeper: Option<Pid>,
    /// The kernel reports every end.
    pub(super) kernel: bool,
}

/// The open accounts, and the sums of the closed ones.
#[derive(Debug)]
pub(super) struct Accounts {
    open: Vec<Ending>,
    early: Vec<Early>,
    /// Accounts closed in the last seconds without the keeper's report: time and process.
    closed: Vec<(i64, Pid)>,
    /// Sums of the closed accounts.
    pub(super) spent: Spent,
    ticks_per_second: f64,
    buffer: Vec<u8>,
}

impl Accounts {
    pub(super) fn new(ticks_per_second: f64) -> Self {
        Accounts {
            open: Vec::new(),
            early: Vec::new(),
            closed: Vec::new(),
            spent: Spent::default(),
            ticks_per_second,
            buffer: Vec::with_capacity(4096),
        }
    }

    pub(super) fn open(&mut self, ending: Ending) {
        self.open.push(ending);
    }

    /// True if all accounts are closed.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the CPU of all ended processes, in clock ticks.
    pub(super) fn cpu_ticks(&self) -> u64 {
        self.spent.ticks + self.open.iter().map(Ending::cpu_ticks).sum::<u64>()
    }

    /// Returns the newest process with that PID and an open account.
    pub(super) fn newest(&self, pid: Pid) -> Option<&Member> {
        self.open.iter().rev().find(|ending| ending.pid == pid).map(|ending| &ending.member)
    }

    /// Returns the processes with this parent and an open account.
    pub(super) fn children_of(&self, parent: Pid) -> impl Iterator<Item = &Member> {
        self.open.iter().map(|ending| &ending.member).filter(move |member| member.parent == parent)
    }

    /// True if an account with that PID still waits for the keeper's report.
    pub(super) fn await_keeper(&self, pid: Pid) -> bool {
        self.open.iter().any(|ending| ending.pid == pid && !ending.is_reaped_by_keeper())
    }

    /// True if an account with that PID still waits for the kernel's report.
    pub(super) fn await_kernel(&self, pid: Pid) -> bool {
        self.open.iter().any(|ending| ending.pid == pid && !ending.kernel_reported)
    }

    /// True if any account still waits for the kernel's report.
    pub(super) fn await_kernel_at_all(&self) -> bool {
        self.open.iter().any(|ending| !ending.kernel_reported)
    }

    /// Records the figures that the keeper read from a child. Returns whether an account waited for them.
    pub(super) fn keeper_reports(&mut self, ended: &keeper::Ended) -> bool {
        let mut open = self.open.iter_mut();
        let Some(ending) = open.find(|e| e.pid == ended.pid && !e.is_reaped_by_keeper()) else {
            return false;
        };
        ending.keeper_reports(ended);
        true
    }

    /// Keeps the keeper's report until the birth of that process is reported. A closed account belongs to a zombie whose
    /// parent left it to the keeper.
    pub(super) fn keep_early(&mut self, ended: &keeper::Ended, at_ns: i64) {
        if !self.closed.iter().any(|&(_, closed)| closed == ended.pid) {
            self.early.push(Early { ended: *ended, at_ns });
        }
    }

    /// Records the kernel's report of an end.
    pub(super) fn kernel_reports(&mut self, pid: Pid, at_ns: i64, status: Option<i64>, stat: Option<&Stat>) {
        let Some(ending) = self.open.iter_mut().find(|e| e.pid == pid && !e.kernel_reported) else { return };
        (ending.kernel_reported, ending.at_ns) = (true, ending.at_ns.min(at_ns));
        ending.status = ending.status.or(status);
        if let Some(stat) = stat.filter(|_| !ending.is_reaped_by_keeper()) {
            ending.used = Some(Used::exact(stat, CpuSource::Exit));
        }
    }

    /// Closes the accounts for which no further report can arrive.
    pub(super) fn close_due(
        &mut self,
        members: &mut BTreeMap<Pid, Member>,
        reporters: Reporters,
        time_ns: i64,
        ops: &mut Vec<Op>,
    ) {
        self.hear_what_came_early(reporters, time_ns);
        self.infer_from_parents(members);
        let waits = |ending: &Ending| {
            let parent = ending.member.parent;
            let orphan = Some(parent) == reporters.keeper || !members.contains_key(&parent);
            let keeper = reporters.keeper.is_some() && orphan && !ending.is_reaped_by_keeper();
            let kernel = reporters.kernel && !ending.kernel_reported;
            (keeper || kernel) && time_ns - ending.at_ns < PATIENCE_NS
        };
        let (waiting, closing): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(waits);
        self.open = waiting;
        closing.iter().for_each(|ending| self.close(ending, time_ns, ops));
    }

    /// Closes all accounts with the known figures, at the end of the recording.
    pub(super) fn close_all(
        &mut self,
        members: &mut BTreeMap<Pid, Member>,
        reporters: Reporters,
        time_ns: i64,
        ops: &mut Vec<Op>,
    ) {
        self.hear_what_came_early(reporters, time_ns);
        self.infer_from_parents(members);
        for ending in std::mem::take(&mut self.open) {
            self.close(&ending, time_ns, ops);
        }
    }

    fn hear_what_came_early(&mut self, reporters: Reporters, time_ns: i64) {
        for early in std::mem::take(&mut self.early) {
            if self.keeper_reports(&early.ended) {
                continue;
            }
            if !reporters.kernel {
                // An orphan that was never seen.
                self.spent.count_short_lived(early.ended.user_ticks + early.ended.system_ticks);
            } else if time_ns - early.at_ns < PATIENCE_NS {
                self.early.push(early);
            }
        }
    }

    fn close(&mut self, ending: &Ending, time_ns: i64, ops: &mut Vec<Op>) {
        if !ending.is_reaped_by_keeper() {
            self.closed.retain(|&(at_ns, _)| time_ns - at_ns < PATIENCE_NS);
            self.closed.push((time_ns, ending.pid));
        }
        let (member, used) = (&ending.member, ending.used());
        if member.samples == 0 {
            self.spent.count_short_lived(ending.cpu_ticks());
        } else {
            self.spent.ticks += ending.cpu_ticks();
        }
        let seconds = |ticks: u64| ticks as f64 / self.ticks_per_second;
        if let Some(used) = used.filter(|_| member.samples > 0) {
            // The last sample of a process contains its total CPU; it no longer has memory.
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

    /// Infers the CPU of processes that were reaped before we could read them: their parent's account of its
    /// children has grown by their total.
    fn infer_from_parents(&mut self, members: &mut BTreeMap<Pid, Member>) {
        let parents: BTreeSet<Pid> = self.open.iter().map(|ending| ending.member.parent).collect();
        for (&pid, parent) in members {
            if parents.contains(&pid)
                && let Ok(stat) = parent.watched.stat(&mut self.buffer)
            {
                parent.last = Some(stat);
            }
            if let Some(grown) = parent.account() {
                parent.unreaped += share_out(&mut self.open, pid, grown);
            }
        }
        // Parents that have ended themselves and left final figures.
        for parent in 0..self.open.len() {
            let Some(ending) = self.open.get_mut(parent).filter(|ending| ending.used.is_some()) else {
                continue;
            };
            let pid = ending.pid;
            if let Some(grown) = ending.member.account() {
                share_out(&mut self.open, pid, grown);
            }
        }
    }
}

/// Distributes the growth of a parent's account of its children (user, system ticks) among its ended children
/// without exact figures, evenly beyond their last known use. Returns the number of its children with exact
/// figures, which may not have been awaited yet.
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
