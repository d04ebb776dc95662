//! The members of the tree: adding them, sampling them, and noticing their ends.
//!
//! [`Tree::add`] is the only function that creates a row for a process. It learns of births from the one owner of the
//! [`Membership`](crate::membership::Membership) alone.

mod accounts;
mod member;
mod unseen_children;

use crate::births::Births;
use crate::membership::Change;
use crate::ops::Op;
use accounts::{Early, Ending};
pub(crate) use member::Member;
use std::collections::BTreeMap;
use unbloat_process::stat::Stat;
use unbloat_process::watch::{ProcFs, ticks_per_second};
use unbloat_process::{Error, Pid};
use unbloat_recording::{NewProcess, ProcessId};
use unseen_children::ChildrenGrowth;

/// File descriptors left for everything but watching.
const OTHER_FILES: usize = 64;

/// Sums over the tree at one look.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) processes: usize,
    pub(crate) rss_bytes: u64,
    /// CPU seconds of all processes so far, those that have ended included.
    pub(crate) cpu_s: f64,
}

/// The tree.
#[derive(Debug)]
pub(crate) struct Tree {
    proc: ProcFs,
    births: Births,
    pub(crate) members: BTreeMap<Pid, Member>,
    endings: Vec<Ending>,
    early: Vec<Early>,
    /// Accounts closed in the last seconds without the keeper's word: when, and whose.
    closed: Vec<(i64, Pid)>,
    next: ProcessId,
    /// Our own process between us and the tree.
    keeper: Option<Pid>,
    /// Start of the recording on `CLOCK_MONOTONIC`.
    started_ns: i64,
    max_files: usize,
    ticks_per_second: f64,
    ended_cpu_s: f64,
    /// Processes that came and went between two looks.
    pub(crate) short_lived: u64,
    /// Their CPU in seconds.
    pub(crate) short_lived_cpu_s: f64,
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
            endings: Vec::new(),
            early: Vec::new(),
            closed: Vec::new(),
            next: first,
            keeper,
            started_ns,
            max_files: unbloat_process::watch::allow_many_files(),
            ticks_per_second: ticks_per_second(),
            ended_cpu_s: 0.0,
            short_lived: 0,
            short_lived_cpu_s: 0.0,
            buffer: Vec::with_capacity(4096),
        }
    }

    /// Takes in what has happened since the last time.
    pub(crate) fn take_in(&mut self, time_ns: i64, ops: &mut Vec<Op>) {
        for change in self.births.changes() {
            self.apply(change, time_ns, ops);
        }
    }

    /// The keeper has started the command.
    pub(crate) fn started(&mut self, pid: Pid, time_ns: i64, ops: &mut Vec<Op>) {
        self.births.started_by_keeper(pid);
        self.take_in(time_ns, ops);
    }

    /// Nobody is left, and all accounts are closed.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.endings.is_empty()
    }

    /// Tells whether the files of one more process may be kept open: three, here and where its PSS is read.
    pub(crate) fn keeps_open(&self) -> bool {
        (self.members.len() + 1) * 3 + OTHER_FILES < self.max_files
    }

    /// Looks at the whole tree.
    pub(crate) fn look(&mut self, time_ns: i64, ops: &mut Vec<Op>) -> Totals {
        self.take_in(time_ns, ops);
        let mut samples = Vec::with_capacity(self.members.len());
        let ending_ticks: u64 = self.endings.iter().map(Ending::cpu_ticks).sum();
        let ended_cpu_s = self.ended_cpu_s + ending_ticks as f64 / self.ticks_per_second;
        let mut totals = Totals { cpu_s: ended_cpu_s, ..Totals::default() };
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
            self.count_unseen_children(&grown);
        }
        self.close_accounts(time_ns, ops);
        totals
    }

    /// Reads command lines anew: servers put into them what they do.
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
                self.count_unseen_children_of_newborn(pid);
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
        // The number was given out again before we saw the end of the one before.
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

    /// The parent of a newborn, which may have ended since.
    fn forked_by(&self, parent: Pid) -> Option<&Member> {
        let ended = || self.endings.iter().rev().find(|ending| ending.pid == parent).map(|e| &e.member);
        self.members.get(&parent).or_else(ended)
    }
}

fn children_ticks(stat: &Stat) -> u64 {
    stat.children_user_ticks + stat.children_system_ticks
}
