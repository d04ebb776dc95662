//! A stopped thread as it was found: whether it is fit to be borrowed, and how it gets back into its system call.

use super::call::Call;
use super::host::{Failure, Host};
use super::refusal::Unfit;
use super::rest::Rest;
use super::stack::Stack;
use super::threads::{self, Blocked};
use super::tracee::Tracee;
use super::wait::{ERESTARTNOHAND, Interrupted, Resumption};
use crate::Memory;
use nix::libc::user_regs_struct as Registers;

/// What a thread is given back.
pub(super) struct Found {
    pub(super) registers: Registers,
    /// How it left its system call.
    interrupted: Interrupted,
    /// Its signal mask.
    pub(super) mask: u64,
    /// Its extended state, in the form of `NT_X86_XSTATE`.
    pub(super) state: Vec<u8>,
    pub(super) errno: i32,
    pub(super) errno_address: u64,
}

impl Blocked {
    /// How the stopped thread left its system call; `None` if it is not in it any more.
    pub(super) fn still_there(&self, registers: &Registers) -> Option<Interrupted> {
        let r = registers;
        let same = r.orig_rax as i64 == self.number_now
            && r.rsp == self.stack_pointer
            && r.rip == self.program_counter
            && [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] == self.call.arguments;
        Interrupted::of(r.rax).filter(|_| same)
    }
}

impl Host<'_> {
    /// Looks at a stopped thread.
    ///
    /// # Errors
    /// It is not fit to be borrowed.
    pub(super) fn look(&self, tracee: &Tracee, blocked: &Blocked, call: &Call) -> Result<Found, Failure> {
        let registers = tracee.registers()?;
        let mask = tracee.signal_mask()?;
        let interrupted = blocked.still_there(&registers).ok_or(Unfit::Woke)?;
        let epoll = blocked.known.name.starts_with("epoll");
        if interrupted == Interrupted::Eintr && !epoll {
            return Err(Unfit::Woke.into());
        }
        if registers.cs != 0x33 || !self.entered_by_syscall(registers.rip) {
            return Err(Unfit::Not64Bit.into());
        }
        // What is left of a timeout may have to be put into an argument's register. The functions of libc have no use
        // for those after the call; inline assembly of others may.
        if blocked.known.resumption != Resumption::SameCall && !self.footholds.text.contains(&registers.rip) {
            return Err(Unfit::TimedOutsideLibc.into());
        }
        if tracee.has_shadow_stack() {
            return Err(Unfit::ShadowStack.into());
        }
        let signals = threads::signals(self.pid, blocked.tid)?;
        if signals.pending & !signals.blocked != 0 {
            return Err(Unfit::SignalPending.into());
        }
        let state = tracee.extended_state()?;
        let main_thread = blocked.tid == self.pid.0;
        let stack = Stack::of(self.memory, self.maps, main_thread, registers.rsp, registers.fs_base)?;
        let returns: Vec<_> = self.footholds.signal_returns.iter().map(|&at| at..at + 1).collect();
        if stack.mentions(&returns) {
            return Err(Unfit::InSignalHandler.into());
        }
        if stack.mentions(&call.forbidden) || call.forbidden.iter().any(|code| code.contains(&registers.rip))
        {
            return Err(Unfit::Checked("a thread waits inside of the allocator").into());
        }
        let errno_address = registers.fs_base.wrapping_add_signed(self.footholds.errno_offset);
        let mut errno = [0; 4];
        self.memory.read(errno_address, &mut errno)?;
        let errno = i32::from_le_bytes(errno);
        Ok(Found { registers, interrupted, mask, state, errno, errno_address })
    }

    fn entered_by_syscall(&self, rip: u64) -> bool {
        let mut code = [0; 2];
        self.memory.read(rip.wrapping_sub(2), &mut code).is_ok() && code == [0x0f, 0x05]
    }
}

impl Found {
    /// The registers with which the kernel sees a thread that was interrupted in its system call, and does itself what
    /// belongs to that, also if a signal has come meanwhile. For a thread that has returned from a signal frame since:
    /// the kernel makes the call again, with what is left of its timeout.
    pub(super) fn way_back(
        &self,
        blocked: &Blocked,
        rest: Option<&Rest>,
        timespec_at: Option<u64>,
    ) -> Registers {
        let mut registers = self.registers;
        registers.orig_rax = blocked.call.number as u64;
        if self.interrupted.has_kernel_deadline() || self.interrupted == Interrupted::Eintr {
            registers.rax = (-ERESTARTNOHAND) as u64;
        }
        if let Some(rest) = rest {
            rest.put_into(&mut registers, timespec_at);
        }
        registers
    }

    /// The registers with which the chain ends if Unbloat is not there any more: at the system call instruction, to
    /// make the call again.
    pub(super) fn without_unbloat(
        &self,
        blocked: &Blocked,
        rest: Option<&Rest>,
        timespec_at: Option<u64>,
    ) -> Registers {
        let again = self.way_back(blocked, rest, timespec_at);
        Registers {
            rip: again.rip - 2,
            rax: blocked.call.number as u64,
            orig_rax: self.registers.orig_rax,
            ..again
        }
    }
}
