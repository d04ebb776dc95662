//! Waits for the injected call to finish.

use super::arch::Registers;
use super::call::LeftAlone;
use super::injection::Injection;
use super::refusal::Failure;
use super::tracee::{Stop, Tracee};
use std::time::{Duration, Instant};

/// The time that a call is waited for. A trim of many gigabytes takes seconds.
const CALL_PATIENCE: Duration = Duration::from_secs(120);

/// The end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completion {
    /// The thread has announced it, and is stopped. It has returned from a signal frame: the kernel keeps no deadline.
    Announced,
    /// The thread is stopped before the first signal return: the kernel still has its deadline.
    BeforeSignalReturn,
    /// The call is not over. The thread finishes it and finds back by itself.
    LeftAlone(LeftAlone),
    /// The thread has ended.
    Ended,
}

/// Waiting for the end of a call.
pub(super) struct Waiter<'a> {
    /// The signal by which the thread announces the end.
    pub(super) announcer: i32,
    /// The program counter behind the announcement.
    pub(super) behind_announcement: u64,
    pub(super) injection: &'a Injection,
    pub(super) signal_return: u64,
    /// The time that the thread is attended from system call to system call, if it is.
    pub(super) attendance: Option<Duration>,
}

impl Waiter<'_> {
    /// Lets the thread go into the call and waits until that is over.
    ///
    /// # Errors
    /// A request to the kernel failed: the thread is gone.
    pub(super) fn wait_on(&self, tracee: &mut Tracee) -> Result<Completion, Failure> {
        let start = Instant::now();
        self.resume(tracee, start)?;
        loop {
            let patience = CALL_PATIENCE.saturating_sub(start.elapsed());
            match tracee.wait(patience)? {
                Some(Stop::Signal(signal)) if signal == self.announcer => {
                    if tracee.registers()?.program_counter() == self.behind_announcement {
                        return Ok(Completion::Announced);
                    }
                    tracee.resume(0)?;
                }
                // All signals are blocked but those that the thread's own code raises; they are its own.
                Some(Stop::Signal(signal)) => tracee.resume(signal)?,
                Some(Stop::SystemCall) => {
                    let registers = tracee.registers()?;
                    if self.is_first_signal_return(&registers) {
                        // Not made: it would make the kernel forget its deadline. Put back before it, and stopped.
                        tracee.set_registers(&registers.moved_to(self.signal_return))?;
                        tracee.interrupt()?;
                        tracee.resume(0)?;
                    } else {
                        self.resume(tracee, start)?;
                    }
                }
                Some(Stop::Interrupted) => {
                    if tracee.registers()?.program_counter() == self.signal_return {
                        return Ok(Completion::BeforeSignalReturn);
                    }
                    tracee.resume(0)?;
                }
                // Detached, it stays stopped, and finds back when it is continued.
                Some(Stop::Group) => return Ok(Completion::LeftAlone(LeftAlone::Stopped)),
                Some(Stop::Ended) => return Ok(Completion::Ended),
                None => return Ok(Completion::LeftAlone(LeftAlone::Unfinished { after: start.elapsed() })),
            }
        }
    }

    /// Lets the thread run: to its next system call while it is attended, else to the announcement.
    fn resume(&self, tracee: &Tracee, start: Instant) -> Result<(), Failure> {
        let attended = self.attendance.is_some_and(|attendance| start.elapsed() <= attendance);
        Ok(if attended { tracee.resume_to_system_call() } else { tracee.resume(0) }?)
    }

    fn is_first_signal_return(&self, registers: &Registers) -> bool {
        registers.makes_signal_return(self.injection.chain.first_stack + 8)
    }
}
