//! Supervises everything that the harness starts, and kills it all if the harness dies.
//!
//! Between the harness and a server or a load stands `unbloat keep`, a process of one thread, because a
//! [`Keeper`] must be started by one. It shares a socket with the harness, as its stdin:
//!
//! ```text
//! harness ──stdin──► unbloat keep ──► keeper ──► command ──► …
//!         ◄─ started PID, ended STATUS ─┘
//! ```
//!
//! When the harness closes the socket or is killed, everything below the keeper is killed, also what was orphaned or left
//! its session. `unbloat keep` itself ends when nothing is left.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use unbloat_process::Pid;
use unbloat_process::keeper::{Hearing, Keeper, Report};
use unbloat_process::tree::Tree;

/// Exit status of `unbloat keep` if the command cannot be started, as in a shell.
const NOT_STARTED: i32 = 127;

/// Time limit for `unbloat keep` itself to start or end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Builds the command `unbloat keep -- WORDS`, to which the caller adds environment, directory, stdout and
/// stderr.
#[must_use]
pub fn command(unbloat: &Path, words: &[String]) -> Command {
    let mut command = Command::new(unbloat);
    command.args(["keep", "--"]).args(words);
    command
}

/// Returns the same command with a scratch directory, which `unbloat keep` removes if the harness is killed before it can.
#[must_use]
pub fn command_in(scratch: &Path, unbloat: &Path, words: &[String]) -> Command {
    let mut command = Command::new(unbloat);
    command.arg("keep").arg("--scratch").arg(scratch).arg("--").args(words);
    command
}

/// A started command, which is ended when this is dropped.
#[derive(Debug)]
pub struct Kept {
    child: Child,
    socket: UnixStream,
    heard: String,
    pid: Pid,
    ended: Option<i32>,
}

impl Kept {
    /// Starts a command built by [`command`].
    ///
    /// # Errors
    /// The kernel's reason why the program cannot be started.
    pub fn start(mut command: Command) -> io::Result<Kept> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        // The builder also holds the other end of the socket.
        drop(command);
        let mut kept = Kept { child, socket: ours, heard: String::new(), pid: Pid(0), ended: None };
        kept.wait(PATIENCE, |kept| kept.pid != Pid(0) || kept.ended.is_some())?;
        match (kept.pid, kept.ended) {
            (Pid(0), Some(errno)) => Err(io::Error::from_raw_os_error(errno)),
            (Pid(0), None) => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(kept),
        }
    }

    /// Returns the command's process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Takes its stdout, if it is a pipe; once.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Takes its stderr, if it is a pipe; once.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Returns the exit status of the command, as a shell shows it; other processes of its tree may still
    /// run.
    pub fn ended(&mut self) -> Option<i32> {
        let _ = self.wait(Duration::ZERO, |kept| kept.ended.is_some());
        self.ended
    }

    /// Returns whether the command and all its descendants have ended.
    pub fn is_gone(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Returns the running processes of the command's tree, including orphans.
    #[must_use]
    pub fn tree(&self) -> Vec<Pid> {
        let Ok(tree) = Tree::read() else { return Vec::new() };
        // First `unbloat keep` itself, then its keeper.
        tree.below(Pid(self.child.id().cast_signed())).into_iter().skip(2).collect()
    }

    /// Processes the messages of `unbloat keep` until `done`, or for this long.
    fn wait(&mut self, within: Duration, done: impl Fn(&Self) -> bool) -> io::Result<()> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut ready = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            if poll(&mut ready, timeout)? == 0 {
                return Ok(());
            }
            let mut buffer = [0; 128];
            let read = self.socket.read(&mut buffer)?;
            self.heard.push_str(&String::from_utf8_lossy(buffer.get(..read).unwrap_or_default()));
            while let Some((line, rest)) = self.heard.split_once('\n') {
                match line.split_once(' ') {
                    Some(("started", pid)) => self.pid = Pid(pid.parse().unwrap_or(0)),
                    Some((_, status)) => self.ended = status.parse().ok(),
                    None => {}
                }
                self.heard = rest.to_owned();
            }
            if read == 0 || done(self) {
                return Ok(());
            }
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let deadline = Instant::now() + PATIENCE;
        while !self.is_gone() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Implements `unbloat keep -- WORDS`: starts the command and stays until nothing of it is left. Stdin is the
/// socket. Removes `scratch` if the harness ended first. Returns the exit status.
///
/// # Errors
/// Stdin is not a socket, or the kernel cannot create a process.
pub fn serve(words: &[String], scratch: Option<&Path>) -> io::Result<i32> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut command = Command::new(words.first().map_or("", String::as_str));
    command.args(words.get(1..).unwrap_or_default()).stdin(Stdio::null());
    let mut keeper = Keeper::start(command, false, Hearing::ToEnd)?;
    let tell = |line: String| drop((&socket).write_all(line.as_bytes()));
    let (mut root, mut status, mut is_wanted) = (None, 0, true);
    loop {
        for report in keeper.reports()? {
            match report {
                Report::Started(pid) => {
                    root = Some(pid);
                    tell(format!("started {pid}\n"));
                }
                Report::NotStarted(errno) => {
                    tell(format!("refused {errno}\n"));
                    return Ok(NOT_STARTED);
                }
                Report::Ended(ended) if Some(ended.pid) == root => {
                    status = i32::try_from(ended.status).unwrap_or(1);
                    tell(format!("ended {status}\n"));
                }
                Report::Ended(_) => {}
                Report::Empty => {
                    keeper.join();
                    if let Some(scratch) = scratch.filter(|_| !is_wanted) {
                        // The harness may have done it itself.
                        let _ = std::fs::remove_dir_all(scratch);
                    }
                    return Ok(status);
                }
            }
        }
        let mut ready = vec![PollFd::new(keeper.as_fd(), PollFlags::POLLIN)];
        if is_wanted {
            ready.push(PollFd::new(socket.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        // The harness never sends anything; it only ends, or closes its side.
        if ready.get(1).and_then(PollFd::any).unwrap_or(false) {
            is_wanted = false;
            keeper.kill();
        }
    }
}
