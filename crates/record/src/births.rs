//! Learning who is born into the tree, becomes another program, and ends.
//!
//! Where the kernel tells (see [`unbloat_process::events`]), a thread listens and looks at each newcomer at once, so
//! that a process of a few milliseconds is not missed and a grandchild whose parent has gone is known for what it is.
//! Elsewhere [`Births::changes`] looks around: only when a process was made since the last time, and only at the
//! numbers given out since then.
//!
//! Exactly one thread has the [`Family`], so that no two of them can report the same birth: the listening one, which
//! then also looks around when the kernel's events were too many, or else the caller's. What is found at the start is
//! found after the kernel was asked to tell and before the first of its events is read: each event that was waiting
//! then is of somebody who is known, or of a child of such a one.

use crate::family::{Change, Dead, Family};
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
    LookedFor(Family),
    Heard(Listener),
}

#[derive(Debug)]
struct Listener {
    changes: Receiver<Change>,
    thread: JoinHandle<Family>,
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
        let mut family = Family::new(proc.clone(), keeper);
        let numbers = proc.numbers();
        let last_pid = numbers.last();
        let mut waiting: Vec<Change> = roots.iter().filter_map(|&root| family.adopt(root)).collect();
        let dead = if connector.is_some() { Dead::Skip } else { Dead::Count };
        // The kernel was asked before the command was started.
        if connector.is_none() || !roots.is_empty() {
            waiting.extend(family.look_around(proc.pids()?, dead).0);
        }
        let source = match connector {
            Some(connector) => Source::Heard(Listener::start(connector, family, proc.clone())?),
            None => Source::LookedFor(family),
        };
        Ok(Births { proc, numbers, source, waiting, last_pid, vanished: 0 })
    }

    /// Whether the kernel tells of every process, so that none is missed.
    pub(crate) fn hears_all(&self) -> bool {
        matches!(self.source, Source::Heard(_))
    }

    /// What has happened since the last time.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        let mut changes = std::mem::take(&mut self.waiting);
        match &mut self.source {
            Source::Heard(listener) => {
                let over = listener.thread.is_finished();
                changes.extend(listener.changes.try_iter());
                if over {
                    // The kernel has stopped telling.
                    self.stop_listening();
                }
            }
            Source::LookedFor(family) => {
                let now = self.numbers.last();
                let candidates = match (std::mem::replace(&mut self.last_pid, now), now) {
                    (Some(before), Some(now)) if (0..=MANY).contains(&(now.0 - before.0)) => {
                        (before.0 + 1..=now.0).map(Pid).collect()
                    }
                    _ => self.proc.pids().unwrap_or_default(),
                };
                let (born, vanished) = family.look_around(candidates, Dead::Count);
                self.vanished = vanished;
                changes.extend(born);
            }
        }
        changes
    }

    /// The keeper says that it has started this one. The kernel tells of it too.
    pub(crate) fn told(&mut self, pid: Pid) {
        if let Source::LookedFor(family) = &mut self.source {
            self.waiting.extend(family.told(pid));
        }
    }

    /// Whether somebody with this pid was found who may still wait for being reaped.
    pub(crate) fn knows(&self, pid: Pid) -> bool {
        matches!(&self.source, Source::LookedFor(family) if family.has(pid))
    }

    /// Whether, at the last look around, processes (or threads, of the tree or not) had come and gone.
    pub(crate) fn some_vanished(&self) -> bool {
        self.vanished > 0
    }

    /// A member was seen to lead a session. The kernel tells of that too.
    pub(crate) fn leads_session(&mut self, stat: &Stat) {
        if let Source::LookedFor(family) = &mut self.source {
            family.leads_session(stat);
        }
    }

    /// A member was seen to have ended; see [`Family::ended`]. The kernel tells of that too.
    pub(crate) fn ended(&mut self, pid: Pid, start_ticks: Option<u64>, waits: bool) {
        if let Source::LookedFor(family) = &mut self.source {
            family.ended(pid, start_ticks, waits);
        }
    }

    fn stop_listening(&mut self) {
        let nobody = Source::LookedFor(Family::new(self.proc.clone(), None));
        let Source::Heard(listener) = std::mem::replace(&mut self.source, nobody) else { return };
        let Listener { changes, thread, waker } = listener;
        drop(waker);
        if let Ok(family) = thread.join() {
            self.source = Source::LookedFor(family);
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
    fn start(connector: Connector, mut family: Family, proc: ProcFs) -> io::Result<Self> {
        let (sender, changes) = channel();
        let (waker, end) = UnixStream::pair()?;
        let thread = std::thread::Builder::new().name("births".into()).spawn(move || {
            // Whatever ends it, the family is in order; the caller goes on by looking around.
            let _ = listen(&connector, &end, &proc, &mut family, &sender);
            family
        })?;
        Ok(Listener { changes, thread, waker })
    }
}

/// Tells of changes until the other end of `end` is closed.
fn listen(
    connector: &Connector,
    end: &UnixStream,
    proc: &ProcFs,
    family: &mut Family,
    changes: &Sender<Change>,
) -> io::Result<()> {
    let mut events: Vec<Event> = Vec::new();
    let tell = |family: &mut Family, events: &mut Vec<Event>, more: Vec<Change>| {
        let heard = events.drain(..).filter_map(|event| family.hear(event));
        // Nobody to tell: it ends with the next wait.
        heard.chain(more).for_each(|change| drop(changes.send(change)));
    };
    loop {
        let heard = connector.wait(end, family.has_headless().then_some(HEADLESS), &mut events)?;
        tell(family, &mut events, Vec::new());
        let ended = family.headless_ended();
        tell(family, &mut events, ended);
        let mut lost = heard.lost;
        while lost {
            let (found, _) = family.look_around(proc.pids()?, Dead::Skip);
            let missing = family.missing();
            tell(family, &mut events, found);
            // What is still waiting may tell of the missing, and of children that they had.
            lost = !connector.take(&mut events)?;
            tell(family, &mut events, Vec::new());
            let given_up = family.give_up(missing);
            tell(family, &mut events, given_up);
        }
        if heard.over {
            return Ok(());
        }
    }
}
