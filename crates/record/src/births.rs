//! Follows births, execs and ends in the recorded tree.
//!
//! Where the kernel reports them (see [`unbloat_process::events`]), a thread listens and looks at each newcomer at once. So a
//! process of a few milliseconds is not missed, and a grandchild whose parent has gone is still recognized. Elsewhere
//! [`Births::changes`] scans `/proc`: only when a process was made since the last scan, and only the pids given out since.
//!
//! Exactly one thread owns the [`Membership`], so a birth is reported once: the listening thread, which also scans when the
//! kernel dropped events, or else the caller. The first scan runs after the kernel was asked to report and before its first
//! event is read: each event that was queued by then is about a known member, or about a child of one.

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

/// Gaps in the numbering larger than this are looked at as a whole `/proc`.
const MANY: i32 = 256;

/// Between two looks at processes that go on without their first thread.
const HEADLESS: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Births {
    proc: ProcFs,
    numbers: LastPid,
    source: Source,
    /// Not yet asked for.
    waiting: Vec<Change>,
    last_pid: Option<Pid>,
    /// Numbers given out before the last look around that nobody has any more.
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
    /// Follows the descendants of the roots and of the keeper. Without `connector` it looks around by itself.
    ///
    /// # Errors
    /// The system gives no thread.
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

    /// Tells whether the kernel tells of every process, so that none is missed.
    pub(crate) fn kernel_reports_all(&self) -> bool {
        matches!(self.source, Source::Listening(_))
    }

    /// Changes since the last call.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        let mut changes = std::mem::take(&mut self.waiting);
        match &mut self.source {
            Source::Listening(listener) => {
                let over = listener.thread.is_finished();
                changes.extend(listener.changes.try_iter());
                if over {
                    // The kernel has stopped telling.
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

    /// The keeper says that it has started this one. The kernel tells of it too.
    pub(crate) fn started_by_keeper(&mut self, pid: Pid) {
        if let Source::Scanning(membership) = &mut self.source {
            self.waiting.extend(membership.started_by_keeper(pid));
        }
    }

    /// Tells whether somebody with this pid was found who may still wait for being reaped.
    pub(crate) fn knows(&self, pid: Pid) -> bool {
        matches!(&self.source, Source::Scanning(membership) if membership.has(pid))
    }

    /// Whether, at the last look around, processes (or threads, of the tree or not) had come and gone.
    pub(crate) fn some_vanished(&self) -> bool {
        self.vanished > 0
    }

    /// A member was seen to lead a session. The kernel tells of that too.
    pub(crate) fn leads_session(&mut self, stat: &Stat) {
        if let Source::Scanning(membership) = &mut self.source {
            membership.leads_session(stat);
        }
    }

    /// A member was seen to have ended; see [`Membership::ended`]. The kernel tells of that too.
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
            // Whatever ends it, the membership is in order; the caller goes on by looking around.
            let _ = listen(&connector, &end, &proc, &mut membership, &sender);
            membership
        })?;
        Ok(Listener { changes, thread, waker })
    }
}

/// Tells of changes until the other end of `end` is closed.
fn listen(
    connector: &Connector,
    end: &UnixStream,
    proc: &ProcFs,
    membership: &mut Membership,
    changes: &Sender<Change>,
) -> io::Result<()> {
    let mut events: Vec<Event> = Vec::new();
    let tell = |membership: &mut Membership, events: &mut Vec<Event>, more: Vec<Change>| {
        let heard = events.drain(..).filter_map(|event| membership.handle(event));
        // Nobody to tell: it ends with the next wait.
        heard.chain(more).for_each(|change| drop(changes.send(change)));
    };
    loop {
        let heard = connector.wait(end, membership.has_headless().then_some(HEADLESS), &mut events)?;
        tell(membership, &mut events, Vec::new());
        let ended = membership.headless_ended();
        tell(membership, &mut events, ended);
        let mut lost = heard.lost;
        while lost {
            let (found, _) = membership.scan(proc.pids()?, Dead::Skip);
            let missing = membership.missing();
            tell(membership, &mut events, found);
            // What is still waiting may tell of the missing, and of children that they had.
            lost = !connector.take(&mut events)?;
            tell(membership, &mut events, Vec::new());
            let given_up = membership.give_up(missing);
            tell(membership, &mut events, given_up);
        }
        if heard.over {
            return Ok(());
        }
    }
}
