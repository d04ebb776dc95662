//! Decides which processes belong to the recorded tree. It has one owner, which follows births (see
//! [`crate::births`]).
//!
//! The kernel reuses PIDs, so a process is identified by its PID *and* its start time. A member that is both
//! reported and found by a scan, in either order, is reported once.

use std::collections::HashMap;
use unbloat_process::Pid;
use unbloat_process::events::{Event, shell_status};
use unbloat_process::stat::Stat;
use unbloat_process::watch::ProcFs;
use unbloat_untrusted::Untrusted;

/// A change in the tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    Born {
        pid: Pid,
        parent: Pid,
        /// `CLOCK_MONOTONIC`; `None`: some time since the last look.
        at_ns: Option<i64>,
        /// Read at once; `None` if it had already ended.
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

/// The treatment of a zombie that is not a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dead {
    /// Count it: it was never seen alive.
    Count,
    /// Skip it: the kernel reports births and ends, and has reported these.
    Skip,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    /// In clock ticks since boot; `None` if it had ended before it could be read.
    start_ticks: Option<u64>,
    /// It has ended and waits for its parent, so it can still be found.
    ended: bool,
    /// Its first thread has ended, but others continue.
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

/// The result of examining one PID.
enum Newcomer {
    Ours(Stat),
    /// Possibly a child of a newcomer that is examined later.
    Unknown,
    /// Already a member, or unrelated.
    Other,
    Gone,
}

#[derive(Debug)]
pub(crate) struct Membership {
    proc: ProcFs,
    /// Our own process above the tree, parent of its orphans.
    keeper: Option<Pid>,
    members: HashMap<Pid, Known>,
    /// Members that started a session, with their start times. Every process in such a session belongs to the
    /// tree, whatever its current parent.
    sessions: HashMap<Pid, u64>,
    /// Members whose first thread ended while others continue.
    headless: Vec<Pid>,
}

impl Membership {
    pub(crate) fn new(proc: ProcFs, keeper: Option<Pid>) -> Self {
        Membership { proc, keeper, members: HashMap::new(), sessions: HashMap::new(), headless: Vec::new() }
    }

    /// Adds a root.
    pub(crate) fn adopt(&mut self, pid: Pid) -> Option<Change> {
        let stat = self.proc.stat(pid).ok()?;
        (!self.knows(&stat)).then(|| self.take_in(stat))
    }

    /// Adds a child of the keeper, which may have ended before it was examined.
    pub(crate) fn started_by_keeper(&mut self, pid: Pid) -> Option<Change> {
        if self.members.contains_key(&pid) {
            return None;
        }
        self.adopt(pid).or_else(|| {
            self.members.insert(pid, Known { ended: true, ..Known::new(None) });
            Some(Change::Born { pid, parent: self.keeper?, at_ns: None, stat: None })
        })
    }

    /// Returns whether a member has or had this PID, as far as remembered.
    pub(crate) fn has(&self, pid: Pid) -> bool {
        self.members.contains_key(&pid)
    }

    /// Records that a member leads a session.
    pub(crate) fn leads_session(&mut self, stat: &Stat) {
        self.sessions.insert(stat.pid, stat.start_ticks);
    }

    /// Records that a member has ended. One that `waits` for its parent can still be found.
    pub(crate) fn ended(&mut self, pid: Pid, start_ticks: Option<u64>, waits: bool) {
        if let Some(known) = self.members.get_mut(&pid).filter(|known| known.start_ticks == start_ticks) {
            known.ended = true;
            if !waits {
                self.members.remove(&pid);
            }
        }
    }

    /// Returns all candidates that belong to the tree and are not members yet, and the number of candidates
    /// that do not exist (any more).
    pub(crate) fn scan(&mut self, mut candidates: Vec<Pid>, dead: Dead) -> (Vec<Change>, usize) {
        let proc = &self.proc;
        self.members.retain(|&pid, known| !known.ended || proc.stat(pid).is_ok_and(|stat| known.is(&stat)));
        let (mut born, mut vanished) = (Vec::new(), 0);
        // A parent's PID may be larger than its child's, since PIDs wrap around; repeat until nothing new is
        // found.
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

    /// Returns the members that are gone although their end was not reported.
    pub(crate) fn missing(&self) -> Vec<(Pid, Option<u64>)> {
        let gone = |pid: Pid, known: &Known| {
            !self.proc.stat(pid).is_ok_and(|stat| known.is(&stat) && !stat.is_dead())
        };
        let missing = self.members.iter().filter(|&(&pid, known)| gone(pid, known));
        missing.map(|(&pid, known)| (pid, known.start_ticks)).collect()
    }

    /// Gives up on those of the missing whose end still has not been reported: it never will be.
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

    /// Handles an event reported by the kernel.
    pub(crate) fn handle(&mut self, event: Event) -> Option<Change> {
        match event {
            Event::Fork { parent, child, at_ns } => {
                self.is_ours(parent).then_some(())?;
                let stat = self.proc.stat(child).ok();
                if let Some(known) = self.members.get(&child)
                    && stat.as_ref().is_none_or(|stat| known.is(stat))
                {
                    // Found by a scan, and reported afterwards.
                    return None;
                }
                self.members.insert(child, Known::new(stat.as_ref()));
                Some(Change::Born { pid: child, parent, at_ns: Some(at_ns), stat })
            }
            Event::Exec { pid } => {
                // Whichever thread calls execve, it continues as the first one.
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

    /// Returns whether a member continues without its first thread. The kernel does not report its end.
    pub(crate) fn has_headless(&self) -> bool {
        !self.headless.is_empty()
    }

    /// Returns members that continued without their first thread and have ended. Only their parent knows
    /// their status.
    pub(crate) fn headless_ended(&mut self) -> Vec<Change> {
        let Membership { proc, members, headless, .. } = self;
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
        // Thread IDs can be looked up like PIDs.
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

    /// Returns whether this PID still belongs to the member.
    fn is_alive(&self, pid: Pid) -> bool {
        Some(pid) == self.keeper
            || self.members.contains_key(&pid) && self.proc.stat(pid).is_ok_and(|stat| self.knows(&stat))
    }

    fn is_in_our_session(&self, stat: &Stat) -> bool {
        let leader = Pid(stat.session);
        let Some(&start_ticks) = self.sessions.get(&leader) else { return false };
        // The PID is not reused as long as the session exists; afterwards it may belong to another process.
        self.proc.stat(leader).map_or(true, |leader| leader.start_ticks == start_ticks)
    }
}

#[cfg(test)]
mod tests;
