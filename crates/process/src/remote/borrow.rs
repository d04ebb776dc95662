//! Borrows one thread for a call and gives it back.

use super::arch::ALL_SIGNALS;
use super::call::{Call, Returned, Safety};
use super::completion::{Completion, Waiter};
use super::host::{Host, Writer};
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

/// Time limit for an attached thread to stop; it is in an interruptible wait.
const STOP_PATIENCE: Duration = Duration::from_millis(500);
/// Signals that do nothing by default, one of which announces the end of the call to Unbloat.
const ANNOUNCERS: [i32; 3] = [libc::SIGURG, libc::SIGWINCH, libc::SIGCHLD];

/// A borrowed thread.
pub(super) struct Loaned {
    /// From the request to stop until it is sent into the call.
    pub(super) held: Duration,
    /// From there until it was back in its system call, or left alone.
    pub(super) borrowed: Duration,
    /// The way in which the thread got back.
    pub(super) returned: Returned,
}

/// The way in which a thread returns to its system call after the call.
enum WayBack {
    /// The kernel still has the thread's deadline, so it continues as after any interruption.
    AsInterrupted,
    /// The system call is made again, with the remaining time.
    CallAgain,
}

/// Stops one thread, examines it, and makes the call on it if all is well.
///
/// # Errors
/// It was not borrowed, and is back in its system call.
pub(super) fn borrow(
    host: &Host<'_>,
    blocked: &Blocked,
    call: &Call,
    check: &mut impl FnMut() -> Safety,
) -> Result<Loaned, Failure> {
    let mut loan = Loan::prepare(host, blocked, call)?;
    let mut tracee = Tracee::seize(blocked.tid).map_err(|errno| not_seized(host, errno))?;
    let writer = Writer::open(host.pid)?;
    host.check(blocked.tid)?;
    let asked = Instant::now();
    tracee.interrupt()?;
    let stopped = match tracee.wait(STOP_PATIENCE)? {
        Some(Stop::Interrupted) => loan.make_ready(&tracee, &writer, check),
        Some(Stop::Signal(signal)) => {
            // It is being woken by a signal of its own; deliver that.
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
    // From here on the thread is on another course, whatever becomes of Unbloat. Signals are blocked second,
    // so that the thread is never on its own course with its signals blocked; they stay blocked until it is
    // back.
    tracee.set_registers(if attended { &injection.direct } else { &injection.through_signal_return })?;
    let going = Instant::now();
    let away = Away { loan: &loan, writer, saved, injection, attended };
    let returned = match away.see_through(tracee) {
        Ok(returned) => returned,
        Err(Failure::Refused(refusal)) => return Err(refusal.into()),
        // No further attempt: the call has begun.
        Err(Failure::Unfit(_) | Failure::Busy(_)) => host.lost_sight()?,
    };
    Ok(Loaned { held: going - asked, borrowed: going.elapsed(), returned })
}

/// A thread to be borrowed, with everything that must be known of it before it is stopped.
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

    /// Examines the stopped thread, asks the caller, and lays out the chain. The thread's course is
    /// unchanged.
    fn make_ready(
        &mut self,
        tracee: &Tracee,
        writer: &Writer,
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
        writer.write(injection.chain.base, &injection.chain.bytes)?;
        host.check(blocked.tid)?;
        Ok((saved, injection))
    }

    /// Resumes a thread that is not borrowed. An interrupted `epoll_wait` would return `EINTR`, so its call
    /// is made again.
    fn cancel(&self, tracee: &Tracee) -> Result<(), Failure> {
        let Ok(mut registers) = tracee.registers() else { return Ok(()) };
        if self.blocked.still_there(&registers) == Some(Interrupted::Eintr) {
            registers.set_result(-ERESTARTNOHAND);
            if let Some(remaining) = &self.remaining {
                remaining.put_into(&mut registers);
            }
            tracee.set_registers(&registers)?;
        }
        Ok(())
    }
}

/// A thread on its way through the chain, with everything needed to give it back.
struct Away<'a> {
    loan: &'a Loan<'a>,
    writer: Writer,
    saved: Saved,
    injection: Injection,
    /// The thread is supervised from system call to system call.
    attended: bool,
}

impl Away<'_> {
    /// Waits for the end of the call and gives the thread back. If anything here fails, the chain gives it
    /// back.
    ///
    /// # Errors
    /// The thread has ended, usually along with its process.
    fn see_through(mut self, mut tracee: Tracee) -> Result<Returned, Failure> {
        let host = self.loan.host;
        tracee.set_signal_mask(ALL_SIGNALS)?;
        let waiter = Waiter {
            announcer: self.loan.announcement.signal,
            behind_announcement: host.behind_system_call(),
            injection: &self.injection,
            signal_return: host.signal_return(),
            attendance: self.attended.then_some(self.loan.call.attendance),
        };
        let way_back = match waiter.wait_on(&mut tracee)? {
            Completion::LeftAlone(why) => return Ok(Returned::LeftAlone(why)),
            Completion::BeforeSignalReturn => WayBack::AsInterrupted,
            Completion::Announced => WayBack::CallAgain,
            Completion::Ended => return Ok(host.lost_sight()?),
        };
        self.writer.write(self.saved.errno_address, &self.saved.errno.to_le_bytes())?;
        tracee.set_extended_state(&mut self.saved.state)?;
        tracee.set_signal_mask(self.saved.mask)?;
        match way_back {
            WayBack::AsInterrupted => {
                tracee.set_registers(&self.saved.registers)?;
                tracee.detach(0)?;
            }
            WayBack::CallAgain => {
                let (blocked, remaining) = (self.loan.blocked, self.loan.remaining.as_ref());
                tracee.set_registers(&self.saved.way_back(blocked, remaining))?;
                let signal = self.shorten_timeout(&mut tracee)?;
                tracee.detach(signal)?;
            }
        }
        Ok(Returned::Back)
    }

    /// Makes the kernel wait for the remaining time only, for a timeout passed as the address of a
    /// `timespec`. Returns a signal to deliver to the thread: its handler then runs, and the wait ends as
    /// that signal would end it.
    ///
    /// On entry to the system call its argument is pointed to the remaining time. The kernel reads that next,
    /// and no signal handler can intervene. Interrupted again at once, the thread has a deadline kept by the
    /// kernel, and gets its argument back.
    fn shorten_timeout(&self, tracee: &mut Tracee) -> Result<i32, Failure> {
        let (Some(remaining), Some(address)) = (&self.loan.remaining, self.injection.timespec_at) else {
            return Ok(0);
        };
        tracee.resume_to_system_call()?;
        match tracee.wait(STOP_PATIENCE)? {
            Some(Stop::SystemCall) => {}
            Some(Stop::Signal(signal)) => return Ok(signal),
            // Stopped by job control, interrupted, or gone: its full timeout applies again, and it ends late.
            Some(Stop::Group | Stop::Interrupted | Stop::Ended) | None => return Ok(0),
        }
        let mut registers = tracee.registers()?;
        let call = &self.loan.blocked.call;
        let same_call = registers.system_call() == call.number
            && registers.arguments() == call.arguments
            && registers.stack_pointer() == self.saved.registers.stack_pointer();
        let Some(bytes) = remaining.as_timespec().filter(|_| same_call) else { return Ok(0) };
        self.writer.write(address, &bytes)?;
        remaining.point_to(address, &mut registers);
        tracee.set_registers(&registers)?;
        tracee.interrupt()?;
        tracee.resume(0)?;
        let signal = match tracee.wait(STOP_PATIENCE)? {
            Some(Stop::Signal(signal)) => signal,
            Some(Stop::Interrupted | Stop::Group | Stop::SystemCall) => 0,
            Some(Stop::Ended) | None => return Ok(0),
        };
        let mut registers = tracee.registers()?;
        remaining.point_back(&call.arguments, &mut registers);
        tracee.set_registers(&registers)?;
        Ok(signal)
    }
}

fn not_seized(host: &Host<'_>, errno: nix::Error) -> Failure {
    match errno {
        nix::Error::ESRCH => Unfit::Woke.into(),
        errno => Failure::Refused(Error::from_io(host.pid, "the threads", errno.into()).into()),
    }
}

/// Chooses a signal that the thread neither handles nor blocks and that is ignored by default.
fn announcer(host: &Host<'_>, tid: i32) -> Result<i32, Failure> {
    let sets = threads::signals(host.pid, tid)?;
    let taken = sets.caught | sets.blocked;
    let free = ANNOUNCERS.into_iter().find(|&signal| taken & bit(signal) == 0);
    Ok(free.ok_or(Unfit::NoSignalFree)?)
}
