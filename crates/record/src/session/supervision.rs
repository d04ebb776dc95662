//! Decides when a recording ends: with its tree, after its duration, or on request. A command that was started for it is asked
//! to end first, and killed after its grace period.

use super::options::Options;
use crate::tree::Tree;
use crate::{Error, Result};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};
use unbloat_process::Pid;
use unbloat_process::keeper::{Keeper, Report};
use unbloat_process::signal::{self, Requests};

/// The reason of the end.
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
    /// The time at which it will be killed; `None` once it was.
    kill_at: Option<Instant>,
}

/// Watches over the end.
#[derive(Debug)]
pub(super) struct Supervision {
    /// Holds the command that was started; `None` when running processes are recorded.
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

    /// Tells whether there is a command that ends with the recording.
    pub(super) fn owns_command(&self) -> bool {
        self.keeper.is_some() && !self.detach
    }

    /// The exit status of the command, once it has ended.
    pub(super) fn exit_status(&self) -> Option<i64> {
        self.root_status
    }

    /// Waits until then, or until the keeper has a report or someone asks for the end.
    pub(super) fn wait(&self, until: Instant) {
        let kill_at = self.stopping.and_then(|stopping| stopping.kill_at);
        let until = kill_at.map_or(until, |kill_at| until.min(kill_at));
        let left = until.saturating_duration_since(Instant::now());
        let mut ready = vec![PollFd::new(self.requests.as_fd(), PollFlags::POLLIN)];
        ready.extend(self.keeper.iter().map(|keeper| PollFd::new(keeper.as_fd(), PollFlags::POLLIN)));
        // ppoll, because poll(2) counts milliseconds. Interrupted or not: the caller looks at what there is.
        let _ = ppoll(&mut ready, Some(TimeSpec::from_duration(left)), None);
    }

    /// The keeper's reports since the last call.
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
                        // It was asked to end before there was anybody to ask.
                        let _ = signal::terminate(pid);
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

    /// Tells whether the recording is over. A command that was started is asked to end first, and heard of until it has.
    pub(super) fn end_reason(&mut self, tree: &Tree, now: Instant) -> Option<Reason> {
        self.handle_requests(tree, now).or_else(|| self.has_ended(tree, now))
    }

    fn handle_requests(&mut self, tree: &Tree, now: Instant) -> Option<Reason> {
        while let Some(request) = self.requests.next() {
            if !self.owns_command() {
                return Some(Reason::Asked);
            }
            if self.stopping.is_some() {
                // Asked twice.
                self.kill();
            } else if request.from_terminal && request.is_interrupt {
                // The terminal has told the command too.
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
        // What the command has left behind goes with it when the recording was asked to end.
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

    /// Asks the command to end, or, when it has ended itself, those it has left.
    fn ask_to_end(&mut self, reason: Reason, tree: &Tree, now: Instant) {
        if self.stopping.is_some() {
            return;
        }
        self.stopping = Some(self.stop(reason, now));
        let root = self.root.filter(|root| tree.members.contains_key(root));
        let asked: Vec<Pid> = root.map_or_else(|| tree.members.keys().copied().collect(), |root| vec![root]);
        for pid in asked {
            // One that has ended meanwhile need not be asked.
            let _ = signal::terminate(pid);
        }
    }

    fn kill(&mut self) {
        if let (Some(keeper), Some(stopping)) = (&self.keeper, &mut self.stopping)
            && stopping.kill_at.take().is_some()
        {
            keeper.kill();
        }
    }

    /// Lets the command go at the end of the recording: with `detach` it runs on, otherwise what is left of it is killed.
    pub(super) fn release(&mut self) {
        match self.keeper.take() {
            Some(keeper) if self.tree_is_empty => keeper.join(),
            Some(keeper) if self.detach => keeper.let_go(),
            // Dropping it makes it kill what is left.
            Some(_) | None => {}
        }
    }
}
