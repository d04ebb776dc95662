//! Follows births, execs and ends in the recorded tree.
//!
//! With a kernel that reports them (see [`unbloat_process::events`]), a thread listens and reads each newcomer
//! at once. So a process that lives for a few milliseconds is not missed, and a grandchild whose parent has
//! gone is still recognized. Elsewhere [`Births::changes`] scans `/proc`: only if a process was created since
//! the last scan, and only the PIDs assigned since.
//!
//! Exactly one thread owns the [`Membership`], so a birth is reported once. This is the listening thread,
//! which also scans if the kernel dropped events, or else the caller. The first scan runs after the kernel
//! was asked to report and before its first event is read, so each event queued by then is about a known
//! member, or about a child of one.

use crate::membership::{Change, Dead, Membership};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use unbloat_process::Pid;
use unbloat_process::events::{Connector, Event};
use unbloat_process::stat::Stat;
use unbloat_process::watch::{LastPid, ProcFs};

/// Gap in the PID sequence above which the whole of `/proc` is scanned.
const MANY: i32 = 256;

/// Interval between checks of processes that continue without their first thread.
const HEADLESS: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Births {
    proc: ProcFs,
    numbers: LastPid,
    source: Source,
    /// Changes not yet requested by the caller.
    waiting: Vec<Change>,
    last_pid: Option<Pid>,
    /// PIDs assigned before the last scan that no longer exist.
    vanished: usize,
}

#[derive(Debug)]
enum Source {
    Scanning(Membership),
    Listening(Listener),
}

#[derive(Debug)]
struct Listener {
    changes: Receiver<Change>,
    thread: JoinHandle<Membership>,
    /// Closing it asks the thread to end.
    waker: UnixStream,
}

impl Births {
    /// Follows the descendants of the roots and of the keeper. Without `connector` it scans by itself.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub(crate) fn new(
        proc: ProcFs,
        keeper: Option<Pid>,
        roots: &[Pid],
        connector: Option<Connector>,
    ) -> io::Result<Self> {
        let mut membership = Membership::new(proc.clone(), keeper);
        let numbers = proc.numbers();
        let last_pid = numbers.last();
        let mut waiting: Vec<Change> = roots.iter().filter_map(|&root| membership.adopt(root)).collect();
        let dead = if connector.is_some() { Dead::Skip } else { Dead::Count };
        // The kernel was asked before the command was started.
        if connector.is_none() || !roots.is_empty() {
            waiting.extend(membership.scan(proc.pids()?, dead).0);
        }
        let source = match connector {
            Some(connector) => Source::Listening(Listener::start(connector, membership, proc.clone())?),
            None => Source::Scanning(membership),
        };
        Ok(Births { proc, numbers, source, waiting, last_pid, vanished: 0 })
    }

    /// Returns whether the kernel reports every process, so that none is missed.
    pub(crate) fn kernel_reports_all(&self) -> bool {
        matches!(self.source, Source::Listening(_))
    }

    /// Returns the changes since the last call.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        let mut changes = std::mem::take(&mut self.waiting);
        match &mut self.source {
            Source::Listening(listener) => {
                let ended = listener.thread.is_finished();
                changes.extend(listener.changes.try_iter());
                if ended {
                    // The kernel has stopped reporting.
                    self.stop_listening();
                }
            }
            Source::Scanning(membership) => {
                let now = self.numbers.last();
                let candidates = match (std::mem::replace(&mut self.last_pid, now), now) {
                    (Some(before), Some(now)) if (0..=MANY).contains(&(now.0 - before.0)) => {
                        (before.0 + 1..=now.0).map(Pid).collect()
                    }
                    _ => self.proc.pids().unwrap_or_default(),
                };
                let (born, vanished) = membership.scan(candidates, Dead::Count);
                self.vanished = vanished;
                changes.extend(born);
            }
        }
        changes
    }

    /// Records a process that the keeper reports as started. The kernel reports it, too.
    pub(crate) fn started_by_keeper(&mut self, pid: Pid) {
        if let Source::Scanning(membership) = &mut self.source {
            self.waiting.extend(membership.started_by_keeper(pid));
        }
    }

    /// Returns whether a process with this PID was found that may still be waiting to be reaped.
    pub(crate) fn knows(&self, pid: Pid) -> bool {
        matches!(&self.source, Source::Scanning(membership) if membership.has(pid))
    }

    /// Returns whether processes (or threads, in the tree or not) had come and gone at the last scan.
    pub(crate) fn some_vanished(&self) -> bool {
        self.vanished > 0
    }

    /// Records that a member leads a session. The kernel reports that, too.
    pub(crate) fn leads_session(&mut self, stat: &Stat) {
        if let Source::Scanning(membership) = &mut self.source {
            membership.leads_session(stat);
        }
    }

    /// Records that a member has ended; see [`Membership::ended`]. The kernel reports that, too.
    pub(crate) fn ended(&mut self, pid: Pid, start_ticks: Option<u64>, waits: bool) {
        if let Source::Scanning(membership) = &mut self.source {
            membership.ended(pid, start_ticks, waits);
        }
    }

    fn stop_listening(&mut self) {
        let nobody = Source::Scanning(Membership::new(self.proc.clone(), None));
        let Source::Listening(listener) = std::mem::replace(&mut self.source, nobody) else { return };
        let Listener { changes, thread, waker } = listener;
        drop(waker);
        if let Ok(membership) = thread.join() {
            self.source = Source::Scanning(membership);
        }
        self.waiting.extend(changes.try_iter());
        self.last_pid = None;
    }
}

impl Drop for Births {
    fn drop(&mut self) {
        self.stop_listening();
    }
}

impl Listener {
    fn start(connector: Connector, mut membership: Membership, proc: ProcFs) -> io::Result<Self> {
        let (sender, changes) = channel();
        let (waker, end) = UnixStream::pair()?;
        let thread = std::thread::Builder::new().name("births".into()).spawn(move || {
            // Whatever ends it, the membership is consistent; the caller continues by scanning.
            let _ = listen(&connector, &end, &proc, &mut membership, &sender);
            membership
        })?;
        Ok(Listener { changes, thread, waker })
    }
}

/// Reports changes until the other end of `end` is closed.
fn listen(
    connector: &Connector,
    end: &UnixStream,
    proc: &ProcFs,
    membership: &mut Membership,
    changes: &Sender<Change>,
) -> io::Result<()> {
    let mut events: Vec<Event> = Vec::new();
    let tell = |membership: &mut Membership, events: &mut Vec<Event>, more: Vec<Change>| {
        let received = events.drain(..).filter_map(|event| membership.handle(event));
        // Without a receiver, the thread ends at the next wait.
        received.chain(more).for_each(|change| drop(changes.send(change)));
    };
    loop {
        let received = connector.wait(end, membership.has_headless().then_some(HEADLESS), &mut events)?;
        tell(membership, &mut events, Vec::new());
        let ended = membership.headless_ended();
        tell(membership, &mut events, ended);
        let mut lost = received.lost;
        while lost {
            let (found, _) = membership.scan(proc.pids()?, Dead::Skip);
            let missing = membership.missing();
            tell(membership, &mut events, found);
            // Events still queued may report the missing processes, and any children they had.
            lost = !connector.take(&mut events)?;
            tell(membership, &mut events, Vec::new());
            let given_up = membership.give_up(missing);
            tell(membership, &mut events, given_up);
        }
        if received.closed {
            return Ok(());
        }
    }
}
