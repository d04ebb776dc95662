//! Waits for the injected call to finish.

use super::arch::Registers;
use super::call::LeftAlone;
use super::injection::Injection;
use super::refusal::Failure;
use super::tracee::{Stop, Tracee};
use std::time::{Duration, Instant};

/// Time limit of a call. A trim of many gigabytes takes seconds.
const CALL_PATIENCE: Duration = Duration::from_secs(120);

/// The way in which a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completion {
    /// The thread announced the end and is stopped. It has returned from a signal frame, so the kernel keeps
    /// no deadline.
    Announced,
    /// The thread is stopped before the first signal return, so the kernel still has its deadline.
    BeforeSignalReturn,
    /// The call is not finished. The thread finishes it and returns by itself.
    LeftAlone(LeftAlone),
    /// The thread has ended.
    Ended,
}

/// Waits for the end of a call.
pub(super) struct Waiter<'a> {
    /// The signal by which the thread announces the end.
    pub(super) announcer: i32,
    /// The program counter after the announcement.
    pub(super) behind_announcement: u64,
    pub(super) injection: &'a Injection,
    pub(super) signal_return: u64,
    /// Time for which the thread is supervised from system call to system call, if it is.
    pub(super) attendance: Option<Duration>,
}

impl Waiter<'_> {
    /// Sends the thread into the call and waits until it has finished.
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
                // All signals are blocked except those raised by the thread's own code, which belong to it.
                Some(Stop::Signal(signal)) => tracee.resume(signal)?,
                Some(Stop::SystemCall) => {
                    let registers = tracee.registers()?;
                    if self.is_first_signal_return(&registers) {
                        // Suppressed, because it would make the kernel forget its deadline. The thread is put
                        // back before it, and stopped.
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
                // When detached it stays stopped, and returns once it is continued.
                Some(Stop::Group) => return Ok(Completion::LeftAlone(LeftAlone::Stopped)),
                Some(Stop::Ended) => return Ok(Completion::Ended),
                None => return Ok(Completion::LeftAlone(LeftAlone::Unfinished { after: start.elapsed() })),
            }
        }
    }

    /// Resumes the thread: to its next system call while it is supervised, otherwise to the announcement.
    fn resume(&self, tracee: &Tracee, start: Instant) -> Result<(), Failure> {
        let attended = self.attendance.is_some_and(|attendance| start.elapsed() <= attendance);
        Ok(if attended { tracee.resume_to_system_call() } else { tracee.resume(0) }?)
    }

    fn is_first_signal_return(&self, registers: &Registers) -> bool {
        registers.makes_signal_return(self.injection.chain.first_stack + 8)
    }
}
