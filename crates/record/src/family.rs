//! Who belongs to the tree: the one place that decides it, owned by whoever learns of births (see [`crate::births`]).
//!
//! A pid alone names nobody, because the kernel gives it out again. A process is its pid *and* its start time, so a
//! member that is told of and found, in whatever order, is reported once.

use std::collections::HashMap;
use unbloat_process::Pid;
use unbloat_process::events::{Event, shell_status};
use unbloat_process::stat::Stat;
use unbloat_process::watch::ProcFs;
use unbloat_untrusted::Untrusted;

/// Something that happened in the tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    Born {
        pid: Pid,
        parent: Pid,
        /// `CLOCK_MONOTONIC`; `None`: some time since the last look.
        at_ns: Option<i64>,
        /// Read at once; `None`: it had ended already.
        stat: Option<Stat>,
    },
    Command {
        pid: Pid,
        command: Untrusted,
    },
    Ended {
        pid: Pid,
        /// `CLOCK_MONOTONIC`; `None`: some time since the last look.
        at_ns: Option<i64>,
        status: Option<i64>,
        /// Read while it waited for its parent.
        stat: Option<Stat>,
    },
}

/// What to do about a process that has ended, waits for its parent, and is no member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dead {
    /// It was never seen alive: it counts.
    Count,
    /// The kernel tells of births and ends, and has told of these.
    Skip,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    /// In clock ticks since boot; `None`: it had ended before it could be read.
    start_ticks: Option<u64>,
    /// It has ended and waits for its parent, so that it can still be found.
    ended: bool,
    /// Its first thread has ended, others go on.
    headless: bool,
}

impl Known {
    fn new(stat: Option<&Stat>) -> Self {
        Known { start_ticks: stat.map(|stat| stat.start_ticks), ended: false, headless: false }
    }

    fn is(&self, stat: &Stat) -> bool {
        self.start_ticks == Some(stat.start_ticks)
    }
}

/// What a look at one pid gives.
enum Newcomer {
    Ours(Stat),
    /// Perhaps a child of a newcomer that is looked at later.
    Unknown,
    /// A member, or none of ours.
    Other,
    Gone,
}

#[derive(Debug)]
pub(crate) struct Family {
    proc: ProcFs,
    /// Our own process above the tree, parent of its orphans.
    keeper: Option<Pid>,
    members: HashMap<Pid, Known>,
    /// Members that began a session, and when they started. Who is in such a session belongs to the tree, whoever its
    /// parent is now.
    sessions: HashMap<Pid, u64>,
    /// Members whose first thread was told to have ended, while they had others.
    headless: Vec<Pid>,
}

impl Family {
    pub(crate) fn new(proc: ProcFs, keeper: Option<Pid>) -> Self {
        Family { proc, keeper, members: HashMap::new(), sessions: HashMap::new(), headless: Vec::new() }
    }

    /// A process that belongs to the tree because that was said.
    pub(crate) fn adopt(&mut self, pid: Pid) -> Option<Change> {
        let stat = self.proc.stat(pid).ok()?;
        (!self.knows(&stat)).then(|| self.take_in(stat))
    }

    /// A child of the keeper that may have ended before anybody looked.
    pub(crate) fn told(&mut self, pid: Pid) -> Option<Change> {
        if self.members.contains_key(&pid) {
            return None;
        }
        self.adopt(pid).or_else(|| {
            self.members.insert(pid, Known { ended: true, ..Known::new(None) });
            Some(Change::Born { pid, parent: self.keeper?, at_ns: None, stat: None })
        })
    }

    /// Whether a member has or had this pid, as far as that is still remembered.
    pub(crate) fn has(&self, pid: Pid) -> bool {
        self.members.contains_key(&pid)
    }

    /// A member leads a session.
    pub(crate) fn leads_session(&mut self, stat: &Stat) {
        self.sessions.insert(stat.pid, stat.start_ticks);
    }

    /// A member was seen to have ended. One that `waits` for its parent can still be found.
    pub(crate) fn ended(&mut self, pid: Pid, start_ticks: Option<u64>, waits: bool) {
        if let Some(known) = self.members.get_mut(&pid).filter(|known| known.start_ticks == start_ticks) {
            known.ended = true;
            if !waits {
                self.members.remove(&pid);
            }
        }
    }

    /// Everybody among the candidates who belongs to the tree and is no member yet, and the number of candidates that
    /// do not exist (any more).
    pub(crate) fn look_around(&mut self, mut candidates: Vec<Pid>, dead: Dead) -> (Vec<Change>, usize) {
        let proc = &self.proc;
        self.members.retain(|&pid, known| !known.ended || proc.stat(pid).is_ok_and(|stat| known.is(&stat)));
        let (mut born, mut vanished) = (Vec::new(), 0);
        // A parent may come after its child in the numbering, which starts again at its end: until nobody new is found.
        loop {
            let known = born.len();
            candidates.retain(|&pid| match self.newcomer(pid, dead) {
                Newcomer::Ours(stat) => {
                    born.push(self.take_in(stat));
                    false
                }
                Newcomer::Unknown => true,
                Newcomer::Other => false,
                Newcomer::Gone => {
                    vanished += 1;
                    false
                }
            });
            if born.len() == known {
                return (born, vanished);
            }
        }
    }

    /// Members that are gone although nobody has told of their end.
    pub(crate) fn missing(&self) -> Vec<(Pid, Option<u64>)> {
        let gone = |pid: Pid, known: &Known| {
            !self.proc.stat(pid).is_ok_and(|stat| known.is(&stat) && !stat.is_dead())
        };
        let missing = self.members.iter().filter(|&(&pid, known)| gone(pid, known));
        missing.map(|(&pid, known)| (pid, known.start_ticks)).collect()
    }

    /// Those of the missing whose end has not been told meanwhile: it never will be.
    pub(crate) fn give_up(&mut self, missing: Vec<(Pid, Option<u64>)>) -> Vec<Change> {
        let mut ended = Vec::new();
        for (pid, start_ticks) in missing {
            if self.members.get(&pid).is_some_and(|known| known.start_ticks == start_ticks) {
                self.members.remove(&pid);
                ended.push(Change::Ended { pid, at_ns: None, status: None, stat: None });
            }
        }
        ended
    }

    /// The kernel's word.
    pub(crate) fn hear(&mut self, event: Event) -> Option<Change> {
        match event {
            Event::Fork { parent, child, at_ns } => {
                self.is_ours(parent).then_some(())?;
                let stat = self.proc.stat(child).ok();
                if let Some(known) = self.members.get(&child)
                    && stat.as_ref().is_none_or(|stat| known.is(stat))
                {
                    // Found by looking around, and then told of.
                    return None;
                }
                self.members.insert(child, Known::new(stat.as_ref()));
                Some(Change::Born { pid: child, parent, at_ns: Some(at_ns), stat })
            }
            Event::Exec { pid } => {
                // Whichever thread calls execve, it goes on as the first one.
                self.members.get_mut(&pid)?.headless = false;
                Some(Change::Command { pid, command: self.proc.command(pid)? })
            }
            Event::Session { pid } => {
                self.members.get(&pid)?;
                let stat = self.proc.stat(pid).ok()?;
                self.leads_session(&stat);
                None
            }
            Event::Exit { pid, status, at_ns } => {
                let known = self.members.get_mut(&pid)?;
                let stat = self.proc.stat(pid).ok().filter(|stat| known.is(stat));
                known.headless = stat.as_ref().is_some_and(|stat| !stat.is_dead());
                if known.headless {
                    self.headless.push(pid);
                    return None;
                }
                self.members.remove(&pid);
                Some(Change::Ended { pid, at_ns: Some(at_ns), status: Some(shell_status(status)), stat })
            }
        }
    }

    /// Whether a member goes on without its first thread. Of its end the kernel does not tell.
    pub(crate) fn has_headless(&self) -> bool {
        !self.headless.is_empty()
    }

    /// Those that went on without their first thread, and have ended. Their status is their parent's to know.
    pub(crate) fn headless_ended(&mut self) -> Vec<Change> {
        let Family { proc, members, headless, .. } = self;
        let mut ended = Vec::new();
        headless.retain(|&pid| {
            let Some(known) = members.get(&pid).copied().filter(|known| known.headless) else { return false };
            let stat = proc.stat(pid).ok().filter(|stat| known.is(stat));
            let lives = stat.as_ref().is_some_and(|stat| !stat.is_dead());
            if !lives {
                members.remove(&pid);
                ended.push(Change::Ended { pid, at_ns: None, status: None, stat });
            }
            lives
        });
        ended
    }

    fn newcomer(&self, pid: Pid, dead: Dead) -> Newcomer {
        let Ok(stat) = self.proc.stat(pid) else { return Newcomer::Gone };
        if self.knows(&stat) || Some(pid) == self.keeper || (stat.is_dead() && dead == Dead::Skip) {
            return Newcomer::Other;
        }
        if !self.is_alive(stat.parent) && !self.is_in_our_session(&stat) {
            return Newcomer::Unknown;
        }
        // The numbers of threads can be looked at like those of processes.
        if self.proc.leader(pid) != Some(pid) {
            return Newcomer::Other;
        }
        Newcomer::Ours(stat)
    }

    fn take_in(&mut self, stat: Stat) -> Change {
        self.members.insert(stat.pid, Known::new(Some(&stat)));
        if stat.session == stat.pid.0 {
            self.leads_session(&stat);
        }
        Change::Born { pid: stat.pid, parent: stat.parent, at_ns: None, stat: Some(stat) }
    }

    fn knows(&self, stat: &Stat) -> bool {
        self.members.get(&stat.pid).is_some_and(|known| known.is(stat))
    }

    fn is_ours(&self, pid: Pid) -> bool {
        self.members.contains_key(&pid) || self.keeper == Some(pid)
    }

    /// Whether this pid is still the member's that had it.
    fn is_alive(&self, pid: Pid) -> bool {
        Some(pid) == self.keeper
            || self.members.contains_key(&pid) && self.proc.stat(pid).is_ok_and(|stat| self.knows(&stat))
    }

    fn is_in_our_session(&self, stat: &Stat) -> bool {
        let leader = Pid(stat.session);
        let Some(&start_ticks) = self.sessions.get(&leader) else { return false };
        // The number is not given out again as long as the session exists; afterwards somebody else may have it.
        self.proc.stat(leader).map_or(true, |leader| leader.start_ticks == start_ticks)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A made-up `/proc` of processes.
    struct World(tempfile::TempDir);

    impl World {
        fn new() -> Self {
            World(tempfile::tempdir().unwrap())
        }

        fn has(&self, pid: i32, parent: i32, state: char, start: u64) -> &Self {
            let directory = self.path().join(pid.to_string());
            fs::create_dir_all(&directory).unwrap();
            let stat =
                format!("{pid} (x) {state} {parent} {pid} 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 {start} 0 10\n");
            fs::write(directory.join("stat"), stat).unwrap();
            fs::write(directory.join("status"), format!("Tgid:\t{pid}\n")).unwrap();
            self
        }

        fn loses(&self, pid: i32) {
            fs::remove_dir_all(self.path().join(pid.to_string())).unwrap();
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        /// Below a keeper with the pid 10.
        fn family(&self) -> Family {
            Family::new(ProcFs::at(self.path()), Some(Pid(10)))
        }
    }

    fn fork(parent: i32, child: i32) -> Event {
        Event::Fork { parent: Pid(parent), child: Pid(child), at_ns: 5 }
    }

    fn exit(pid: i32) -> Event {
        Event::Exit { pid: Pid(pid), status: 0, at_ns: 6 }
    }

    fn born(changes: &[Change]) -> Vec<i32> {
        changes
            .iter()
            .filter_map(|c| if let Change::Born { pid, .. } = c { Some(pid.0) } else { None })
            .collect()
    }

    #[test]
    fn who_is_found_and_then_told_of_is_born_once() {
        let world = World::new();
        world.has(20, 10, 'S', 1).has(21, 20, 'S', 2).has(99, 1, 'S', 0);
        let mut family = world.family();
        let (found, gone) = family.look_around(vec![Pid(21), Pid(20), Pid(99), Pid(50)], Dead::Skip);
        assert_eq!((born(&found), gone), (vec![20, 21], 1));
        assert_eq!(family.hear(fork(10, 20)), None);
        // It has ended and is gone before its birth is told: that is still no second one.
        world.loses(21);
        assert_eq!(family.hear(fork(20, 21)), None);
        assert!(matches!(family.hear(exit(21)), Some(Change::Ended { pid: Pid(21), .. })));
        assert_eq!(family.hear(exit(21)), None);
    }

    #[test]
    fn who_was_told_of_is_not_found_again_while_it_waits_for_its_parent() {
        let world = World::new();
        world.has(20, 10, 'S', 1);
        let mut family = world.family();
        assert!(family.hear(fork(10, 20)).is_some());
        world.has(20, 10, 'Z', 1);
        assert!(family.hear(exit(20)).is_some());
        assert_eq!(family.look_around(vec![Pid(20)], Dead::Skip).0, []);
        // The same where nobody tells.
        let mut family = world.family();
        assert_eq!(born(&family.look_around(vec![Pid(20)], Dead::Count).0), [20]);
        family.ended(Pid(20), Some(1), true);
        assert_eq!(family.look_around(vec![Pid(20)], Dead::Count).0, []);
    }

    #[test]
    fn a_number_that_is_given_out_again_names_another_process() {
        let world = World::new();
        world.has(20, 10, 'S', 1);
        let mut family = world.family();
        assert!(family.adopt(Pid(20)).is_some() && family.adopt(Pid(20)).is_none());
        world.has(20, 10, 'S', 7);
        assert_eq!(born(&family.look_around(vec![Pid(20)], Dead::Count).0), [20]);
        family.ended(Pid(20), Some(1), false);
        assert!(family.is_alive(Pid(20)), "the end of the first is not that of the second");
        // Now somebody else has it, with a child.
        world.has(20, 1, 'S', 9).has(21, 20, 'S', 9);
        assert_eq!(family.look_around(vec![Pid(21), Pid(20)], Dead::Count).0, []);
    }

    #[test]
    fn a_process_outlives_its_first_thread_and_execve_by_another() {
        let world = World::new();
        world.has(20, 10, 'S', 1);
        let mut family = world.family();
        family.hear(fork(10, 20));
        // Another thread calls execve: the first one ends, the process goes on.
        assert_eq!(family.hear(exit(20)), None);
        family.hear(Event::Exec { pid: Pid(20) });
        assert_eq!(family.headless_ended(), []);
        assert!(!family.has_headless());
        // The first thread ends by itself, and later the last one.
        assert_eq!(family.hear(exit(20)), None);
        assert_eq!(family.headless_ended(), []);
        world.loses(20);
        assert!(matches!(family.headless_ended()[..], [Change::Ended { status: None, .. }]));
        assert!(!family.has_headless() && !family.has(Pid(20)));
    }

    #[test]
    fn after_a_loss_the_missing_are_given_up_unless_their_end_is_told() {
        let world = World::new();
        world.has(20, 10, 'S', 1).has(21, 10, 'S', 1);
        let mut family = world.family();
        assert!(family.hear(fork(10, 20)).is_some() && family.hear(fork(10, 21)).is_some());
        world.loses(20);
        world.loses(21);
        let missing = family.missing();
        assert_eq!(missing.len(), 2);
        assert!(family.hear(exit(20)).is_some());
        assert!(matches!(family.give_up(missing)[..], [Change::Ended { pid: Pid(21), .. }]));
    }
}
