//! The injection: the chain that is written to a borrowed thread's stack, and the registers that start it.

use super::arch::{ALL_SIGNALS, Chain, Data, FrameFormat, Place, Registers, Step};
use super::call::{Argument, Call};
use super::host::Host;
use super::refusal::{Failure, Refusal, Unfit};
use super::remaining::Remaining;
use super::saved::Saved;
use super::stack;
use super::threads::{Blocked, bit};
use nix::libc;

/// A chain for one thread, and the two ways to start it.
pub(super) struct Injection {
    pub(super) chain: Chain,
    /// Straight into the function; no signal return comes before its end, so the kernel keeps its deadline.
    pub(super) direct: Registers,
    /// Into the function by a signal return, which blocks all signals and gives it a fresh processor state.
    pub(super) through_signal_return: Registers,
    /// Room for the remaining time of the wait's timeout, if the call takes the address of it. Only good while no signal
    /// can be handled: the frame of a handler lies there.
    pub(super) timespec_at: Option<u64>,
}

/// The thread's announcement of the end of the call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Announcement {
    /// The signal, which it ignores.
    pub(super) signal: i32,
    /// Its process, as its own PID namespace numbers it.
    pub(super) process: i32,
    /// Itself, in the same way.
    pub(super) thread: i32,
}

impl Injection {
    /// Lays out a chain.
    ///
    /// # Errors
    /// The thread's stack or state does not take one.
    pub(super) fn prepare(
        host: &Host<'_>,
        saved: &Saved,
        blocked: &Blocked,
        call: &Call,
        remaining: Option<&Remaining>,
        announcement: Announcement,
    ) -> Result<Self, Failure> {
        let format = FrameFormat::of_this_machine().ok_or(Refusal::NoFrames)?;
        let state = format.fpstate(&saved.state).map_err(|_| Unfit::ExtendedState)?;
        let stack_pointer = saved.registers.stack_pointer();
        let place = Place::below(stack_pointer, state.len(), STEPS).ok_or(Unfit::NoRoom)?;
        let main_thread = blocked.tid == host.pid.0;
        stack::check_room(
            host.memory,
            host.maps,
            main_thread,
            place.base()..stack_pointer,
            call.stack_bytes,
        )?;
        let mut data = Data::default();
        let first = Step {
            start: call.function,
            arguments: arguments(call, place, &mut data)?,
            rax: 0,
            blocked: ALL_SIGNALS,
        };
        let [restore_errno, announce] = closing_steps(host, saved, announcement)?;
        let timespec_at = match remaining.and_then(Remaining::as_timespec) {
            Some(bytes) => Some(place.data(data.add(&bytes).ok_or(Unfit::NoRoom)?)),
            None => None,
        };
        let last = saved.without_unbloat(blocked, remaining);
        let signal_return = host.signal_return();
        let steps: [Step; STEPS] = [first, restore_errno, announce];
        let chain = Chain::build(place, &steps, &data, &last, saved.mask, &state, signal_return);
        // Neither way may the kernel take the thread for one that is within a system call.
        let through_signal_return = saved.registers.returning_from_signal(signal_return, chain.entry);
        let direct = first.registers(chain.first_stack).on_thread(&saved.registers);
        Ok(Injection { chain, direct, through_signal_return, timespec_at })
    }
}

/// The call, `errno` put back, and the announcement.
const STEPS: usize = 3;

/// The call's arguments; texts go into the chain's data.
fn arguments(call: &Call, place: Place, data: &mut Data) -> Result<[u64; 6], Unfit> {
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
    Ok(arguments)
}

/// The two steps after the call: `errno` is put back, and the end is announced.
fn closing_steps(host: &Host<'_>, saved: &Saved, announcement: Announcement) -> Result<[Step; 2], Unfit> {
    let system_call = |number: i64, arguments, blocked| Step {
        start: host.gadgets.system_call,
        arguments,
        rax: number as u64,
        blocked,
    };
    let Announcement { signal, process, thread } = announcement;
    Ok([
        system_call(libc::SYS_futex, set_word(saved.errno_address, saved.errno)?, ALL_SIGNALS),
        system_call(
            libc::SYS_tgkill,
            [process as u64, thread as u64, signal as u64, 0, 0, 0],
            ALL_SIGNALS & !bit(signal),
        ),
    ])
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
