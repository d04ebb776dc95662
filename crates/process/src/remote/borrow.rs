//! Borrowing one thread for a call, and giving it back.

use super::arch::ALL_SIGNALS;
use super::call::{Call, Safety};
use super::completion::{Completion, Waiter};
use super::host::Host;
use super::injection::{Announcement, Injection};
use super::preflight;
use super::refusal::{Failure, Unfit};
use super::remaining::Remaining;
use super::saved::Saved;
use super::threads::{self, Blocked, bit};
use super::tracee::{Stop, Tracee};
use super::wait::{ERESTARTNOHAND, Interrupted, Resumption};
use crate::Error;
use nix::libc;
use std::time::{Duration, Instant};

/// The longest wait for an attached thread to stop: it is blocked in an interruptible wait.
const STOP_PATIENCE: Duration = Duration::from_millis(500);
/// Signals that do nothing by default, of which one announces to Unbloat that the call is over.
const ANNOUNCERS: [i32; 3] = [libc::SIGURG, libc::SIGWINCH, libc::SIGCHLD];

/// How long a thread was held still, and how long it was away.
pub(super) struct Times {
    /// From asking it to stop to letting it go into the call.
    pub(super) held: Duration,
    /// From there until it was back in its system call.
    pub(super) borrowed: Duration,
}

/// Stops one thread, looks at it, and makes the call on it if all is well.
///
/// # Errors
/// It was not borrowed, and is back in its system call.
pub(super) fn borrow(
    host: &Host<'_>,
    blocked: &Blocked,
    call: &Call,
    check: &mut impl FnMut() -> Safety,
) -> Result<Times, Failure> {
    let mut loan = Loan::prepare(host, blocked, call)?;
    let mut tracee = Tracee::seize(blocked.tid).map_err(|errno| not_seized(host, errno))?;
    let asked = Instant::now();
    tracee.interrupt()?;
    let stopped = match tracee.wait(STOP_PATIENCE)? {
        Some(Stop::Interrupted) => loan.make_ready(&tracee, check),
        Some(Stop::Signal(signal)) => {
            // It is being woken by a signal of its own: let it have that.
            tracee.detach(signal)?;
            return Err(Unfit::SignalPending.into());
        }
        Some(Stop::Group) => Err(Unfit::Stopped.into()),
        Some(Stop::SystemCall | Stop::Ended) => Err(Unfit::Woke.into()),
        None => Err(Unfit::NotStopping.into()),
    };
    let (saved, injection) = match stopped {
        Ok(ready) => ready,
        Err(failure) => {
            loan.cancel(&tracee)?;
            return Err(failure);
        }
    };
    let attended = matches!(blocked.known.resumption, Resumption::KernelDeadline(_));
    // From here on the thread is on another course, whatever becomes of Unbloat. Signals are blocked second, so
    // that at no moment is it on its own course with its signals blocked; they stay blocked until it is back.
    tracee.set_registers(if attended { &injection.direct } else { &injection.through_signal_return })?;
    tracee.set_signal_mask(ALL_SIGNALS)?;
    let going = Instant::now();
    let waiter = Waiter {
        announcer: loan.announcement.signal,
        behind_announcement: host.behind_system_call(),
        injection: &injection,
        signal_return: host.signal_return(),
        attendance: attended.then_some(call.attendance),
    };
    let completion = waiter.wait_on(&mut tracee)?;
    loan.give_back(tracee, saved, &injection, completion)?;
    Ok(Times { held: going - asked, borrowed: going.elapsed() })
}

/// A thread that is to be borrowed, with everything that must be known of it before it is stopped.
struct Loan<'a> {
    host: &'a Host<'a>,
    blocked: &'a Blocked,
    call: &'a Call,
    announcement: Announcement,
    remaining: Option<Remaining>,
}

impl<'a> Loan<'a> {
    fn prepare(host: &'a Host<'a>, blocked: &'a Blocked, call: &'a Call) -> Result<Self, Failure> {
        if blocked.known.file.is_some_and(|file| !preflight::reads_survive(host.pid, file.descriptor)) {
            return Err(Unfit::FileWait.into());
        }
        let signal = announcer(host, blocked.tid)?;
        let (process, thread) = threads::own_numbers(host.pid, blocked.tid).ok_or(Unfit::Woke)?;
        let remaining = Remaining::of(host.pid, host.memory, blocked)?;
        Ok(Loan { host, blocked, call, announcement: Announcement { signal, process, thread }, remaining })
    }

    /// Looks at the stopped thread, asks the caller, and lays out the chain. The thread's course is not changed.
    fn make_ready(
        &mut self,
        tracee: &Tracee,
        check: &mut impl FnMut() -> Safety,
    ) -> Result<(Saved, Injection), Failure> {
        let (host, blocked, call) = (self.host, self.blocked, self.call);
        let saved = Saved::of(host, tracee, blocked, call)?;
        if let Some(remaining) = &mut self.remaining {
            remaining.learn(host.memory, blocked);
        }
        if let Safety::Busy(why) = check() {
            return Err(Failure::Busy(why));
        }
        let remaining = self.remaining.as_ref();
        let injection = Injection::prepare(host, &saved, blocked, call, remaining, self.announcement)?;
        host.write(injection.chain.base, &injection.chain.bytes)?;
        Ok((saved, injection))
    }

    /// Lets a thread that is not borrowed go on. An interrupted `epoll_wait` would return `EINTR`: its call is made
    /// again.
    fn cancel(&self, tracee: &Tracee) -> Result<(), Failure> {
        let Ok(mut registers) = tracee.registers() else { return Ok(()) };
        if self.blocked.still_there(&registers) == Some(Interrupted::Eintr) {
            registers.set_result(-ERESTARTNOHAND);
            if let Some(remaining) = &self.remaining {
                remaining.put_into(&mut registers, None);
            }
            tracee.set_registers(&registers)?;
        }
        Ok(())
    }

    /// Gives the thread back its saved state, its registers last. If anything here fails, the chain does it.
    fn give_back(
        &self,
        tracee: Tracee,
        mut saved: Saved,
        injection: &Injection,
        completion: Completion,
    ) -> Result<(), Failure> {
        let remaining = self.remaining.as_ref();
        let registers = match completion {
            Completion::LeftAlone => return Ok(()),
            Completion::BeforeSignalReturn => saved.registers,
            Completion::Announced => saved.way_back(self.blocked, remaining, injection.timespec_at),
        };
        if let (Some(bytes), Some(address)) =
            (remaining.and_then(Remaining::as_timespec), injection.timespec_at)
        {
            self.host.write(address, &bytes)?;
        }
        self.host.write(saved.errno_address, &saved.errno.to_le_bytes())?;
        tracee.set_extended_state(&mut saved.state)?;
        tracee.set_signal_mask(saved.mask)?;
        tracee.set_registers(&registers)?;
        Ok(tracee.detach(0)?)
    }
}

fn not_seized(host: &Host<'_>, errno: nix::Error) -> Failure {
    match errno {
        nix::Error::ESRCH => Unfit::Woke.into(),
        errno => Failure::Refused(Error::from_io(host.pid, "the threads", errno.into()).into()),
    }
}

/// A signal that the thread neither handles nor blocks and that is ignored by default.
fn announcer(host: &Host<'_>, tid: i32) -> Result<i32, Failure> {
    let sets = threads::signals(host.pid, tid)?;
    let taken = sets.caught | sets.blocked;
    let free = ANNOUNCERS.into_iter().find(|&signal| taken & bit(signal) == 0);
    Ok(free.ok_or(Unfit::NoSignalFree)?)
}
