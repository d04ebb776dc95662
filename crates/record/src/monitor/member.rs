//! A watched process between two readings.

use super::purse::Work;
use super::snapshot::{Identity, Seen, Taken};
use super::{Place, Role};
use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};
use unbloat_process::watch::{ProcFs, Watched};
use unbloat_process::{Pid, Stat, cgroup, status};

/// A process, its open files, and the account of its readings.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) seen: Seen,
    pub(super) watched: Watched,
    pss: Turn,
    census: Turn,
}

/// The account of one kind of reading.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// The time of the last reading; of the first sight before there is one.
    since: Instant,
    taken: bool,
    /// CPU seconds of the last reading, and the resident bytes at that time.
    cost: (f64, u64),
}

/// Approximate cost of a reading by the resident bytes, in CPU seconds per GiB, and in any case.
const A_GIB: [f64; 2] = [0.02, 0.4];
const AT_LEAST: [f64; 2] = [0.0002, 0.01];

impl Member {
    /// Starts to watch a process.
    pub(super) fn new(proc: &ProcFs, stat: &Stat, started_unix_s: f64, now: Instant) -> Self {
        let pid = stat.pid;
        let turn = Turn { since: now, taken: false, cost: (0.0, 0) };
        let mut member = Member {
            seen: Seen {
                id: Identity { pid, start_ticks: stat.start_ticks },
                parent: stat.parent,
                command: stat.name.as_str().into(),
                role: Role::default(),
                number: 0,
                place: cgroup::name_of(pid).map(|name| Place::of(&name)).unwrap_or_default(),
                started_unix_s,
                rss_bytes: Taken { at: SystemTime::now(), value: stat.rss_bytes },
                memory: None,
                look: None,
                unread: BTreeSet::new(),
            },
            watched: proc.watch(pid, true),
            pss: turn,
            census: turn,
        };
        member.name(&stat.name);
        member
    }

    /// Reads the title, which servers change as they start. Returns whether its role is another now.
    pub(super) fn name(&mut self, program: &str) -> bool {
        if let Ok(command) = status::command(self.seen.id.pid) {
            self.seen.command = command;
        }
        let role = Role::of(self.seen.command.raw().trim_start_matches('['), program);
        let changed = role != self.seen.role;
        self.seen.role = role;
        changed
    }

    /// Returns the expected cost of its next reading in CPU seconds.
    pub(super) fn expected_s(&self, work: Work) -> f64 {
        let ((cost, read), kind) = (self.turn(work).cost, kind(work));
        let more = self.seen.rss_bytes.value.saturating_sub(read) as f64 / f64::from(1 << 30);
        cost.max(AT_LEAST[kind]) + more * A_GIB[kind]
    }

    /// Returns how long it has waited for a reading, in intervals; `None` if it is not due.
    pub(super) fn waited(&self, work: Work, interval: Duration, now: Instant) -> Option<f64> {
        let turn = self.turn(work);
        let intervals = now.saturating_duration_since(turn.since).as_secs_f64() / interval.as_secs_f64();
        let waited = if turn.taken { intervals } else { intervals + 1.0 };
        (waited >= 1.0).then_some(waited)
    }

    /// Notes that a reading was taken.
    pub(super) fn taken(&mut self, work: Work, now: Instant, cost_s: f64) {
        let turn = Turn { since: now, taken: true, cost: (cost_s, self.seen.rss_bytes.value) };
        match work {
            Work::Pss => self.pss = turn,
            Work::Census => self.census = turn,
        }
    }

    fn turn(&self, work: Work) -> &Turn {
        match work {
            Work::Pss => &self.pss,
            Work::Census => &self.census,
        }
    }
}

/// Returns the process whose reading is the most overdue; the smaller PID first.
pub(super) fn next<'a>(
    members: impl Iterator<Item = &'a Member>,
    work: Work,
    interval: Duration,
    now: Instant,
) -> Option<&'a Member> {
    let due = members.filter_map(|member| Some((member.waited(work, interval, now)?, member)));
    due.reduce(|first, other| if other.0 > first.0 { other } else { first }).map(|(_, member)| member)
}

fn kind(work: Work) -> usize {
    match work {
        Work::Pss => 0,
        Work::Census => 1,
    }
}

/// Gives numbers to processes that have none yet. `taken` tells the numbers in use among those with the same name, role and
/// place.
pub(super) fn number(role: &Role, taken: &BTreeSet<u32>) -> u32 {
    let own = role.index.filter(|index| !taken.contains(index));
    own.unwrap_or_else(|| (0..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX))
}

/// Returns whether a process may belong to those that are watched: not this one, and not a kernel thread.
pub(super) fn is_candidate(pid: Pid, stat: &Stat) -> bool {
    const KERNEL_THREADS: Pid = Pid(2);
    pid != Pid::this() && !stat.is_dead() && stat.parent != KERNEL_THREADS && pid != KERNEL_THREADS
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn this() -> Member {
        let proc = ProcFs::default();
        Member::new(&proc, &proc.stat(Pid::this()).unwrap(), 0.0, Instant::now())
    }

    #[test]
    fn the_one_that_has_waited_longest_is_next() {
        let (mut read, fresh) = (this(), this());
        let now = Instant::now();
        let minute = Duration::from_secs(60);
        read.taken(Work::Census, now, 0.5);
        assert_eq!(read.waited(Work::Census, minute, now + minute / 2), None);
        assert!(read.waited(Work::Pss, minute, now).is_some(), "each kind has its own turn");
        assert_eq!(next([&read].into_iter(), Work::Census, minute, now).map(|_| ()), None);
        let both = [&read, &fresh];
        assert!(std::ptr::eq(next(both.into_iter(), Work::Census, minute, now + minute).unwrap(), &fresh));
    }

    #[test]
    fn a_reading_costs_what_it_did_and_more_for_what_has_grown() {
        let mut member = this();
        member.seen.rss_bytes.value = 1 << 30;
        assert!((member.expected_s(Work::Census) - 0.41).abs() < 1e-9);
        member.taken(Work::Census, Instant::now(), 0.2);
        assert_eq!(member.expected_s(Work::Census), 0.2);
        member.seen.rss_bytes.value = 3 << 30;
        assert!((member.expected_s(Work::Census) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_the_servers_own_or_the_smallest_free() {
        let role = |index| Role { index, ..Role::default() };
        let taken = BTreeSet::from([0, 1, 3]);
        assert_eq!(number(&role(None), &taken), 2);
        assert_eq!(number(&role(Some(7)), &taken), 7);
        assert_eq!(number(&role(Some(1)), &taken), 2, "an old worker of that number is still ending");
    }
}
