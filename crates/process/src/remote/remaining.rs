//! The remaining time of a thread's relative timeout.
//!
//! For some waits the kernel keeps the deadline in the thread, where nobody can read it, and forgets it at
//! the first signal return. The remaining time is then taken from the kernel (`nanosleep` writes it for the
//! caller), or computed from how long the thread has slept. Where neither is exact the wait ends late, never
//! early.

use super::arch::Registers;
use super::refusal::{Failure, Unfit};
use super::threads::{self, Blocked};
use super::wait::{Resumption, Timeout, milliseconds_up};
use crate::{LiveMemory, Memory, Pid};
use std::time::{Duration, Instant};

/// The remaining time of a timeout at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remaining {
    timeout: Timeout,
    left: Duration,
    at: Instant,
}

impl Remaining {
    /// Returns the remaining time of a blocked thread; `None` if the same arguments still mean the same. Call
    /// this before stopping the thread.
    ///
    /// # Errors
    /// The kernel forgets the timeout when it interrupts the call, and does not report how long the thread
    /// has slept.
    pub(super) fn of(pid: Pid, memory: &LiveMemory, blocked: &Blocked) -> Result<Option<Self>, Failure> {
        let (timeout, kernel_knows) = match blocked.known.resumption {
            Resumption::SameCall => return Ok(None),
            Resumption::KernelDeadline(timeout) => (timeout, true),
            Resumption::Forgotten(timeout) => (timeout, false),
        };
        let arguments = &blocked.call.arguments;
        let whole = match timeout {
            Timeout::Milliseconds(index) => Some(Duration::from_millis(arguments[index] & 0x7fff_ffff)),
            // Left below the stack by an Unbloat that was killed; the memory may contain anything by now.
            Timeout::Timespec(index) | Timeout::TimespecWithRest(index, _)
                if lies_below(arguments[index], blocked.stack_pointer) =>
            {
                None
            }
            Timeout::Timespec(index) | Timeout::TimespecWithRest(index, _) => {
                timespec(memory, arguments[index])
            }
        };
        let whole = whole.ok_or(Unfit::TimeoutUnknown)?;
        let slept = threads::asleep_for(pid, blocked.tid);
        // Afterwards, so that time passing meanwhile is not counted twice.
        let at = Instant::now();
        let left = match slept.and_then(|slept| whole.checked_sub(slept)) {
            Some(left) => left,
            // After an earlier interruption less than this remains: late, never early.
            None if kernel_knows => whole,
            None => return Err(Unfit::TimeoutUnknown.into()),
        };
        Ok(Some(Remaining { timeout, left, at }))
    }

    /// Takes over the time that the kernel wrote for the caller when it interrupted the call.
    pub(super) fn learn(&mut self, memory: &LiveMemory, blocked: &Blocked) {
        if let Timeout::TimespecWithRest(_, written) = self.timeout
            && let Some(left) = timespec(memory, blocked.call.arguments[written])
        {
            (self.left, self.at) = (left, Instant::now());
        }
    }

    /// Returns the time remaining now.
    fn now(&self) -> Duration {
        self.left.saturating_sub(self.at.elapsed())
    }

    /// Returns the remaining time as the bytes of a `struct timespec`, if the call takes it in that form.
    pub(super) fn as_timespec(&self) -> Option<[u8; 16]> {
        if matches!(self.timeout, Timeout::Milliseconds(_)) {
            return None;
        }
        let left = self.now();
        let mut bytes = [0; 16];
        let (seconds, nanoseconds) = bytes.split_at_mut(8);
        seconds.copy_from_slice(&left.as_secs().to_le_bytes());
        nanoseconds.copy_from_slice(&u64::from(left.subsec_nanos()).to_le_bytes());
        Some(bytes)
    }

    /// Puts the remaining time into the call's argument, if the argument is the timeout itself.
    pub(super) fn put_into(&self, registers: &mut Registers) {
        if let Timeout::Milliseconds(index) = self.timeout {
            registers.set_argument(index, milliseconds_up(self.now()));
        }
    }

    /// Points the call's argument to a `timespec` at `address`, if it takes a pointer.
    pub(super) fn point_to(&self, address: u64, registers: &mut Registers) {
        if let Some(index) = self.timeout.pointer() {
            registers.set_argument(index, address);
        }
    }

    /// Points the call's argument back to the program's own `timespec`.
    pub(super) fn point_back(&self, arguments: &[u64; 6], registers: &mut Registers) {
        if let Some(index) = self.timeout.pointer() {
            registers.set_argument(index, arguments[index]);
        }
    }
}

/// Returns whether an address lies where a chain was laid out.
fn lies_below(address: u64, stack_pointer: u64) -> bool {
    const CHAIN_BYTES: u64 = 64 << 10;
    (stack_pointer.saturating_sub(CHAIN_BYTES)..stack_pointer).contains(&address)
}

/// Reads a `struct timespec` of the target.
fn timespec(memory: &LiveMemory, address: u64) -> Option<Duration> {
    let mut bytes = [0; 16];
    memory.read(address, &mut bytes).ok()?;
    let (seconds, nanoseconds) = bytes.split_at(8);
    let seconds = u64::from_le_bytes(seconds.try_into().ok()?);
    let nanoseconds = u64::from_le_bytes(nanoseconds.try_into().ok()?);
    (nanoseconds < 1_000_000_000).then(|| Duration::new(seconds, nanoseconds as u32))
}
