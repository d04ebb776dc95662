//! The injection: the chain written to a borrowed thread's stack, and the registers that start it.

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
    /// Directly into the function; no signal return comes before its end, so the kernel keeps its deadline.
    pub(super) direct: Registers,
    /// Into the function through a signal return, which blocks all signals and provides a fresh processor
    /// state.
    pub(super) through_signal_return: Registers,
    /// Space for the remaining time of the wait's timeout, if the call takes its address. Only usable while
    /// no signal can be handled, because a handler's frame would overwrite it.
    pub(super) timespec_at: Option<u64>,
}

/// The thread's announcement that the call has finished.
#[derive(Debug, Clone, Copy)]
pub(super) struct Announcement {
    /// The signal, which it ignores.
    pub(super) signal: i32,
    /// The process's ID in its own PID namespace.
    pub(super) process: i32,
    /// The thread's ID in the same namespace.
    pub(super) thread: i32,
}

impl Injection {
    /// Lays out a chain.
    ///
    /// # Errors
    /// The thread's stack or state does not permit one.
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
        // With either start, the kernel must not assume that the thread is inside a system call.
        let through_signal_return = saved.registers.returning_from_signal(signal_return, chain.entry);
        let direct = first.registers(chain.first_stack).on_thread(&saved.registers);
        Ok(Injection { chain, direct, through_signal_return, timespec_at })
    }
}

/// The call, restoring `errno`, and the announcement.
const STEPS: usize = 3;

/// Converts the call's arguments; texts go into the chain's data.
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

/// Creates the two steps after the call, which restore `errno` and announce the end.
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

/// Creates the arguments of a `futex` call that stores a small number in a word and wakes nobody:
/// `FUTEX_WAKE_OP` with `FUTEX_OP_SET` (`include/uapi/linux/futex.h`). It is the only system call that stores
/// a number chosen by the caller, so it can restore `errno` without any code of ours.
fn set_word(address: u64, value: i32) -> Result<[u64; 6], Unfit> {
    const FUTEX_WAKE_OP: u64 = 5;
    const NEVER_EQUAL: u64 = 0;
    // The operand is a signed 12-bit number; error numbers are small.
    let operand = u64::try_from(value)
        .ok()
        .filter(|&v| v < 1 << 11)
        .ok_or(Unfit::Checked("a thread's errno holds a number that is no error"))?;
    let operation = operand << 12 | NEVER_EQUAL;
    Ok([address, FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG as u64, 0, 0, address, operation])
}
