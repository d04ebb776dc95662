//! The time of the call, until the thread can be given back.

use super::errand::Errand;
use super::host::Failure;
use super::refusal::Refusal;
use super::tracee::{Stop, Tracee};
use nix::libc::{self, user_regs_struct as Registers};
use std::time::{Duration, Instant};

/// How long a call is waited for. A trim of many gigabytes takes seconds.
const CALL_PATIENCE: Duration = Duration::from_secs(120);

/// How the call came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The thread has announced it, and is stopped. It has returned from a signal frame: the kernel keeps no deadline.
    Announced,
    /// The thread is stopped before the first signal return: the kernel has its deadline yet.
    BeforeSignalReturn,
    /// The thread finds back by itself.
    LeftAlone,
}

/// Waiting for the end of a call.
pub(super) struct Over<'a> {
    pub(super) announcer: i32,
    /// The program counter behind the announcement.
    pub(super) behind_announcement: u64,
    pub(super) errand: &'a Errand,
    pub(super) signal_return: u64,
    /// How long the thread is attended, if it is.
    pub(super) attendance: Option<Duration>,
}

impl Over<'_> {
    /// Lets the thread go into the call and waits until that is over.
    ///
    /// # Errors
    /// The process has ended, or the call takes too long.
    pub(super) fn wait_on(&self, tracee: &mut Tracee) -> Result<Ending, Failure> {
        let start = Instant::now();
        self.go_on(tracee, start)?;
        loop {
            let patience = CALL_PATIENCE.saturating_sub(start.elapsed());
            match tracee.wait(patience)? {
                Some(Stop::Signal(signal)) if signal == self.announcer => {
                    if tracee.registers()?.rip == self.behind_announcement {
                        return Ok(Ending::Announced);
                    }
                    tracee.resume(0)?;
                }
                // All signals are blocked but those that the thread's own code raises; they are its own.
                Some(Stop::Signal(signal)) => tracee.resume(signal)?,
                Some(Stop::SystemCall) => {
                    let registers = tracee.registers()?;
                    if self.makes_first_signal_return(&registers) {
                        // Not made: it would make the kernel forget its deadline. Put back before it, and stopped.
                        let before = Registers { rip: self.signal_return, orig_rax: u64::MAX, ..registers };
                        tracee.set_registers(&before)?;
                        tracee.interrupt()?;
                        tracee.resume(0)?;
                    } else {
                        self.go_on(tracee, start)?;
                    }
                }
                Some(Stop::Interrupted) => {
                    if tracee.registers()?.rip == self.signal_return {
                        return Ok(Ending::BeforeSignalReturn);
                    }
                    tracee.resume(0)?;
                }
                // Stopped by job control: detached, it stays so, and finds back when it is continued.
                Some(Stop::Group) => return Ok(Ending::LeftAlone),
                Some(Stop::Ended) => return Err(Failure::Refused(Refusal::Ended)),
                None => return Err(Failure::Refused(Refusal::Unfinished { after: start.elapsed() })),
            }
        }
    }

    /// To its next system call while it is attended, else to the announcement.
    fn go_on(&self, tracee: &Tracee, start: Instant) -> Result<(), Failure> {
        let attended = self.attendance.is_some_and(|attendance| start.elapsed() <= attendance);
        Ok(if attended { tracee.resume_to_system_call() } else { tracee.resume(0) }?)
    }

    fn makes_first_signal_return(&self, registers: &Registers) -> bool {
        registers.orig_rax as i64 == libc::SYS_rt_sigreturn
            && registers.rsp == self.errand.chain.first_stack + 8
    }
}
