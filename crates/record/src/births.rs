//! Who is born into the tree, becomes another program, and ends.
//!
//! Where the kernel tells (see [`unbloat_process::events`]), a thread listens and looks at each newcomer at once, so
//! that a process of a few milliseconds is not missed and a grandchild whose parent has gone is known for what it is.
//! Elsewhere [`Births::changes`] looks around: only when a process was made since the last time, and only at the
//! numbers given out since then.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use unbloat_process::Pid;
use unbloat_process::events::{Connector, Event, shell_status};
use unbloat_process::stat::Stat;
use unbloat_process::watch::ProcFs;

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
        command: String,
    },
    Ended {
        pid: Pid,
        at_ns: i64,
        status: i64,
        /// Read while it waited for its parent.
        stat: Option<Stat>,
    },
}

/// The members of the tree, shared with the thread that listens.
#[derive(Debug, Clone, Default)]
pub(crate) struct Family(Arc<Mutex<HashSet<Pid>>>);

impl Family {
    pub(crate) fn insert(&self, pid: Pid) -> bool {
        self.lock().insert(pid)
    }

    pub(crate) fn remove(&self, pid: Pid) {
        self.lock().remove(&pid);
    }

    pub(crate) fn contains(&self, pid: Pid) -> bool {
        self.lock().contains(&pid)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gaps in the numbering larger than this are looked at as a whole `/proc`.
const MANY: i32 = 256;

#[derive(Debug)]
pub(crate) struct Births {
    proc: ProcFs,
    family: Family,
    /// Session leaders of the tree: who is in such a session belongs to the tree, whoever its parent is now.
    sessions: HashSet<Pid>,
    last_pid: Option<Pid>,
    /// Numbers given out before the last look around that nobody has any more.
    vanished: usize,
    listener: Option<Listener>,
}

#[derive(Debug)]
struct Listener {
    changes: Receiver<Change>,
    lost: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Births {
    /// Without `connector` it looks around by itself.
    pub(crate) fn new(proc: ProcFs, family: Family, connector: Option<Connector>) -> Self {
        let listener = connector.map(|connector| Listener::start(connector, proc.clone(), family.clone()));
        Births { last_pid: proc.last_pid(), vanished: 0, proc, family, sessions: HashSet::new(), listener }
    }

    /// Whether the kernel tells of every process, so that none is missed.
    pub(crate) fn hears_all(&self) -> bool {
        self.listener.is_some()
    }

    /// What has happened since the last time.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        let Some(listener) = &self.listener else {
            return self.look_around(false);
        };
        let mut changes: Vec<_> = listener.changes.try_iter().collect();
        if listener.lost.swap(false, Ordering::Relaxed) {
            changes.extend(self.look_around(true));
        }
        changes
    }

    /// Whether, at the last look around, processes (or threads, of the tree or not) had come and gone.
    pub(crate) fn some_vanished(&self) -> bool {
        self.vanished > 0
    }

    /// A member leads a session.
    pub(crate) fn session_leader(&mut self, pid: Pid) {
        self.sessions.insert(pid);
    }

    /// Everybody who belongs to the tree and is not known yet, among the processes made since the last time or, with
    /// `everywhere`, among all.
    pub(crate) fn look_around(&mut self, everywhere: bool) -> Vec<Change> {
        let before = std::mem::replace(&mut self.last_pid, self.proc.last_pid());
        let mut candidates: Vec<Pid> = match (before, self.last_pid) {
            (Some(before), Some(now)) if !everywhere && (0..=MANY).contains(&(now.0 - before.0)) => {
                (before.0 + 1..=now.0).map(Pid).collect()
            }
            _ => self.proc.pids().unwrap_or_default(),
        };
        self.vanished = 0;
        let mut born = Vec::new();
        // A parent may come after its child in the numbering, which starts again at its end: until nobody new is found.
        loop {
            let known = born.len();
            let mut vanished = 0;
            candidates.retain(|&pid| match self.newcomer(pid) {
                Newcomer::Ours(stat) => {
                    born.push(Change::Born { pid, parent: stat.parent, at_ns: None, stat: Some(stat) });
                    false
                }
                Newcomer::Unknown => true,
                Newcomer::Other => false,
                Newcomer::Gone => {
                    vanished += 1;
                    false
                }
            });
            self.vanished += vanished;
            if born.len() == known {
                return born;
            }
        }
    }

    fn newcomer(&self, pid: Pid) -> Newcomer {
        if self.family.contains(pid) {
            return Newcomer::Other;
        }
        let Ok(stat) = self.proc.stat(pid) else { return Newcomer::Gone };
        if !self.family.contains(stat.parent) && !self.sessions.contains(&Pid(stat.session)) {
            return Newcomer::Unknown;
        }
        // The numbers of threads can be looked at like those of processes.
        if self.proc.leader(pid) != Some(pid) {
            return Newcomer::Other;
        }
        // The listener may have taken it in since the question above: only one of the two may report its birth.
        if !self.family.insert(pid) {
            return Newcomer::Other;
        }
        Newcomer::Ours(stat)
    }
}

enum Newcomer {
    Ours(Stat),
    /// Perhaps a child of a newcomer that is looked at later.
    Unknown,
    Other,
    Gone,
}

impl Listener {
    fn start(connector: Connector, proc: ProcFs, family: Family) -> Self {
        let (sender, changes) = channel();
        let (lost, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::Builder::new().name("births".into()).spawn({
            let (lost, stop) = (lost.clone(), stop.clone());
            move || {
                let listened = listen(&connector, &proc, &family, &sender, &lost, &stop);
                lost.fetch_or(listened.is_err(), Ordering::Relaxed);
            }
        });
        Listener { changes, lost, stop, thread: thread.ok() }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(
    connector: &Connector,
    proc: &ProcFs,
    family: &Family,
    changes: &Sender<Change>,
    lost: &AtomicBool,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut events = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if !connector.wait(Duration::from_millis(100), &mut events)? {
            lost.store(true, Ordering::Relaxed);
        }
        for event in events.drain(..) {
            let Some(change) = change(event, proc, family) else { continue };
            if changes.send(change).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn change(event: Event, proc: &ProcFs, family: &Family) -> Option<Change> {
    match event {
        Event::Fork { parent, child, at_ns } => {
            (family.contains(parent) && family.insert(child)).then_some(())?;
            Some(Change::Born { pid: child, parent, at_ns: Some(at_ns), stat: proc.stat(child).ok() })
        }
        Event::Exec { pid } if family.contains(pid) => {
            Some(Change::Command { pid, command: proc.command(pid)? })
        }
        Event::Exit { pid, status, at_ns } if family.contains(pid) => {
            let stat = proc.stat(pid).ok();
            // Its first thread has ended, others go on.
            stat.as_ref().is_none_or(|stat| stat.threads <= 1).then_some(())?;
            family.remove(pid);
            let stat = stat.filter(Stat::is_dead);
            Some(Change::Ended { pid, at_ns, status: shell_status(status), stat })
        }
        _ => None,
    }
}
