//! Decides when a recording ends: with its tree, after its duration, or on request. A command that was
//! started for it is first asked to end, and killed after its grace period.

use super::options::Options;
use crate::tree::Tree;
use crate::{Error, Result};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::Signal;
use nix::sys::time::TimeSpec;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};
use unbloat_process::keeper::{Keeper, Report};
use unbloat_process::signal::Requests;
use unbloat_process::watch::ProcFs;
use unbloat_process::{Pid, Pinned, Stat};

/// The reason for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    TreeEnded,
    Duration,
    Asked,
    WriterFailed,
}

impl Reason {
    pub(super) fn text(self) -> &'static str {
        match self {
            Reason::TreeEnded => "the last process ended",
            Reason::Duration => "the duration was over",
            Reason::Asked => "it was asked to end",
            Reason::WriterFailed => "the file could not be written",
        }
    }
}

/// A command that has been asked to end.
#[derive(Debug, Clone, Copy)]
struct Stopping {
    reason: Reason,
    /// Time at which it will be killed; `None` once it was.
    kill_at: Option<Instant>,
}

/// Asks a process to end, if it is still the intended one. It is pinned first, so a process that gets its number
/// meanwhile receives no signal.
fn ask(pid: Pid, is_meant: impl Fn(&Stat) -> bool) {
    // A process that has ended meanwhile need not be asked.
    let Ok(pinned) = Pinned::open(pid) else { return };
    if ProcFs::default().stat(pid).is_ok_and(|stat| is_meant(&stat)) {
        let _ = pinned.send(Signal::SIGTERM);
    }
}

/// Supervises the end of a recording.
#[derive(Debug)]
pub(super) struct Supervision {
    /// Holds the started command; `None` when recording running processes.
    keeper: Option<Keeper>,
    requests: Requests,
    detach: bool,
    grace: Duration,
    end_at: Option<Instant>,
    root: Option<Pid>,
    root_status: Option<i64>,
    tree_is_empty: bool,
    stopping: Option<Stopping>,
}

impl Supervision {
    pub(super) fn new(keeper: Option<Keeper>, requests: Requests, options: &Options) -> Self {
        Supervision {
            keeper,
            requests,
            detach: options.detach,
            grace: options.grace,
            end_at: options.duration.map(|duration| Instant::now() + duration),
            root: None,
            root_status: None,
            tree_is_empty: false,
            stopping: None,
        }
    }

    pub(super) fn keeper_pid(&self) -> Option<Pid> {
        self.keeper.as_ref().map(Keeper::pid)
    }

    /// Returns whether there is a command that ends with the recording.
    pub(super) fn owns_command(&self) -> bool {
        self.keeper.is_some() && !self.detach
    }

    /// Returns the exit status of the command, once it has ended.
    pub(super) fn exit_status(&self) -> Option<i64> {
        self.root_status
    }

    /// Waits until this time, a report of the keeper, or a request to end.
    pub(super) fn wait(&self, until: Instant) {
        let kill_at = self.stopping.and_then(|stopping| stopping.kill_at);
        let until = kill_at.map_or(until, |kill_at| until.min(kill_at));
        let left = until.saturating_duration_since(Instant::now());
        let mut ready = vec![PollFd::new(self.requests.as_fd(), PollFlags::POLLIN)];
        ready.extend(self.keeper.iter().map(|keeper| PollFd::new(keeper.as_fd(), PollFlags::POLLIN)));
        // ppoll, because poll(2) counts milliseconds. Interruptions do not matter, since the caller checks
        // everything.
        let _ = ppoll(&mut ready, Some(TimeSpec::from_duration(left)), None);
    }

    /// Returns the keeper's reports since the last call.
    ///
    /// # Errors
    /// The command could not be started.
    pub(super) fn keeper_reports(&mut self) -> Result<Vec<Report>> {
        let Some(keeper) = self.keeper.as_mut().filter(|_| !self.tree_is_empty) else {
            return Ok(Vec::new());
        };
        let reports = keeper.reports().unwrap_or_else(|_| vec![Report::Empty]);
        for report in &reports {
            match *report {
                Report::NotStarted(errno) => {
                    return Err(Error::NotStarted(std::io::Error::from_raw_os_error(errno)));
                }
                Report::Started(pid) => {
                    self.root = Some(pid);
                    if self.stopping.is_some() {
                        // The request to end came before there was a process to ask.
                        let keeper = keeper.pid();
                        ask(pid, |stat| stat.parent == keeper);
                    }
                }
                Report::Ended(ref ended) if Some(ended.pid) == self.root => {
                    self.root_status = Some(ended.status);
                }
                Report::Ended(_) => {}
                Report::Empty => self.tree_is_empty = true,
            }
        }
        Ok(reports)
    }

    /// Returns the reason if the recording is over. A started command is first asked to end, and followed
    /// until it has.
    pub(super) fn end_reason(&mut self, tree: &Tree, now: Instant) -> Option<Reason> {
        self.handle_requests(tree, now).or_else(|| self.has_ended(tree, now))
    }

    fn handle_requests(&mut self, tree: &Tree, now: Instant) -> Option<Reason> {
        while let Some(request) = self.requests.next() {
            if !self.owns_command() {
                return Some(Reason::Asked);
            }
            if self.stopping.is_some() {
                // Second request.
                self.kill();
            } else if request.from_terminal && request.is_interrupt {
                // The terminal has signaled the command, too.
                self.stopping = Some(self.stop(Reason::Asked, now));
            } else {
                self.ask_to_end(Reason::Asked, tree, now);
            }
        }
        None
    }

    fn has_ended(&mut self, tree: &Tree, now: Instant) -> Option<Reason> {
        let ended = if self.keeper.is_some() { self.tree_is_empty } else { tree.is_empty() };
        if ended {
            return Some(self.stopping.map_or(Reason::TreeEnded, |stopping| stopping.reason));
        }
        let late = |stopping: Stopping| stopping.kill_at.is_some_and(|kill_at| now >= kill_at);
        // Leftovers of the command end with it if the recording was asked to end.
        if self.stopping.is_some_and(|stopping| late(stopping) || self.root_status.is_some()) {
            self.kill();
        }
        if self.end_at.is_some_and(|end_at| now >= end_at) {
            if !self.owns_command() {
                return Some(Reason::Duration);
            }
            self.ask_to_end(Reason::Duration, tree, now);
        }
        None
    }

    fn stop(&self, reason: Reason, now: Instant) -> Stopping {
        Stopping { reason, kill_at: Some(now + self.grace) }
    }

    /// Asks the command to end, or, if it has ended already, any processes it left behind.
    fn ask_to_end(&mut self, reason: Reason, tree: &Tree, now: Instant) {
        if self.stopping.is_some() {
            return;
        }
        self.stopping = Some(self.stop(reason, now));
        let root = self.root.filter(|root| tree.members.contains_key(root));
        for (&pid, member) in tree.members.iter().filter(|(pid, _)| root.is_none_or(|root| root == **pid)) {
            ask(pid, |stat| Some(stat.start_ticks) == member.start_ticks());
        }
    }

    fn kill(&mut self) {
        if let (Some(keeper), Some(stopping)) = (&self.keeper, &mut self.stopping)
            && stopping.kill_at.take().is_some()
        {
            keeper.kill();
        }
    }

    /// Releases the command at the end of the recording: with `detach` it keeps running, otherwise whatever
    /// is left of it is killed.
    pub(super) fn release(&mut self) {
        match self.keeper.take() {
            Some(keeper) if self.tree_is_empty => keeper.join(),
            Some(keeper) if self.detach => keeper.let_go(),
            // Dropping it kills whatever is left.
            Some(_) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    #[test]
    fn only_the_process_that_is_meant_is_asked_to_end() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid(child.id() as i32);
        let start_ticks = ProcFs::default().stat(pid).unwrap().start_ticks;
        // As when its number had been given to another process.
        ask(pid, |stat| stat.start_ticks == start_ticks + 1);
        assert_eq!(child.try_wait().unwrap(), None);
        ask(pid, |stat| stat.start_ticks == start_ticks);
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
        ask(pid, |_| true);
    }
}
