//! Receives the child's message, and ends the child.

use super::child::Exit;
use super::limits::PATIENCE;
use super::{GaveUp, Limits};
use crate::pinned::open_pidfd;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::{PipeReader, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// Bytes read at once.
const STEP: usize = 64 << 10;
/// Maximum length of the child's last words.
const MAX_LAST_WORDS: usize = 512;

/// A child that has not been awaited, so that its PID is still its own; killed when dropped.
struct Child(Option<Pid>);

impl Child {
    /// Ends it, if still running, and returns its wait status.
    fn end(mut self) -> Option<WaitStatus> {
        let child = self.0.take()?;
        reap(child)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(child) = self.0.take() {
            let _ = kill(child, Signal::SIGKILL);
            reap(child);
        }
    }
}

fn reap(child: Pid) -> Option<WaitStatus> {
    loop {
        match waitpid(child, None) {
            Err(Errno::EINTR) => {}
            status => return status.ok(),
        }
    }
}

/// Receives the message of a child within its limits.
///
/// # Errors
/// The reason why there is none.
pub(super) fn receive(
    child: Pid,
    limits: &Limits,
    message: PipeReader,
    errors: PipeReader,
) -> Result<Vec<u8>, GaveUp> {
    let ended = open_pidfd(crate::Pid(child.as_raw())).ok().flatten();
    let child = Child(Some(child));
    let begun = Instant::now();
    let deadline = begun + limits.deadline.saturating_mul(PATIENCE);
    let late = || GaveUp::Deadline { after: begun.elapsed() };
    let most = limits.message_bytes.saturating_add(1);
    let bytes = read_until(&message, ended.as_ref(), most, deadline)?.ok_or_else(late)?;
    if bytes.len() > limits.message_bytes {
        return Err(GaveUp::TooLarge { bytes: limits.message_bytes });
    }
    let words = read_until(&errors, ended.as_ref(), MAX_LAST_WORDS, deadline)?.ok_or_else(late)?;
    let words = String::from_utf8_lossy(&words).into_owned();
    match child.end() {
        Some(WaitStatus::Exited(_, status)) => match Exit::of(status) {
            Some(Exit::Done) => Ok(bytes),
            Some(Exit::Unconfined) => Err(GaveUp::Unconfined { reason: first_line(&words) }),
            Some(Exit::Panicked) => Err(GaveUp::Panicked { message: first_line(&words) }),
            None => Err(GaveUp::Garbled),
        },
        Some(WaitStatus::Signaled(_, Signal::SIGXCPU, _)) => Err(late()),
        // The standard library's message before it aborts (`std::alloc::handle_alloc_error`).
        Some(WaitStatus::Signaled(_, Signal::SIGABRT, _)) if words.contains("memory allocation of") => {
            Err(GaveUp::Memory { bytes: limits.memory_bytes })
        }
        Some(WaitStatus::Signaled(_, signal, _)) => Err(GaveUp::Crashed { signal }),
        _ => Err(GaveUp::Garbled),
    }
}

/// Reads to the end or to a limit; `None` if the deadline comes first. The end is that of the pipe or of the child,
/// whichever comes first, since a process forked meanwhile by another thread may hold the pipe open.
fn read_until(
    mut pipe: &PipeReader,
    ended: Option<&OwnedFd>,
    most: usize,
    deadline: Instant,
) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    while bytes.len() < most {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        // Rounded up, because a timeout of 0 would return without waiting.
        let left = (left + Duration::from_millis(1)).as_millis().min(60_000) as u16;
        let waited_for = std::iter::once(pipe.as_fd()).chain(ended.map(|ended| ended.as_fd()));
        let mut ready: Vec<_> = waited_for.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut ready, PollTimeout::from(left)) {
            Ok(0) | Err(Errno::EINTR) => continue,
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        if !ready.first().and_then(PollFd::any).unwrap_or(false) {
            // It has ended, and all that it wrote before was read.
            break;
        }
        let from = bytes.len();
        bytes.resize(most.min(from + STEP), 0);
        // Readable or at its end, so this does not block.
        let read = pipe.read(&mut bytes[from..])?;
        bytes.truncate(from + read);
        if read == 0 {
            break;
        }
    }
    Ok(Some(bytes))
}

/// Returns one line without control characters, since a crash message may quote the target.
fn first_line(words: &str) -> String {
    let line = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason given");
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}
