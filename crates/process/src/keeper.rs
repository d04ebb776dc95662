//! Starts a command and kills everything it has left behind when this process ends, in whatever way.
//!
//! A small process of our own, the keeper, runs between us and the command. It is the command's parent and,
//! as child subreaper (prctl(2), PR_SET_CHILD_SUBREAPER), becomes the parent of every orphan below: daemons
//! and background jobs, whatever their session. A socket tells it that we are alive. If we end without having
//! told it to let go, even by SIGKILL, it kills all its descendants and exits; if it is killed itself, the
//! kernel kills the command (PR_SET_PDEATHSIG). A crash of our own ends no service: see
//! [`Keeper::outlives_crashes`]. As the parent it also reads the resource usage of its children before it
//! reaps them, and passes it on.

#![allow(unsafe_code)] // fork, and the calls that a child may make between fork and exec

use crate::stat::Stat;
use crate::watch::ProcFs;
use crate::{Pid, Tree, crash, signal};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

/// A finished child of the keeper, read before it was reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The process.
    pub pid: Pid,
    /// Its exit status, as a shell shows it.
    pub status: i64,
    /// User-mode CPU time of the process itself, in clock ticks.
    pub user_ticks: u64,
    /// Kernel-mode CPU time of the process itself, in clock ticks.
    pub system_ticks: u64,
    /// User-mode CPU time of awaited children and their descendants, in clock ticks.
    pub children_user_ticks: u64,
    /// Kernel-mode CPU time of awaited children and their descendants, in clock ticks.
    pub children_system_ticks: u64,
}

/// A report of the keeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The command runs as this process.
    Started(Pid),
    /// The command could not be started because of this `errno`.
    NotStarted(i32),
    /// A child has ended.
    Ended(Ended),
    /// All processes have ended.
    Empty,
}

/// The keeper, from the side of the process that started it. When dropped, it kills whatever is left.
#[derive(Debug)]
pub struct Keeper {
    pid: Pid,
    socket: UnixStream,
    pending: Vec<u8>,
}

/// Size of a report on the socket.
const MESSAGE: usize = 56;
/// Order to leave the children alone. The keeper waits for those that the kernel would kill after it.
const LET_GO: u8 = b'L';
/// Order to kill the children.
const KILL: u8 = b'K';

/// Signals that reach the whole foreground process group; the keeper ignores them.
const IGNORED: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// The signals whose default disposition is restored for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hearing {
    /// None: the command starts as if our own parent had started it.
    AsInherited,
    /// SIGINT and SIGQUIT, which a shell without job control makes its background jobs ignore, and SIGTERM,
    /// so that the command can be asked to end. SIGHUP is left unchanged, since `nohup` is meant to apply to
    /// everything.
    ToEnd,
}

impl Hearing {
    fn resets(self, signal: Signal) -> bool {
        self == Self::ToEnd && signal != Signal::SIGHUP
    }
}

impl Keeper {
    /// Starts a command. Call this before starting any thread, because the keeper is a copy of this process.
    /// A command that `may_stay` can be let go later; it also survives if the keeper itself is killed.
    ///
    /// # Errors
    /// The kernel cannot create a process. A command that cannot be started is reported as
    /// [`Report::NotStarted`].
    pub fn start(command: Command, may_stay: bool, hearing: Hearing) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        // SAFETY: the child calls only functions of this module on its own memory. No other thread exists
        // that could hold a lock, as the documentation above requires.
        match unsafe { nix::unistd::fork() }? {
            nix::unistd::ForkResult::Parent { child } => {
                drop(theirs);
                ours.set_nonblocking(true)?;
                Ok(Keeper { pid: Pid(child.as_raw()), socket: ours, pending: Vec::new() })
            }
            nix::unistd::ForkResult::Child => {
                drop(ours);
                let status = i32::from(keep(theirs, command, may_stay, hearing).is_err());
                // SAFETY: ends this copy without running the original's exit handlers.
                unsafe { libc::_exit(status) }
            }
        }
    }

    /// Returns the keeper's own process: not part of the command's tree, but the parent of its orphans.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the reports received so far, without waiting.
    ///
    /// # Errors
    /// The keeper has been killed.
    pub fn reports(&mut self) -> io::Result<Vec<Report>> {
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) if self.pending.is_empty() => return Err(io::ErrorKind::BrokenPipe.into()),
                Ok(0) => break,
                Ok(read) => self.pending.extend(buffer.get(..read).unwrap_or_default()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Nothing yet, or no memory to read it with. Only the end of the stream says that the keeper is gone.
                Err(_) => break,
            }
        }
        let whole = self.pending.len() / MESSAGE * MESSAGE;
        Ok(self.pending.drain(..whole).collect::<Vec<_>>().chunks_exact(MESSAGE).filter_map(decode).collect())
    }

    /// Kills everything that is left of the command. Reports continue until [`Report::Empty`].
    pub fn kill(&self) {
        let _ = (&self.socket).write_all(&[KILL]);
    }

    /// Leaves running processes alone and ends the keeper.
    pub fn let_go(self) {
        let _ = (&self.socket).write_all(&[LET_GO]);
        let _ = waitpid(nix::unistd::Pid::from_raw(self.pid.0), None);
    }

    /// Makes a crash of this process (out of memory, a broken file mapping, a panic) leave the command running under
    /// its keeper.
    pub fn outlives_crashes(&self) {
        crash::send(self.socket.as_fd(), LET_GO);
    }

    /// Waits for the keeper to end, once it has reported [`Report::Empty`].
    pub fn join(self) {
        let pid = self.pid;
        drop(self);
        let _ = waitpid(nix::unistd::Pid::from_raw(pid.0), None);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if crash::forget(self.socket.as_fd()) && std::thread::panicking() {
            let _ = (&self.socket).write_all(&[LET_GO]);
        }
    }
}

impl std::os::fd::AsFd for Keeper {
    /// Becomes readable when there is a report.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Runs the keeper.
fn keep(mut socket: UnixStream, mut command: Command, may_stay: bool, hearing: Hearing) -> io::Result<()> {
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    let mut passed_on = Vec::new();
    for signal in IGNORED {
        // SAFETY: SIG_IGN runs no code.
        let action = unsafe { sigaction(signal, &ignore) }?;
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        passed_on.push((signal, if hearing.resets(signal) { default } else { action }));
    }
    nix::sys::prctl::set_child_subreaper(true)?;
    let keeper = nix::unistd::getpid();
    let inherited_mask = SigSet::thread_get_mask()?;
    // SAFETY: only async-signal-safe calls on values created earlier.
    unsafe {
        command.pre_exec(move || {
            for (signal, action) in &passed_on {
                sigaction(*signal, action)?;
            }
            // The standard library passes on the keeper's blocked signals, with which a shell would never
            // learn of its children's ends.
            inherited_mask.thread_set_mask()?;
            if may_stay {
                return Ok(());
            }
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The keeper may have been killed before this took effect.
            if nix::unistd::getppid() != keeper {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        });
    }
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let child_signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    match command.spawn() {
        Ok(child) => socket.write_all(&encode(&Report::Started(Pid(child.id() as i32))))?,
        Err(e) => {
            return socket.write_all(&encode(&Report::NotStarted(e.raw_os_error().unwrap_or(libc::EINVAL))));
        }
    }
    loop {
        let mut ready = [
            PollFd::new(socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(child_signals.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        let spoken_to = ready.first().and_then(PollFd::any).unwrap_or(false);
        while let Ok(Some(_)) = child_signals.read_signal() {}
        if reap(&mut socket) == Left::Nothing {
            let _ = socket.write_all(&encode(&Report::Empty));
            return Ok(());
        }
        if spoken_to {
            let mut order = [0];
            match socket.read(&mut order) {
                Ok(1) if order == [LET_GO] && may_stay => return Ok(()),
                Ok(1) if order == [LET_GO] => return wait_for_all(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // An order to kill, or the end of its sender.
                _ => return kill_all(&mut socket),
            }
        }
    }
}

/// Waits until no child is left, with nobody to report to.
fn wait_for_all() -> io::Result<()> {
    loop {
        match waitpid(None, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return Ok(()),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Left {
    Something,
    Nothing,
}

/// Reads and reaps every child that has ended.
fn reap(socket: &mut UnixStream) -> Left {
    let proc = ProcFs::default();
    loop {
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let ended = match waitid(Id::All, look) {
            Ok(WaitStatus::StillAlive) => return Left::Something,
            Ok(status) => status.pid(),
            Err(Errno::EINTR) => continue,
            Err(_) => return Left::Nothing,
        };
        let Some(pid) = ended else { return Left::Something };
        let used = proc.stat(Pid(pid.as_raw())).ok();
        let status = match waitpid(pid, None) {
            Ok(WaitStatus::Exited(_, status)) => i64::from(status),
            Ok(WaitStatus::Signaled(_, signal, _)) => 128 + i64::from(signal as i32),
            _ => 0,
        };
        let ticks = |pick: fn(&Stat) -> u64| used.as_ref().map_or(0, pick);
        let ended = Ended {
            pid: Pid(pid.as_raw()),
            status,
            user_ticks: ticks(|s| s.user_ticks),
            system_ticks: ticks(|s| s.system_ticks),
            children_user_ticks: ticks(|s| s.children_user_ticks),
            children_system_ticks: ticks(|s| s.children_system_ticks),
        };
        // Reaping continues even without a listener.
        let _ = socket.write_all(&encode(&Report::Ended(ended)));
    }
}

/// Kills all descendants until none are left. Orphans created meanwhile become children of the keeper.
fn kill_all(socket: &mut UnixStream) -> io::Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        let this = Pid::this();
        let tree = Tree::read().map_err(io::Error::other)?;
        for pid in tree.below(this).into_iter().filter(|&pid| pid != this) {
            // It may have ended by itself, or belong to another user (a setuid program).
            let _ = signal::end(pid);
        }
        if reap(socket) == Left::Nothing {
            let _ = socket.write_all(&encode(&Report::Empty));
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn encode(report: &Report) -> [u8; MESSAGE] {
    let words = match *report {
        Report::Started(pid) => [1, i64::from(pid.0), 0, 0, 0, 0, 0],
        Report::NotStarted(errno) => [2, i64::from(errno), 0, 0, 0, 0, 0],
        Report::Ended(e) => {
            let ticks = [e.user_ticks, e.system_ticks, e.children_user_ticks, e.children_system_ticks];
            let [user, system, children_user, children_system] = ticks.map(|t| t as i64);
            [3, i64::from(e.pid.0), e.status, user, system, children_user, children_system]
        }
        Report::Empty => [4, 0, 0, 0, 0, 0, 0],
    };
    let mut message = [0; MESSAGE];
    for (to, word) in message.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    message
}

fn decode(message: &[u8]) -> Option<Report> {
    let mut words = message.chunks_exact(8).filter_map(|c| Some(i64::from_ne_bytes(c.try_into().ok()?)));
    let mut word = || words.next();
    let (kind, first) = (word()?, word()?);
    let first = i32::try_from(first).ok()?;
    Some(match kind {
        1 => Report::Started(Pid(first)),
        2 => Report::NotStarted(first),
        3 => Report::Ended(Ended {
            pid: Pid(first),
            status: word()?,
            user_ticks: word()? as u64,
            system_ticks: word()? as u64,
            children_user_ticks: word()? as u64,
            children_system_ticks: word()? as u64,
        }),
        4 => Report::Empty,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reports_survive_the_socket() {
        let ended = Ended {
            pid: Pid(7),
            status: 137,
            user_ticks: u64::MAX >> 1,
            system_ticks: 3,
            children_user_ticks: 4,
            children_system_ticks: 5,
        };
        for report in [Report::Started(Pid(9)), Report::NotStarted(2), Report::Ended(ended), Report::Empty] {
            assert_eq!(decode(&encode(&report)), Some(report));
        }
        assert_eq!(decode(&[0; MESSAGE]), None);
    }
}
