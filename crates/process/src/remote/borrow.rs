//! Borrowing one thread for a call, and giving it back.

use super::call::{Call, Verdict};
use super::errand::{Announcement, Errand};
use super::found::Found;
use super::frame::ALL_SIGNALS;
use super::host::{Failure, Host, bit};
use super::over::{Ending, Over};
use super::preflight;
use super::refusal::Unfit;
use super::rest::Rest;
use super::threads::{self, Blocked};
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

/// What is to be known of a thread before it is stopped.
struct Plan<'a> {
    blocked: &'a Blocked,
    call: &'a Call,
    announcement: Announcement,
    rest: Option<Rest>,
}

impl Host<'_> {
    /// One thread: stop, look, and if all is well call.
    ///
    /// # Errors
    /// It was not borrowed, and is back in its system call.
    pub(super) fn borrow(
        &self,
        blocked: &Blocked,
        call: &Call,
        check: &mut impl FnMut() -> Verdict,
    ) -> Result<Times, Failure> {
        let mut plan = self.plan(blocked, call)?;
        let mut tracee = Tracee::seize(blocked.tid).map_err(|errno| self.not_seized(errno))?;
        let asked = Instant::now();
        tracee.interrupt()?;
        let stopped = match tracee.wait(STOP_PATIENCE)? {
            Some(Stop::Interrupted) => self.make_ready(&tracee, &mut plan, check),
            Some(Stop::Signal(signal)) => {
                // It is being woken by a signal of its own: let it have that.
                tracee.detach(signal)?;
                return Err(Unfit::SignalPending.into());
            }
            Some(Stop::Group) => Err(Unfit::Stopped.into()),
            Some(Stop::SystemCall | Stop::Ended) => Err(Unfit::Woke.into()),
            None => Err(Unfit::NotStopping.into()),
        };
        let (found, errand) = match stopped {
            Ok(ready) => ready,
            Err(failure) => {
                send_back(&tracee, &plan)?;
                return Err(failure);
            }
        };
        let attended = matches!(blocked.known.resumption, Resumption::KernelDeadline(_));
        // From here on the thread is on another course, whatever becomes of Unbloat. Signals are blocked second, so
        // that at no moment is it on its own course with its signals blocked; they stay blocked until it is back.
        tracee.set_registers(if attended { &errand.direct } else { &errand.through_signal_return })?;
        tracee.set_signal_mask(ALL_SIGNALS)?;
        let going = Instant::now();
        let over = Over {
            announcer: plan.announcement.signal,
            behind_announcement: self.footholds.system_call + 2,
            errand: &errand,
            signal_return: self.signal_return(),
            attendance: attended.then_some(call.attendance),
        };
        let ending = over.wait_on(&mut tracee)?;
        self.give_back(tracee, &plan, found, &errand, ending)?;
        Ok(Times { held: going - asked, borrowed: going.elapsed() })
    }

    fn plan<'a>(&self, blocked: &'a Blocked, call: &'a Call) -> Result<Plan<'a>, Failure> {
        if blocked.known.file.is_some_and(|file| !preflight::reads_survive(self.pid, file.descriptor)) {
            return Err(Unfit::FileWait.into());
        }
        let signal = self.announcer(blocked.tid)?;
        let (process, thread) = threads::own_numbers(self.pid, blocked.tid).ok_or(Unfit::Woke)?;
        let rest = Rest::of(self.pid, self.memory, blocked)?;
        Ok(Plan { blocked, call, announcement: Announcement { signal, process, thread }, rest })
    }

    /// Looks at the stopped thread, asks the caller, and lays out the chain. The thread's course is not changed.
    fn make_ready(
        &self,
        tracee: &Tracee,
        plan: &mut Plan<'_>,
        check: &mut impl FnMut() -> Verdict,
    ) -> Result<(Found, Errand), Failure> {
        let found = self.look(tracee, plan.blocked, plan.call)?;
        if let Some(rest) = &mut plan.rest {
            rest.learn(self.memory, plan.blocked);
        }
        if let Verdict::Busy(why) = check() {
            return Err(Failure::Busy(why));
        }
        let rest = plan.rest.as_ref();
        let errand = self.prepare(&found, plan.blocked, plan.call, rest, plan.announcement)?;
        self.write(errand.chain.base, &errand.chain.bytes)?;
        Ok((found, errand))
    }

    /// Gives the thread back what it was found with, its registers last. Whatever fails here, the chain does.
    fn give_back(
        &self,
        tracee: Tracee,
        plan: &Plan<'_>,
        mut found: Found,
        errand: &Errand,
        ending: Ending,
    ) -> Result<(), Failure> {
        let rest = plan.rest.as_ref();
        let registers = match ending {
            Ending::LeftAlone => return Ok(()),
            Ending::BeforeSignalReturn => found.registers,
            Ending::Announced => found.way_back(plan.blocked, rest, errand.timespec_at),
        };
        if let (Some(bytes), Some(address)) = (rest.and_then(Rest::as_timespec), errand.timespec_at) {
            self.write(address, &bytes)?;
        }
        self.write(found.errno_address, &found.errno.to_le_bytes())?;
        tracee.set_extended_state(&mut found.state)?;
        tracee.set_signal_mask(found.mask)?;
        tracee.set_registers(&registers)?;
        Ok(tracee.detach(0)?)
    }

    fn not_seized(&self, errno: nix::Error) -> Failure {
        match errno {
            nix::Error::ESRCH => Unfit::Woke.into(),
            errno => Failure::Refused(Error::from_io(self.pid, "the threads", errno.into()).into()),
        }
    }

    /// A signal that the thread neither handles nor blocks and that is ignored by default.
    fn announcer(&self, tid: i32) -> Result<i32, Failure> {
        let sets = threads::signals(self.pid, tid)?;
        let taken = sets.caught | sets.blocked;
        let free = ANNOUNCERS.into_iter().find(|&signal| taken & bit(signal) == 0);
        Ok(free.ok_or(Unfit::NoSignalFree)?)
    }
}

/// Lets a thread that is not borrowed go on. An interrupted `epoll_wait` would return `EINTR`: its call is made again.
fn send_back(tracee: &Tracee, plan: &Plan<'_>) -> Result<(), Failure> {
    let Ok(mut registers) = tracee.registers() else { return Ok(()) };
    if plan.blocked.still_there(&registers) == Some(Interrupted::Eintr) {
        registers.rax = (-ERESTARTNOHAND) as u64;
        if let Some(rest) = &plan.rest {
            rest.put_into(&mut registers, None);
        }
        tracee.set_registers(&registers)?;
    }
    Ok(())
}
