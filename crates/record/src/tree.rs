//! The members of the tree: sampling them, and closing the account of those that have ended.

use crate::births::{Births, Change, Family};
use crate::ops::Op;
use std::collections::{BTreeMap, BTreeSet};
use unbloat_process::keeper::Ended;
use unbloat_process::stat::Stat;
use unbloat_process::watch::{ProcFs, Watched, ticks_per_second};
use unbloat_process::{Error, Pid};
use unbloat_store::{NewProcess, ProcessEnd, ProcessId, RunId, Sample};

/// How long to wait for the keeper's word on a process that has gone, in nanoseconds.
const KEEPER_PATIENCE_NS: i64 = 1_000_000_000;

/// Page faults that the shortest program does not do without.
const FORK_FAULTS: u64 = 30;

/// File descriptors left for everything but watching.
const OTHER_FILES: usize = 64;

/// A process of the tree.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: ProcessId,
    pub(crate) command: String,
    pub(crate) last: Option<Stat>,
    parent: Pid,
    watched: Watched,
    peak_rss_bytes: u64,
    samples: u64,
    /// CPU of its children up to which their accounts are closed, in clock ticks (user, system).
    accounted: (u64, u64),
    /// Children that have ended and that it has not waited for yet.
    unreaped: u32,
}

impl Member {
    fn rename(&mut self, command: String, ops: &mut Vec<Op>) {
        if command != self.command {
            ops.push(Op::Command(self.id, command.clone()));
            self.command = command;
        }
    }

    /// By how much the CPU of its children has grown since the last time (user, system ticks).
    fn account(&mut self) -> Option<(u64, u64)> {
        let last = self.last.as_ref()?;
        let now = (last.children_user_ticks, last.children_system_ticks);
        let before = std::mem::replace(&mut self.accounted, now);
        Some((now.0.saturating_sub(before.0), now.1.saturating_sub(before.1)))
    }

    fn sample(&mut self, time_ns: i64, stat: &Stat, ticks_per_second: f64) -> Sample {
        self.samples += 1;
        self.peak_rss_bytes = self.peak_rss_bytes.max(stat.rss_bytes);
        sample(self.id, time_ns, stat, ticks_per_second)
    }
}

/// A sample from what `stat` says.
pub(crate) fn sample(process: ProcessId, time_ns: i64, stat: &Stat, ticks_per_second: f64) -> Sample {
    Sample {
        time_ns,
        process,
        rss_bytes: Some(stat.rss_bytes),
        minor_faults: Some(stat.minor_faults),
        major_faults: Some(stat.major_faults),
        user_s: Some(stat.user_ticks as f64 / ticks_per_second),
        system_s: Some(stat.system_ticks as f64 / ticks_per_second),
        threads: Some(stat.threads),
        ..Sample::default()
    }
}

/// A member that has gone, until its account is closed.
#[derive(Debug)]
struct Ending {
    pid: Pid,
    member: Member,
    at_ns: i64,
    status: Option<i64>,
    used: Option<Used>,
}

/// CPU of a whole life, in clock ticks.
#[derive(Debug, Clone, Copy)]
struct Used {
    user: u64,
    system: u64,
    source: &'static str,
}

impl Used {
    fn exact(stat: &Stat, source: &'static str) -> Self {
        Used { user: stat.user_ticks, system: stat.system_ticks, source }
    }
}

/// By how much a member's account of its children has grown between two looks.
#[derive(Debug, Clone, Copy)]
struct Unheard {
    parent: Pid,
    faults: u64,
    ticks: u64,
}

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
    family: Family,
    pub(crate) births: Births,
    pub(crate) members: BTreeMap<Pid, Member>,
    endings: Vec<Ending>,
    next: ProcessId,
    run: Option<RunId>,
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
        family: Family,
        first: ProcessId,
        run: Option<RunId>,
        keeper: Option<Pid>,
        started_ns: i64,
    ) -> Self {
        if let Some(keeper) = keeper {
            family.insert(keeper);
        }
        Tree {
            proc,
            family,
            births,
            members: BTreeMap::new(),
            endings: Vec::new(),
            next: first,
            run,
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

    /// Takes in the processes that are to be recorded, and everybody below them.
    pub(crate) fn adopt(&mut self, roots: &[Pid], time_ns: i64, ops: &mut Vec<Op>) {
        for &pid in roots {
            if let Ok(stat) = self.proc.stat(pid)
                && self.family.insert(pid)
            {
                self.add(pid, stat.parent, time_ns, Some(stat), ops);
            }
        }
        for change in self.births.look_around(true) {
            self.apply(change, time_ns, ops);
        }
    }

    /// The command that was started: whatever it has waited for was part of the tree.
    pub(crate) fn adopt_newborn(&mut self, pid: Pid, time_ns: i64, ops: &mut Vec<Op>) {
        self.adopt(&[pid], time_ns, ops);
        self.count_unheard_of_newborn(pid);
    }

    /// Nobody is left, and all accounts are closed.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.endings.is_empty()
    }

    /// Whether the files of one more process may be kept open: three, here and where its PSS is read.
    pub(crate) fn keeps_open(&self) -> bool {
        (self.members.len() + 1) * 3 + OTHER_FILES < self.max_files
    }

    /// What the keeper read of a child before it reaped it.
    pub(crate) fn reaped(&mut self, ended: &Ended, time_ns: i64) {
        let (pid, status) = (ended.pid, Some(ended.status));
        if let Some(member) = self.members.remove(&pid) {
            self.family.remove(pid);
            self.endings.push(Ending { pid, member, at_ns: time_ns, status, used: None });
        }
        if let Some(ending) = self.endings.iter_mut().find(|ending| ending.pid == pid) {
            ending.status = status;
            ending.used = Some(Used { user: ended.user_ticks, system: ended.system_ticks, source: "wait" });
            if let Some(last) = &mut ending.member.last {
                last.children_user_ticks = ended.children_user_ticks;
                last.children_system_ticks = ended.children_system_ticks;
            }
        }
    }

    /// Looks at the whole tree.
    pub(crate) fn look(&mut self, time_ns: i64, ops: &mut Vec<Op>) -> Totals {
        for change in self.births.changes() {
            self.apply(change, time_ns, ops);
        }
        let mut samples = Vec::with_capacity(self.members.len());
        let mut totals = Totals { cpu_s: self.ended_cpu_s, ..Totals::default() };
        let mut gone = Vec::new();
        let mut unheard = Vec::new();
        for (&pid, member) in &mut self.members {
            match member.watched.stat(&mut self.buffer) {
                Ok(stat) if stat.is_dead() => gone.push((pid, Some(stat))),
                Ok(stat) => {
                    if member.last.as_ref().is_some_and(|last| last.name != stat.name)
                        && let Some(command) = self.proc.command(pid)
                    {
                        member.rename(command, ops);
                    }
                    if let Some(last) = &member.last
                        && stat.children_minor_faults > last.children_minor_faults
                    {
                        unheard.push(Unheard {
                            parent: pid,
                            faults: stat.children_minor_faults - last.children_minor_faults,
                            ticks: children_ticks(&stat).saturating_sub(children_ticks(last)),
                        });
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
            let used = dead.as_ref().map(|stat| Used::exact(stat, "exit"));
            self.leave(pid, time_ns, None, used, dead);
        }
        if !self.births.hears_all() {
            self.count_unheard(&unheard);
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
        match change {
            Change::Born { pid, parent, at_ns, stat } => {
                let at_ns = at_ns.map_or(time_ns, |at| (at - self.started_ns).clamp(0, time_ns.max(0)));
                self.add(pid, parent, at_ns, stat, ops);
                self.count_unheard_of_newborn(pid);
            }
            Change::Command { pid, command } => {
                if let Some(member) = self.members.get_mut(&pid) {
                    member.rename(command, ops);
                }
            }
            Change::Ended { pid, at_ns, status, stat } => {
                let at_ns = (at_ns - self.started_ns).clamp(0, time_ns.max(0));
                let used = stat.as_ref().map(|stat| Used::exact(stat, "exit"));
                self.leave(pid, at_ns, Some(status), used, stat);
            }
        }
    }

    fn add(&mut self, pid: Pid, parent: Pid, at_ns: i64, stat: Option<Stat>, ops: &mut Vec<Op>) {
        if let Some(known) = self.members.get(&pid) {
            let start = |stat: &Option<Stat>| stat.as_ref().map(|stat| stat.start_ticks);
            if stat.is_none() || start(&known.last) == start(&stat) {
                // Found by looking around, and then told of by the kernel.
                return;
            }
            // The number was given out again before we saw the end of the one before.
            self.leave(pid, at_ns, None, None, None);
            self.family.insert(pid);
        }
        let id = self.next;
        self.next.0 += 1;
        let forked_by = self.members.get(&parent);
        let command = self
            .proc
            .command(pid)
            .or_else(|| stat.as_ref().map(|stat| stat.name.clone()))
            .or_else(|| forked_by.map(|parent| parent.command.clone()))
            .unwrap_or_else(|| "?".to_owned());
        ops.push(Op::Process(
            id,
            NewProcess {
                run: self.run,
                pid: pid.0,
                start_ticks: stat.as_ref().map(|stat| stat.start_ticks),
                parent: forked_by.map(|parent| parent.id),
                command: command.clone(),
                first_seen_ns: at_ns,
            },
        ));
        if stat.as_ref().is_some_and(|stat| stat.session == pid.0) {
            self.births.session_leader(pid);
        }
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

    fn leave(&mut self, pid: Pid, at_ns: i64, status: Option<i64>, used: Option<Used>, dead: Option<Stat>) {
        let Some(mut member) = self.members.remove(&pid) else { return };
        self.family.remove(pid);
        if let Some(stat) = &dead {
            member.parent = stat.parent;
            member.last = dead;
        } else if let Some(last) = &member.last {
            member.parent = last.parent;
        }
        self.endings.push(Ending { pid, member, at_ns, status, used });
    }

    /// Members have waited for children that nobody has told us of: at least one each. Where a known child has ended
    /// too, it takes more faults than that one was seen to have, and a number that came and went.
    fn count_unheard(&mut self, unheard: &[Unheard]) {
        for grown in unheard {
            let children = || self.endings.iter().filter(|ending| ending.member.parent == grown.parent);
            let known: u64 = children()
                .filter_map(|child| child.member.last.as_ref())
                .map(|last| last.minor_faults + last.children_minor_faults)
                .sum();
            let explained = children().next().is_some();
            if explained && (grown.faults < known + FORK_FAULTS || !self.births.some_vanished()) {
                continue;
            }
            let Some(member) = self.members.get_mut(&grown.parent) else { continue };
            if std::mem::take(&mut member.unreaped) == 0 {
                self.short_lived += 1;
                // With a known child its CPU cannot be told apart from that child's.
                let cpu_s = if explained { 0.0 } else { grown.ticks as f64 / self.ticks_per_second };
                self.short_lived_cpu_s += cpu_s;
                self.ended_cpu_s += cpu_s;
            }
        }
    }

    /// A newborn that has waited for children already, without our having been told of them.
    fn count_unheard_of_newborn(&mut self, pid: Pid) {
        let Some(stat) = self.members.get(&pid).and_then(|member| member.last.as_ref()) else { return };
        if !self.births.hears_all() && stat.children_minor_faults > 0 {
            let cpu_s = children_ticks(stat) as f64 / self.ticks_per_second;
            self.short_lived += 1;
            self.short_lived_cpu_s += cpu_s;
            self.ended_cpu_s += cpu_s;
        }
    }

    fn close_accounts(&mut self, time_ns: i64, ops: &mut Vec<Op>) {
        self.infer_from_parents();
        let keeper = self.keeper;
        let members = &self.members;
        let waits_for_keeper = |ending: &Ending| {
            let unknown = ending.used.is_none_or(|used| used.source != "wait");
            let by_keeper =
                Some(ending.member.parent) == keeper || !members.contains_key(&ending.member.parent);
            keeper.is_some() && unknown && by_keeper && time_ns - ending.at_ns < KEEPER_PATIENCE_NS
        };
        let (waiting, closing): (Vec<_>, Vec<_>) = self.endings.drain(..).partition(waits_for_keeper);
        self.endings = waiting;
        for ending in closing {
            self.close(&ending, time_ns, ops);
        }
    }

    /// Closes all accounts with what is known, at the end of the recording.
    pub(crate) fn close_all(&mut self, time_ns: i64, ops: &mut Vec<Op>) {
        self.refresh_commands(time_ns, ops);
        for ending in std::mem::take(&mut self.endings) {
            self.close(&ending, time_ns, ops);
        }
    }

    fn close(&mut self, ending: &Ending, time_ns: i64, ops: &mut Vec<Op>) {
        let member = &ending.member;
        let used = ending.used.or_else(|| member.last.as_ref().map(|last| Used::exact(last, "sample")));
        let seconds = |ticks: u64| ticks as f64 / self.ticks_per_second;
        let cpu_s = used.map_or(0.0, |used| seconds(used.user + used.system));
        self.ended_cpu_s += cpu_s;
        if member.samples == 0 {
            self.short_lived += 1;
            self.short_lived_cpu_s += cpu_s;
        } else if let Some(used) = used {
            // The last sample of a process says what it used in all; it has no memory any more.
            let (user_s, system_s) = (Some(seconds(used.user)), Some(seconds(used.system)));
            ops.push(Op::Samples(vec![Sample {
                time_ns,
                process: member.id,
                user_s,
                system_s,
                ..Sample::default()
            }]));
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
        child.used = Some(Used { user, system, source: "parent" });
    }
    exact
}

fn children_ticks(stat: &Stat) -> u64 {
    stat.children_user_ticks + stat.children_system_ticks
}
