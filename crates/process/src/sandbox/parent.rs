//! Receives the child's message, and ends the child.

use super::child::Exit;
use super::limits::PATIENCE;
use super::{GaveUp, Limits, spent};
use crate::pinned::open_pidfd;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use std::io::{PipeReader, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// Bytes read at once.
const STEP: usize = 64 << 10;
/// Maximum length of the child's last words.
const MAX_LAST_WORDS: usize = 512;

/// Time for a killed child to end. One that waits for a file system that does not answer (a page of a FUSE file that the target
/// has mapped) cannot be killed; it is left behind.
const KILLED: Duration = Duration::from_secs(2);

/// A child that has not been awaited, so that its PID is still its own; killed when dropped.
#[derive(Debug)]
pub(super) struct Child {
    pid: Option<Pid>,
    /// Readable when it has ended; `None` before Linux 5.3.
    ended: Option<OwnedFd>,
}

impl Child {
    /// The child with this PID, which nobody else awaits.
    pub(super) fn of(pid: Pid) -> Self {
        Child { pid: Some(pid), ended: open_pidfd(crate::Pid(pid.as_raw())).ok().flatten() }
    }

    /// Waits for its end, and returns its wait status; `None` if it has not ended by then, and is killed.
    fn end(mut self, deadline: Instant) -> Option<WaitStatus> {
        if self.ends_by(deadline) { reap(self.pid.take()?) } else { None }
    }

    /// Returns whether it ends in time, as far as the kernel tells.
    fn ends_by(&self, deadline: Instant) -> bool {
        let Some(ended) = &self.ended else { return true };
        loop {
            match poll(&mut [PollFd::new(ended.as_fd(), PollFlags::POLLIN)], until(deadline)) {
                Ok(1..) => return true,
                Ok(0) | Err(Errno::EINTR) if Instant::now() < deadline => {}
                _ => return false,
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(pid) = self.pid.take() {
            let _ = kill(pid, Signal::SIGKILL);
            if self.ends_by(Instant::now() + KILLED) {
                reap(pid);
            }
        }
    }
}

/// Returns the time until a deadline, rounded up, because a timeout of 0 would return without waiting; a minute at most.
fn until(deadline: Instant) -> PollTimeout {
    let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
    PollTimeout::from(left.as_millis().min(60_000) as u16)
}

/// Waits for its end, and adds its processor time to that of looks.
fn reap(child: Pid) -> Option<WaitStatus> {
    loop {
        let mut status = 0;
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both are written by the kernel and live until the call returns; all zeros is a valid `rusage`.
        let (ended, usage) = unsafe {
            let ended = libc::wait4(child.as_raw(), &raw mut status, 0, usage.as_mut_ptr());
            (ended, usage.assume_init())
        };
        match Errno::result(ended) {
            Err(Errno::EINTR) => {}
            Err(_) => return None,
            Ok(_) => {
                spent::add(time(usage.ru_utime) + time(usage.ru_stime));
                return WaitStatus::from_raw(child, status).ok();
            }
        }
    }
}

fn time(of: libc::timeval) -> Duration {
    let seconds = u64::try_from(of.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(of.tv_usec).unwrap_or(0))
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
    let child = Child::of(child);
    let ended = child.ended.as_ref();
    let begun = Instant::now();
    let deadline = begun + limits.deadline.saturating_mul(PATIENCE);
    let late = || GaveUp::Deadline { after: begun.elapsed() };
    let most = limits.message_bytes.saturating_add(1);
    let bytes = read_until(&message, ended, most, deadline)?.ok_or_else(late)?;
    if bytes.len() > limits.message_bytes {
        return Err(GaveUp::TooLarge { bytes: limits.message_bytes });
    }
    let words = read_until(&errors, ended, MAX_LAST_WORDS, deadline)?.ok_or_else(late)?;
    let words = String::from_utf8_lossy(&words).into_owned();
    match child.end(deadline) {
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
        Some(_) => Err(GaveUp::Garbled),
        None => Err(late()),
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
        if Instant::now() >= deadline {
            return Ok(None);
        }
        let waited_for = std::iter::once(pipe.as_fd()).chain(ended.map(|ended| ended.as_fd()));
        let mut ready: Vec<_> = waited_for.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut ready, until(deadline)) {
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
