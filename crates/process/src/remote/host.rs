//! Finding a thread of a process that can be borrowed, until there is one or the time is over.

use super::borrow::Times;
use super::call::{Borrowed, Call, Verdict};
use super::footholds::Footholds;
use super::moment;
use super::refusal::{Refusal, Unfit};
use super::threads;
use crate::{Error, LiveMemory, Maps, Memory, Pid};
use nix::sys::uio::{RemoteIoVec, process_vm_writev};
use std::io::IoSlice;
use std::ops::Range;
use std::time::{Duration, Instant};

/// A process in which functions can be called.
#[derive(Debug)]
pub struct Host<'a> {
    /// The process.
    pub pid: Pid,
    /// Its memory.
    pub memory: &'a LiveMemory,
    /// Its mappings, as of a moment ago.
    pub maps: &'a Maps,
    /// Places in its libc.
    pub footholds: &'a Footholds,
}

/// Pauses between attempts: the first, and the longest.
const BACKOFF: Range<Duration> = Duration::from_millis(2)..Duration::from_millis(64);

/// Why one thread was not borrowed.
pub(super) enum Failure {
    /// Not this thread, or not now.
    Unfit(Unfit),
    /// Not now, on no thread.
    Busy(&'static str),
    /// Not in this process.
    Refused(Refusal),
}

impl From<Unfit> for Failure {
    fn from(unfit: Unfit) -> Self {
        Failure::Unfit(unfit)
    }
}

impl From<nix::Error> for Failure {
    fn from(errno: nix::Error) -> Self {
        match errno {
            // The thread has ended, or is not stopped any more: it was killed.
            nix::Error::ESRCH | nix::Error::ECHILD => Failure::Unfit(Unfit::Woke),
            errno => Failure::Refused(Refusal::Process(Error::from_io(Pid(0), "its threads", errno.into()))),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Gone { .. } => Failure::Unfit(Unfit::Woke),
            error => Failure::Refused(Refusal::Process(error)),
        }
    }
}

impl Host<'_> {
    /// Calls a function on a thread that is blocked in a system call of the known list, and brings the thread back.
    ///
    /// `check` is asked while the thread is stopped, and everything else runs; it must be quick.
    ///
    /// # Errors
    /// No thread could be borrowed within `timeout`, or the process is gone or may not be touched.
    pub fn call(
        &self,
        call: &Call,
        timeout: Duration,
        mut check: impl FnMut() -> Verdict,
    ) -> Result<Borrowed, Refusal> {
        let start = Instant::now();
        let (mut retries, mut backoff) = (0, BACKOFF.start);
        loop {
            let why = match self.attempt_any(call, &mut check, &mut retries) {
                Ok(borrowed) => return Ok(borrowed),
                Err(Attempts::Refused(refusal)) => return Err(refusal),
                Err(Attempts::NotNow(why)) => why,
            };
            if start.elapsed() + backoff > timeout {
                return Err(Refusal::NoSafePoint { waited: start.elapsed(), why });
            }
            std::thread::sleep(backoff);
            backoff = (backoff * 2).min(BACKOFF.end);
        }
    }

    /// Every thread that is blocked in a call of the known list, once.
    fn attempt_any(
        &self,
        call: &Call,
        check: &mut impl FnMut() -> Verdict,
        retries: &mut u32,
    ) -> Result<Borrowed, Attempts> {
        let candidates = threads::candidates(self.pid, |pc| self.call_number_before(pc))
            .map_err(|error| Attempts::Refused(error.into()))?;
        let mut why = "no thread is blocked in a system call that can be interrupted unseen".to_owned();
        for blocked in candidates {
            match self.borrow(&blocked, call, check) {
                Ok(Times { held, borrowed }) => {
                    let (thread, wait) = (Pid(blocked.tid), blocked.known.name);
                    return Ok(Borrowed { thread, wait, held, borrowed, retries: *retries });
                }
                Err(Failure::Refused(refusal)) => return Err(Attempts::Refused(refusal)),
                Err(Failure::Busy(busy)) => {
                    *retries += 1;
                    return Err(Attempts::NotNow(busy.to_owned()));
                }
                Err(Failure::Unfit(unfit)) => {
                    *retries += 1;
                    why = unfit.to_string();
                }
            }
        }
        Err(Attempts::NotNow(why))
    }

    /// The system call number that the code before `pc` loads: `mov $NUMBER,%eax; syscall`.
    fn call_number_before(&self, pc: u64) -> Option<i64> {
        let mut code = [0; 7];
        self.memory.read(pc.checked_sub(7)?, &mut code).ok()?;
        match code {
            [0xb8, a, b, c, d, 0x0f, 0x05] => Some(i64::from(i32::from_le_bytes([a, b, c, d]))),
            _ => None,
        }
    }

    /// Where libc makes the system call `rt_sigreturn`.
    pub(super) fn signal_return(&self) -> u64 {
        self.footholds.signal_returns.first().copied().unwrap_or_default()
    }

    /// Writes to the target, wholly or not at all.
    ///
    /// # Errors
    /// The memory is not there, or the process is gone.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        let pid = nix::unistd::Pid::from_raw(self.pid.0);
        let range = RemoteIoVec { base: address as usize, len: bytes.len() };
        let written = process_vm_writev(pid, &[IoSlice::new(bytes)], &[range]);
        moment();
        match written {
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(_) | Err(nix::Error::EFAULT) => Err(Unfit::NoRoom.into()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Why no thread was borrowed in one round.
enum Attempts {
    NotNow(String),
    Refused(Refusal),
}

/// The bit of a signal in a set.
pub(super) fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}
