//! Receives the message of a look, and ends the child.

use super::child::Exit;
use super::{GaveUp, Limits};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::{PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// Bytes that are read at once.
const STEP: usize = 64 << 10;
/// Bytes of the child's last words.
const MAX_LAST_WORDS: usize = 512;

/// A child that has not been waited for, so that its number is its own; killed when dropped.
struct Child(Option<Pid>);

impl Child {
    /// Ends it, if it has not ended, and says how it did.
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
    let child = Child(Some(child));
    let deadline = Instant::now() + limits.deadline;
    let late = || GaveUp::Deadline { after: limits.deadline };
    let bytes = read_until(&message, limits.message_bytes.saturating_add(1), deadline)?.ok_or_else(late)?;
    if bytes.len() > limits.message_bytes {
        return Err(GaveUp::TooLarge { bytes: limits.message_bytes });
    }
    // The pipe of its last words closes when it ends, and not before.
    let words = read_until(&errors, MAX_LAST_WORDS, deadline)?.ok_or_else(late)?;
    let words = String::from_utf8_lossy(&words).into_owned();
    match child.end() {
        Some(WaitStatus::Exited(_, status)) => match Exit::of(status) {
            Some(Exit::Done) => Ok(bytes),
            Some(Exit::Unconfined) => Err(GaveUp::Unconfined { reason: first_line(&words) }),
            Some(Exit::Panicked) => Err(GaveUp::Panicked { message: first_line(&words) }),
            None => Err(GaveUp::Garbled),
        },
        Some(WaitStatus::Signaled(_, Signal::SIGXCPU, _)) => Err(late()),
        // What the standard library says before it aborts (`std::alloc::handle_alloc_error`).
        Some(WaitStatus::Signaled(_, Signal::SIGABRT, _)) if words.contains("memory allocation of") => {
            Err(GaveUp::Memory { bytes: limits.memory_bytes })
        }
        Some(WaitStatus::Signaled(_, signal, _)) => Err(GaveUp::Crashed { signal }),
        _ => Err(GaveUp::Garbled),
    }
}

/// Reads to the end or to a limit; `None` when the deadline comes first.
fn read_until(mut pipe: &PipeReader, most: usize, deadline: Instant) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    while bytes.len() < most {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        // Rounded up: a timeout of 0 would turn around without waiting.
        let left = (left + Duration::from_millis(1)).as_millis().min(60_000) as u16;
        match poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], PollTimeout::from(left)) {
            Ok(0) | Err(Errno::EINTR) => continue,
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        let from = bytes.len();
        bytes.resize(most.min(from + STEP), 0);
        // Readable or at its end: this does not wait.
        let read = pipe.read(&mut bytes[from..])?;
        bytes.truncate(from + read);
        if read == 0 {
            break;
        }
    }
    Ok(Some(bytes))
}

/// One line without control characters: words of a crash may quote the target.
fn first_line(words: &str) -> String {
    let line = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason given");
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}
