//! The state of a stopped thread, saved before it is borrowed, and its way back into its system call.

use super::arch::Registers;
use super::call::Call;
use super::host::Host;
use super::refusal::{Failure, Unfit};
use super::remaining::Remaining;
use super::stack::Stack;
use super::threads::{self, Blocked};
use super::tracee::Tracee;
use super::wait::{ERESTARTNOHAND, Interrupted, Resumption};
use crate::Memory;
use std::ops::Range;

/// Everything that is restored in the thread.
pub(super) struct Saved {
    pub(super) registers: Registers,
    /// The way in which it left its system call.
    interrupted: Interrupted,
    /// Its signal mask.
    pub(super) mask: u64,
    /// Its extended state in the format of `ptrace`.
    pub(super) state: Vec<u8>,
    pub(super) errno: i32,
    pub(super) errno_address: u64,
}

impl Blocked {
    /// Returns how the stopped thread left its system call; `None` if it is no longer in it.
    pub(super) fn still_there(&self, registers: &Registers) -> Option<Interrupted> {
        let same = registers.system_call() == self.number_now
            && registers.stack_pointer() == self.stack_pointer
            && registers.program_counter() == self.program_counter
            && registers.arguments() == self.call.arguments;
        Interrupted::of(registers.result()).filter(|_| same)
    }
}

impl Saved {
    /// Examines a stopped thread and saves its state.
    ///
    /// # Errors
    /// It is unfit to be borrowed.
    pub(super) fn of(
        host: &Host<'_>,
        tracee: &Tracee,
        blocked: &Blocked,
        call: &Call,
    ) -> Result<Self, Failure> {
        let registers = tracee.registers()?;
        let mask = tracee.signal_mask()?;
        let interrupted = blocked.still_there(&registers).ok_or(Unfit::Woke)?;
        if interrupted == Interrupted::Eintr && !blocked.known.call.shows_interruption() {
            return Err(Unfit::Woke.into());
        }
        check_code(host, blocked, &registers)?;
        if tracee.has_shadow_stack() {
            return Err(Unfit::ShadowStack.into());
        }
        let signals = threads::signals(host.pid, blocked.tid)?;
        if signals.pending & !signals.blocked != 0 {
            return Err(Unfit::SignalPending.into());
        }
        let state = tracee.extended_state()?;
        check_stack(host, blocked, call, &registers)?;
        let errno_address = registers.thread_pointer().wrapping_add_signed(host.gadgets.errno_offset);
        let mut errno = [0; 4];
        host.memory.read(errno_address, &mut errno)?;
        let errno = i32::from_le_bytes(errno);
        Ok(Saved { registers, interrupted, mask, state, errno, errno_address })
    }
}

/// Checks that the thread waits in code that permits a call.
fn check_code(host: &Host<'_>, blocked: &Blocked, registers: &Registers) -> Result<(), Unfit> {
    let pc = registers.program_counter();
    if !registers.is_native() || !host.is_behind_call(pc) {
        return Err(Unfit::Not64Bit);
    }
    // The remaining time of a timeout may have to be put into an argument's register. libc's functions do not
    // use those after the call; inline assembly elsewhere may.
    if blocked.known.resumption != Resumption::SameCall && !host.gadgets.text.contains(&pc) {
        return Err(Unfit::TimedOutsideLibc);
    }
    Ok(())
}

/// Checks that the thread is outside signal handlers and outside code forbidden by the caller.
fn check_stack(host: &Host<'_>, blocked: &Blocked, call: &Call, registers: &Registers) -> Result<(), Unfit> {
    let main_thread = blocked.tid == host.pid.0;
    let stack = Stack::of(
        host.memory,
        host.maps,
        main_thread,
        registers.stack_pointer(),
        registers.thread_pointer(),
    )?;
    let returns: Vec<_> = host.gadgets.signal_returns.iter().map(|&at| at..at + 1).collect();
    if stack.mentions(&returns) {
        return Err(Unfit::InSignalHandler);
    }
    if is_inside(host, &call.forbidden, &stack, registers) {
        return Err(Unfit::Checked("a thread waits inside the allocator"));
    }
    Ok(())
}

/// Returns whether the thread may be executing some code. A stack that cannot be unwound is searched for any
/// potential return address into it, so leftovers of earlier calls count as well.
fn is_inside(host: &Host<'_>, code: &[Range<u64>], stack: &Stack, registers: &Registers) -> bool {
    if code.iter().any(|code| code.contains(&registers.program_counter())) {
        return true;
    }
    stack.mentions(code) && !host.unwinder.is_outside(registers, stack)
}

impl Saved {
    /// Returns the registers with which the kernel sees a thread that was interrupted in its system call and
    /// does everything else itself, even if a signal has arrived meanwhile. For a thread that has returned
    /// from a signal frame since, the kernel makes the call again.
    ///
    /// A timeout in a register is shortened to the remaining time. One passed by address stays the program's
    /// own, the whole timeout: the frame of a signal handler could overwrite anything below the stack before
    /// the call is made, and the wait would end early. So it ends late instead, unless [`Remaining`] is put
    /// in its place where no handler can intervene.
    pub(super) fn way_back(&self, blocked: &Blocked, remaining: Option<&Remaining>) -> Registers {
        let mut registers = self.registers;
        registers.set_system_call(blocked.call.number);
        if self.interrupted.has_kernel_deadline() || self.interrupted == Interrupted::Eintr {
            registers.set_result(-ERESTARTNOHAND);
        }
        if let Some(remaining) = remaining {
            remaining.put_into(&mut registers);
        }
        registers
    }

    /// Returns the registers with which the chain ends without Unbloat: at the system call instruction, to
    /// make the call again.
    pub(super) fn without_unbloat(&self, blocked: &Blocked, remaining: Option<&Remaining>) -> Registers {
        let mut again = self.way_back(blocked, remaining).before_call(blocked.call.number);
        again.set_system_call(self.registers.system_call());
        again
    }
}
