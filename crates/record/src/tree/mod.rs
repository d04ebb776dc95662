//! The members of the tree: adding them, sampling them, and detecting their ends.
//!
//! [`Tree::add`] is the only function that creates a row for a process. It learns of births only from the
//! single owner of the [`Membership`](crate::membership::Membership).

mod accounts;
mod member;
mod spent;
mod unseen_children;

use crate::births::Births;
use crate::membership::Change;
use crate::ops::Op;
use accounts::{Accounts, Ending, Reporters};
pub(crate) use member::Member;
pub(crate) use spent::Spent;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use unbloat_process::keeper;
use unbloat_process::stat::Stat;
use unbloat_process::watch::{ProcFs, ticks_per_second};
use unbloat_process::{Error, Pid};
use unbloat_recording::{NewProcess, ProcessId};
use unseen_children::{ChildrenGrowth, children_ticks};

/// File descriptors reserved for everything except watching.
const OTHER_FILES: usize = 64;

/// Longest wait for the kernel's reports of ends at the end of a recording.
const LAST_PATIENCE: Duration = Duration::from_millis(500);

/// Sums over the tree at one look.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) processes: usize,
    pub(crate) rss_bytes: u64,
    /// CPU seconds of all processes so far, including ended ones.
    pub(crate) cpu_s: f64,
}

/// The tree.
#[derive(Debug)]
pub(crate) struct Tree {
    proc: ProcFs,
    births: Births,
    pub(crate) members: BTreeMap<Pid, Member>,
    accounts: Accounts,
    next: ProcessId,
    /// Our own process between us and the tree.
    keeper: Option<Pid>,
    /// Start of the recording on `CLOCK_MONOTONIC`.
    started_ns: i64,
    max_files: usize,
    ticks_per_second: f64,
    buffer: Vec<u8>,
}

impl Tree {
    pub(crate) fn new(
        proc: ProcFs,
        births: Births,
        first: ProcessId,
        keeper: Option<Pid>,
        started_ns: i64,
    ) -> Self {
        Tree {
            proc,
            births,
            members: BTreeMap::new(),
            accounts: Accounts::new(ticks_per_second()),
            next: first,
            keeper,
            started_ns,
            max_files: unbloat_process::watch::allow_many_files(),
            ticks_per_second: ticks_per_second(),
            buffer: Vec::with_capacity(4096),
        }
    }

    /// Applies the changes since the last call.
    pub(crate) fn take_in(&mut self, time_ns: i64, ops: &mut Vec<Op>) {
        for change in self.births.changes() {
            self.apply(change, time_ns, ops);
        }
    }

    /// Records that the keeper has started the command.
    pub(crate) fn started(&mut self, pid: Pid, time_ns: i64, ops: &mut Vec<Op>) {
        self.births.started_by_keeper(pid);
        self.take_in(time_ns, ops);
    }

    /// True if no process is left and all accounts are closed.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.accounts.is_empty()
    }

    /// Returns whether the files of one more process may be kept open: three, counting those where its PSS is
    /// read.
    pub(crate) fn keeps_open(&self) -> bool {
        (self.members.len() + 1) * 3 + OTHER_FILES < self.max_files
    }

    /// Samples the whole tree.
    pub(crate) fn look(&mut self, time_ns: i64, ops: &mut Vec<Op>) -> Totals {
        self.take_in(time_ns, ops);
        let mut samples = Vec::with_capacity(self.members.len());
        let mut totals = Totals { cpu_s: self.seconds(self.accounts.cpu_ticks()), ..Totals::default() };
        let mut gone = Vec::new();
        let mut grown = Vec::new();
        for (&pid, member) in &mut self.members {
            let Some(last) = &member.last else {
                gone.push((pid, None));
                continue;
            };
            match member.watched.stat(&mut self.buffer) {
                Ok(stat) if stat.start_ticks != last.start_ticks => gone.push((pid, None)),
                Ok(stat) if stat.is_dead() => gone.push((pid, Some(stat))),
                Ok(stat) => {
                    grown.extend(ChildrenGrowth::between(last, &stat));
                    if stat.session == pid.0 && last.session != stat.session {
                        self.births.leads_session(&stat);
                    }
                    if last.name != stat.name
                        && let Some(command) = self.proc.command(pid)
                    {
                        member.rename(command, ops);
                    }
                    samples.push(member.sample(time_ns, &stat, self.ticks_per_second));
                    totals.rss_bytes += stat.rss_bytes;
                    totals.cpu_s += (stat.user_ticks + stat.system_ticks) as f64 / self.ticks_per_second;
                    member.last = Some(stat);
                }
                Err(Error::Gone { .. }) => gone.push((pid, None)),
                Err(error) => ops.push(Op::Note(member.id, error.to_string())),
            }
        }
        totals.processes = samples.len();
        ops.push(Op::Samples(samples));
        for (pid, dead) in gone {
            self.leave(pid, time_ns, None, dead);
        }
        if !self.births.kernel_reports_all() {
            let some_vanished = self.births.some_vanished();
            for grown in grown {
                let unseen = grown.unseen_child(&mut self.members, &self.accounts, some_vanished);
                unseen.into_iter().for_each(|ticks| self.accounts.spent.count_short_lived(ticks));
            }
        }
        let reporters = self.reporters();
        self.accounts.close_due(&mut self.members, reporters, time_ns, ops);
        totals
    }

    /// Reads command lines again, since servers put their state into them.
    pub(crate) fn refresh_commands(&mut self, time_ns: i64, ops: &mut Vec<Op>) {
        for (&pid, member) in &mut self.members {
            if let Some(command) = self.proc.command(pid) {
                member.rename(command, ops);
            }
            ops.push(Op::Seen(member.id, time_ns, Some(member.peak_rss_bytes).filter(|&bytes| bytes > 0)));
        }
    }

    fn apply(&mut self, change: Change, time_ns: i64, ops: &mut Vec<Op>) {
        let started_ns = self.started_ns;
        let at = |at_ns: Option<i64>| at_ns.map_or(time_ns, |at| (at - started_ns).clamp(0, time_ns.max(0)));
        match change {
            Change::Born { pid, parent, at_ns, stat } => {
                self.add(pid, parent, at(at_ns), stat, ops);
                self.count_unseen_child_of_newborn(pid);
            }
            Change::Command { pid, command } => {
                if let Some(member) = self.members.get_mut(&pid) {
                    member.rename(command, ops);
                }
            }
            Change::Ended { pid, at_ns, status, stat } => self.reported_end(pid, at(at_ns), status, stat),
        }
    }

    fn add(&mut self, pid: Pid, parent: Pid, at_ns: i64, stat: Option<Stat>, ops: &mut Vec<Op>) {
        // The PID was reused before we saw the end of the previous process.
        self.leave(pid, at_ns, None, None);
        let id = self.next;
        self.next.0 += 1;
        let forked_by = self.forked_by(parent);
        let command = self
            .proc
            .command(pid)
            .or_else(|| stat.as_ref().map(|stat| stat.name.as_str().into()))
            .or_else(|| forked_by.map(|parent| parent.command.clone()))
            .unwrap_or_else(|| "?".into());
        ops.push(Op::Process(
            id,
            NewProcess {
                run: None,
                pid: pid.0,
                start_ticks: stat.as_ref().map(|stat| stat.start_ticks),
                parent: forked_by.map(|parent| parent.id),
                command: command.clone(),
                first_seen_ns: at_ns,
            },
        ));
        let watched = self.proc.watch(pid, self.keeps_open());
        let accounted = stat.as_ref().map_or((0, 0), |s| (s.children_user_ticks, s.children_system_ticks));
        let member = Member {
            id,
            command,
            last: stat,
            parent,
            watched,
            peak_rss_bytes: 0,
            samples: 0,
            accounted,
            unreaped: 0,
        };
        self.members.insert(pid, member);
    }

    /// Returns the parent of a newborn process, which may have ended since.
    fn forked_by(&self, parent: Pid) -> Option<&Member> {
        self.members.get(&parent).or_else(|| self.accounts.newest(parent))
    }

    /// Counts a child that a newborn process has already reaped.
    fn count_unseen_child_of_newborn(&mut self, pid: Pid) {
        let Some(stat) = self.members.get(&pid).and_then(|member| member.last.as_ref()) else { return };
        if !self.births.kernel_reports_all() && stat.children_minor_faults > 0 {
            self.accounts.spent.count_short_lived(children_ticks(stat));
        }
    }

    /// Takes a process out of the tree and opens its account.
    fn leave(&mut self, pid: Pid, at_ns: i64, status: Option<i64>, dead: Option<Stat>) {
        let Some(member) = self.members.remove(&pid) else { return };
        self.births.ended(pid, member.start_ticks(), dead.is_some());
        self.accounts.open(Ending::of(member, pid, at_ns, status, dead));
    }

    /// Records the kernel's report of an end.
    fn reported_end(&mut self, pid: Pid, at_ns: i64, status: Option<i64>, stat: Option<Stat>) {
        // Otherwise the end was detected before it was reported.
        if self.members.contains_key(&pid) && !self.accounts.await_kernel(pid) {
            self.leave(pid, at_ns, status, stat.clone());
        }
        self.accounts.kernel_reports(pid, at_ns, status, stat.as_ref());
    }

    /// Records the figures that the keeper read from a child before reaping it.
    pub(crate) fn reaped(&mut self, ended: &keeper::Ended, time_ns: i64, ops: &mut Vec<Op>) {
        if self.births.kernel_reports_all() {
            self.take_in(time_ns, ops);
        }
        if !self.accounts.await_keeper(ended.pid) {
            self.leave(ended.pid, time_ns, None, None);
        }
        if !self.accounts.keeper_reports(ended) && !self.births.knows(ended.pid) {
            self.accounts.keep_early(ended, time_ns);
        }
    }

    /// Closes all accounts with the known figures, at the end of the recording. `time_ns` returns the current time.
    pub(crate) fn close_all(&mut self, time_ns: impl Fn() -> i64, ops: &mut Vec<Op>) {
        let begun = Instant::now();
        while self.births.kernel_reports_all()
            && self.accounts.await_kernel_at_all()
            && begun.elapsed() < LAST_PATIENCE
        {
            std::thread::sleep(Duration::from_millis(1));
            self.take_in(time_ns(), ops);
        }
        let time_ns = time_ns();
        self.refresh_commands(time_ns, ops);
        let reporters = self.reporters();
        self.accounts.close_all(&mut self.members, reporters, time_ns, ops);
    }

    /// Returns the number and the CPU of ended processes.
    pub(crate) fn spent(&self) -> Spent {
        self.accounts.spent
    }

    /// Converts clock ticks to seconds.
    pub(crate) fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_second
    }

    fn reporters(&self) -> Reporters {
        Reporters { keeper: self.keeper, kernel: self.births.kernel_reports_all() }
    }
}
