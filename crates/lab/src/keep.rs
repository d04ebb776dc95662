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

/// Status of `unbloat keep` when the command cannot be started, as a shell has it.
const NOT_STARTED: i32 = 127;

/// How long a start or an end of `unbloat keep` itself may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The command `unbloat keep -- WORDS`, to which the caller adds environment, directory, stdout and stderr.
#[must_use]
pub fn command(unbloat: &Path, words: &[String]) -> Command {
    let mut command = Command::new(unbloat);
    command.args(["keep", "--"]).args(words);
    command
}

/// Something that was started, and is ended when this is dropped.
#[derive(Debug)]
pub struct Kept {
    child: Child,
    socket: UnixStream,
    heard: String,
    pid: Pid,
    ended: Option<i32>,
}

impl Kept {
    /// Starts what [`command`] made.
    ///
    /// # Errors
    /// The kernel's reason why the program cannot be started.
    pub fn start(mut command: Command) -> io::Result<Kept> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        // The builder holds the other end of the socket, too.
        drop(command);
        let mut kept = Kept { child, socket: ours, heard: String::new(), pid: Pid(0), ended: None };
        kept.wait(PATIENCE, |kept| kept.pid != Pid(0) || kept.ended.is_some())?;
        match (kept.pid, kept.ended) {
            (Pid(0), Some(errno)) => Err(io::Error::from_raw_os_error(errno)),
            (Pid(0), None) => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(kept),
        }
    }

    /// The command's process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Its stdout, if it is a pipe; once.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its stderr, if it is a pipe; once.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// The status that the command has ended with, as a shell shows it; others of its tree may go on.
    pub fn ended(&mut self) -> Option<i32> {
        let _ = self.wait(Duration::ZERO, |kept| kept.ended.is_some());
        self.ended
    }

    /// Returns whether everything that came of the command has ended.
    pub fn is_gone(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// What runs of the command's tree, orphans too.
    #[must_use]
    pub fn tree(&self) -> Vec<Pid> {
        let Ok(tree) = Tree::read() else { return Vec::new() };
        // First `unbloat keep` itself, then its keeper.
        tree.below(Pid(self.child.id().cast_signed())).into_iter().skip(2).collect()
    }

    /// Takes in what `unbloat keep` says until `done`, or for so long.
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

/// `unbloat keep -- WORDS`: starts the command and stays until nothing of it is left. Stdin is the socket. The status to
/// leave with.
///
/// # Errors
/// Stdin is no socket, or the kernel makes no process.
pub fn serve(words: &[String]) -> io::Result<i32> {
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
        // The harness never says anything; it only ends, or closes its side.
        if ready.get(1).and_then(PollFd::any).unwrap_or(false) {
            is_wanted = false;
            keeper.kill();
        }
    }
}
