//! The state of a monitor's thread: the list of processes, and whose turn it is.

use super::member::{self, Member};
use super::purse::{Purse, Work};
use super::snapshot::{Cost, Snapshot, Taken};
use super::{Candidate, Options, Place, Role, Selects, reading};
use crate::cpu;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};
use unbloat_process::watch::{ProcFs, allow_many_files, booted_unix_s, ticks_per_second};
use unbloat_process::{Pid, Stat, cgroup, status};

/// Longest time after which a process that was not selected is looked at again: it may have become another program, or
/// its number another's.
const AGAIN: Duration = Duration::from_secs(30);

/// Time over which the monitor's own CPU is averaged, and the least that makes an average.
const AVERAGE: Duration = Duration::from_secs(60);
const LEAST_AVERAGE: Duration = Duration::from_secs(5);

/// Most ancestors of this process that are told from targets.
const MOST_ANCESTORS: usize = 64;

pub(super) struct Watching {
    selects: Selects,
    options: Options,
    proc: ProcFs,
    members: BTreeMap<Pid, Member>,
    /// Processes that were not selected, and the time of the next look at each.
    others: HashMap<Pid, Instant>,
    ancestors: Vec<Pid>,
    purse: Purse,
    booted_unix_s: f64,
    ticks_per_second: f64,
    buffer: Vec<u8>,
    listed: Option<(Instant, SystemTime)>,
    problem: Option<String>,
    /// Time up to which the purse has been paid, and the CPU of everything but readings by then.
    paid: (Instant, f64),
    /// CPU of all readings so far, in seconds.
    readings_s: f64,
    /// CPU of this process over the last minute.
    history: VecDeque<(Instant, f64)>,
}

impl Watching {
    pub(super) fn new(selects: Selects, options: Options) -> Self {
        allow_many_files();
        let proc = ProcFs::default();
        Watching {
            selects,
            options,
            members: BTreeMap::new(),
            others: HashMap::new(),
            ancestors: ancestors(&proc),
            purse: Purse::new(options.budget),
            booted_unix_s: booted_unix_s(),
            ticks_per_second: ticks_per_second(),
            buffer: Vec::with_capacity(4096),
            listed: None,
            problem: None,
            paid: (Instant::now(), cpu::of_process()),
            readings_s: 0.0,
            history: VecDeque::new(),
            proc,
        }
    }

    /// Lists the processes if that is due, and takes affordable readings for about this time. Returns the latest readings,
    /// if there are new ones.
    pub(super) fn step(&mut self, time: Duration) -> Option<Snapshot> {
        let begun = Instant::now();
        let mut changed = self.listed.is_none_or(|(at, _)| begun - at >= self.options.interval);
        if changed {
            self.list(begun);
        }
        self.pay();
        // At least one of each kind, so that an interval of any length makes progress.
        while self.read_one(Work::Pss) | self.read_one(Work::Census) {
            changed = true;
            if begun.elapsed() >= time {
                break;
            }
            self.pay();
        }
        changed.then(|| self.snapshot())
    }

    fn list(&mut self, now: Instant) {
        self.listed = Some((now, SystemTime::now()));
        let pids: BTreeSet<Pid> = match self.proc.pids() {
            Ok(pids) => pids.into_iter().collect(),
            Err(error) => {
                self.problem = Some(format!("cannot list the processes: {error}"));
                return;
            }
        };
        self.problem = None;
        self.members.retain(|pid, member| pids.contains(pid) && refresh(member, &mut self.buffer));
        self.others.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            let waits = self.others.get(&pid).is_some_and(|&next| now < next);
            if !waits && !self.members.contains_key(&pid) {
                self.consider(pid, now);
            }
        }
    }

    /// Decides on a process that is not watched.
    fn consider(&mut self, pid: Pid, now: Instant) {
        let Ok(stat) = self.proc.stat(pid) else { return };
        let started = self.booted_unix_s + stat.start_ticks as f64 / self.ticks_per_second;
        if member::is_candidate(pid, &stat)
            && (self.members.contains_key(&stat.parent) || self.selected(&stat))
        {
            self.others.remove(&pid);
            let mut member = Member::new(&self.proc, &stat, started, now);
            member.seen.number = self.free_number(&member.seen.role, &member.seen.place);
            self.members.insert(pid, member);
        } else {
            // A young process may be about to become another program.
            let unix_s = SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |time| time.as_secs_f64());
            let age = Duration::try_from_secs_f64(unix_s - started).unwrap_or_default();
            self.others.insert(pid, now + age.min(AGAIN));
        }
    }

    fn selected(&self, stat: &Stat) -> bool {
        let Ok(command) = status::command(stat.pid) else { return false };
        let (program, cgroup) = (status::program(stat.pid), cgroup::name_of(stat.pid));
        (self.selects)(&Candidate {
            pid: stat.pid,
            name: &stat.name,
            command: command.raw(),
            program: program.as_deref(),
            cgroup: cgroup.as_deref(),
            is_ancestor: self.ancestors.contains(&stat.pid),
        })
    }

    fn free_number(&self, role: &Role, place: &Place) -> u32 {
        let alike =
            self.members.values().map(|member| &member.seen).filter(|seen| {
                (&seen.role.name, seen.role.role, &seen.place) == (&role.name, role.role, place)
            });
        member::number(role, &alike.map(|seen| seen.number).collect())
    }

    /// Pays in for the time since the last payment.
    fn pay(&mut self) {
        let (now, cpu_s) = (Instant::now(), cpu::of_process());
        let (before, other_before_s) = self.paid;
        let other_s = cpu_s - self.readings_s;
        self.paid = (now, other_s);
        let expected = [Work::Pss, Work::Census]
            .map(|work| self.next(work, now).map_or(0.0, |member| member.expected_s(work)));
        self.purse.pass((now - before).as_secs_f64(), other_s - other_before_s, expected);
        self.history.push_back((now, cpu_s));
        while self.history.front().is_some_and(|&(at, _)| now - at > AVERAGE) {
            self.history.pop_front();
        }
    }

    fn next(&self, work: Work, now: Instant) -> Option<&Member> {
        let interval = match work {
            Work::Pss => self.options.pss_interval,
            Work::Census => self.options.look_interval,
        };
        member::next(self.members.values(), work, interval, now)
    }

    /// Takes the most overdue reading of a kind, if the budget allows it. Returns whether it did.
    fn read_one(&mut self, work: Work) -> bool {
        let now = Instant::now();
        let next = self.next(work, now).filter(|next| self.purse.affords(work, next.expected_s(work)));
        let Some(pid) = next.map(|next| next.seen.id.pid) else { return false };
        let cpu_s = cpu::of_thread();
        self.rename(pid);
        let parent = self.members.get(&pid).map(|member| member.seen.parent);
        let parent = parent.filter(|parent| self.members.contains_key(parent));
        let Some(member) = self.members.get_mut(&pid) else { return false };
        // The code of a failure is kept in the member; one that has ended leaves the list with the next one.
        let _ = match work {
            Work::Pss => reading::memory(member, &mut self.buffer),
            Work::Census => reading::look(member, parent),
        };
        let cost_s = cpu::of_thread() - cpu_s;
        member.taken(work, Instant::now(), cost_s);
        self.purse.spend(work, cost_s);
        self.readings_s += cost_s;
        true
    }

    /// Reads the title of a process, and gives it another number if its role has changed.
    fn rename(&mut self, pid: Pid) {
        let Some(member) = self.members.get_mut(&pid) else { return };
        let program =
            status::name(pid).map_or_else(|_| member.seen.role.name.clone(), |name| name.raw().to_owned());
        if member.name(&program) {
            let (role, place) = (member.seen.role.clone(), member.seen.place.clone());
            // Its own old number is free for itself.
            member.seen.number = u32::MAX;
            let number = self.free_number(&role, &place);
            if let Some(member) = self.members.get_mut(&pid) {
                member.seen.number = number;
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        let used = || {
            let (&(from, before), &(to, after)) = (self.history.front()?, self.history.back()?);
            (to - from >= LEAST_AVERAGE).then(|| (after - before) / (to - from).as_secs_f64())
        };
        Snapshot {
            processes: self.members.values().map(|member| (member.seen.id, member.seen.clone())).collect(),
            listed: self.listed.map(|(_, at)| at),
            problem: self.problem.clone(),
            cost: Cost { budget: self.options.budget, used: used() },
        }
    }
}

/// Reads a member's RSS and parent. Returns whether it still exists.
fn refresh(member: &mut Member, buffer: &mut Vec<u8>) -> bool {
    let at = SystemTime::now();
    match member.watched.stat(buffer) {
        Ok(stat) if stat.start_ticks == member.seen.id.start_ticks && !stat.is_dead() => {
            member.seen.parent = stat.parent;
            member.seen.rss_bytes = Taken { at, value: stat.rss_bytes };
            true
        }
        _ => false,
    }
}

/// Returns the parents of this process, the nearest first.
fn ancestors(proc: &ProcFs) -> Vec<Pid> {
    let parent = |pid: &Pid| proc.stat(*pid).ok().map(|stat| stat.parent).filter(|parent| parent.0 > 0);
    std::iter::successors(parent(&Pid::this()), parent).take(MOST_ANCESTORS).collect()
}
