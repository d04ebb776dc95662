//! What is written to a borrowed thread's stack, and the registers that start it.

use super::call::{Argument, Call};
use super::found::Found;
use super::frame::{ALL_SIGNALS, Chain, Data, Place, Step};
use super::host::{Failure, Host, bit};
use super::refusal::{Refusal, Unfit};
use super::rest::Rest;
use super::stack;
use super::threads::Blocked;
use super::xstate::FrameFormat;
use nix::libc::{self, user_regs_struct as Registers};

/// A chain for one thread, and the two ways to start it.
pub(super) struct Errand {
    pub(super) chain: Chain,
    /// Straight into the function; no signal return comes before its end, so the kernel keeps its deadline.
    pub(super) direct: Registers,
    /// Into the function by a signal return, which blocks all signals and gives it a fresh processor state.
    pub(super) through_signal_return: Registers,
    /// Where what is left of the wait's timeout lies, if the call takes the address of it.
    pub(super) timespec_at: Option<u64>,
}

/// How the thread announces the end of the call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Announcement {
    /// The signal, which it ignores.
    pub(super) signal: i32,
    /// Its process, as its own PID namespace numbers it.
    pub(super) process: i32,
    /// Itself, in the same way.
    pub(super) thread: i32,
}

impl Host<'_> {
    /// Lays out a chain.
    ///
    /// # Errors
    /// The thread's stack or state does not take one.
    pub(super) fn prepare(
        &self,
        found: &Found,
        blocked: &Blocked,
        call: &Call,
        rest: Option<&Rest>,
        announcement: Announcement,
    ) -> Result<Errand, Failure> {
        let format = FrameFormat::of_this_machine().ok_or(Failure::Refused(Refusal::NoFrames))?;
        let state = format.fpstate(&found.state).map_err(|_| Unfit::ExtendedState)?;
        let place = Place::below(found.registers.rsp, state.len(), 3).ok_or(Unfit::NoRoom)?;
        let main_thread = blocked.tid == self.pid.0;
        let written = place.base()..found.registers.rsp;
        stack::check_room(self.memory, self.maps, main_thread, written, call.stack_bytes)?;
        let mut data = Data::default();
        let mut arguments = [0; 6];
        for (slot, argument) in arguments.iter_mut().zip(&call.arguments) {
            *slot = match *argument {
                Argument::Word(word) => word,
                Argument::Text(text) => {
                    let text = [text.as_bytes(), b"\0"].concat();
                    place.data(data.add(&text).ok_or(Unfit::NoRoom)?)
                }
            };
        }
        let call_step = Step { start: call.function, arguments, rax: 0, blocked: ALL_SIGNALS };
        let system_call = |number: i64, arguments, blocked| Step {
            start: self.footholds.system_call,
            arguments,
            rax: number as u64,
            blocked,
        };
        let Announcement { signal, process, thread } = announcement;
        let steps = [
            call_step,
            system_call(libc::SYS_futex, set_word(found.errno_address, found.errno)?, ALL_SIGNALS),
            system_call(
                libc::SYS_tgkill,
                [process as u64, thread as u64, signal as u64, 0, 0, 0],
                ALL_SIGNALS & !bit(signal),
            ),
        ];
        let timespec_at = match rest.and_then(Rest::as_timespec) {
            Some(bytes) => Some(place.data(data.add(&bytes).ok_or(Unfit::NoRoom)?)),
            None => None,
        };
        let last = found.without_unbloat(blocked, rest, timespec_at);
        let signal_return = self.signal_return();
        let chain = Chain::build(place, &steps, &data, &last, found.mask, &state, signal_return);
        // Neither way may the kernel take the thread for one that is within a system call.
        let aside = u64::MAX;
        let through_signal_return =
            Registers { rip: signal_return, rsp: chain.entry, orig_rax: aside, rax: 0, ..found.registers };
        let first = call_step.registers(chain.first_stack);
        let direct = Registers {
            orig_rax: aside,
            fs_base: found.registers.fs_base,
            gs_base: found.registers.gs_base,
            ds: found.registers.ds,
            es: found.registers.es,
            fs: found.registers.fs,
            gs: found.registers.gs,
            ..first
        };
        Ok(Errand { chain, direct, through_signal_return, timespec_at })
    }
}

/// Arguments of a `futex` call that stores a small number in a word and wakes nobody: `FUTEX_WAKE_OP` with
/// `FUTEX_OP_SET` (`include/uapi/linux/futex.h`). It is the one system call that stores a number of the caller's choice,
/// and so brings `errno` back without code of ours.
fn set_word(address: u64, value: i32) -> Result<[u64; 6], Unfit> {
    const FUTEX_WAKE_OP: u64 = 5;
    const NEVER_EQUAL: u64 = 0;
    // The operand has 12 bits with a sign; error numbers are small.
    let operand = u64::try_from(value)
        .ok()
        .filter(|&v| v < 1 << 11)
        .ok_or(Unfit::Checked("a thread's errno holds a number that is no error"))?;
    let operation = operand << 12 | NEVER_EQUAL;
    Ok([address, FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG as u64, 0, 0, address, operation])
}
