//! The system calls in which a thread may be borrowed, and how each is resumed.
//!
//! A thread that the kernel wakes for a tracer leaves its system call with one of the kernel's internal
//! results (`include/linux/errno.h`), which determine how the call continues if no signal handler ran:
//!
//! | result | how the kernel continues |
//! |---|---|
//! | `ERESTARTSYS` 512, `ERESTARTNOINTR` 513, `ERESTARTNOHAND` 514 | the same call with the same arguments |
//! | `ERESTART_RESTARTBLOCK` 516 | `restart_syscall`, from a deadline that only the kernel has |
//! | `EINTR` 4 | not at all: the program sees it. Of the calls below only `epoll_wait` and its variants do this |
//!
//! Only calls whose way back is known for certain are listed. Sources: `signal(7)`, "Interruption of system
//! calls by stop signals"; Linux 6.x `fs/select.c`, `fs/eventpoll.c`, `kernel/futex/waitwake.c`,
//! `kernel/time/hrtimer.c`, `kernel/signal.c`, `kernel/exit.c`, `net/core/sock.c` (`sock_intr_errno`).

use super::arch::legacy_call;
use super::blocking_call::BlockingCall;
use nix::libc;
use std::time::Duration;

/// A system call that a thread is blocked in: its number and six arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SystemCall {
    /// The number.
    pub(super) number: i64,
    /// The arguments.
    pub(super) arguments: [u64; 6],
}

/// The way in which a borrowed thread gets back into its system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resumption {
    /// The same call with the same arguments means the same: there is no timeout, an absolute one, or one
    /// that the kernel has written back into the arguments.
    SameCall,
    /// The kernel has a deadline for it that nothing else can read.
    KernelDeadline(Timeout),
    /// The call has a relative timeout that the kernel forgets when it is interrupted.
    Forgotten(Timeout),
}

/// The place from which a system call takes its relative timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timeout {
    /// Milliseconds, in the argument with this index.
    Milliseconds(usize),
    /// A `timespec` pointed to by the argument with this index.
    Timespec(usize),
    /// Like `Timespec`; in addition, the remaining time was written to the target of the second argument, if
    /// that is not null.
    TimespecWithRest(usize, usize),
}

impl Timeout {
    /// Returns the index of the argument that points to the timeout, if one does.
    pub(super) fn pointer(self) -> Option<usize> {
        match self {
            Timeout::Timespec(index) | Timeout::TimespecWithRest(index, _) => Some(index),
            Timeout::Milliseconds(_) => None,
        }
    }
}

/// The condition on a file descriptor under which a blocked read can be resumed with the same arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NeedsPlainFile {
    /// The descriptor in the target.
    pub(super) descriptor: i32,
}

/// A listed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownWait {
    /// The call.
    pub(super) call: BlockingCall,
    /// The way back.
    pub(super) resumption: Resumption,
    /// A condition on the file it waits for.
    pub(super) file: Option<NeedsPlainFile>,
}

/// `FUTEX_CMD_MASK` of `include/uapi/linux/futex.h`: without the private and clock flags.
const FUTEX_COMMAND: u64 = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as u32 as u64;

impl SystemCall {
    /// Returns the facts about the call, if it is listed.
    pub(super) fn known(&self) -> Option<KnownWait> {
        let call = call_of(self.number)?;
        let resumption = resumption(call, &self.arguments)?;
        let file = reads_file(call).then_some(NeedsPlainFile { descriptor: self.arguments[0] as i32 });
        Some(KnownWait { call, resumption, file })
    }
}

/// Returns the call with a number.
fn call_of(number: i64) -> Option<BlockingCall> {
    Some(match number {
        libc::SYS_futex => BlockingCall::Futex,
        libc::SYS_ppoll => BlockingCall::Ppoll,
        libc::SYS_pselect6 => BlockingCall::Pselect6,
        libc::SYS_epoll_pwait => BlockingCall::EpollPwait,
        libc::SYS_epoll_pwait2 => BlockingCall::EpollPwait2,
        libc::SYS_nanosleep => BlockingCall::Nanosleep,
        libc::SYS_clock_nanosleep => BlockingCall::ClockNanosleep,
        libc::SYS_rt_sigsuspend => BlockingCall::RtSigsuspend,
        libc::SYS_wait4 => BlockingCall::Wait4,
        libc::SYS_waitid => BlockingCall::Waitid,
        libc::SYS_read => BlockingCall::Read,
        libc::SYS_accept => BlockingCall::Accept,
        libc::SYS_accept4 => BlockingCall::Accept4,
        libc::SYS_recvfrom => BlockingCall::Recvfrom,
        libc::SYS_recvmsg => BlockingCall::Recvmsg,
        other => return legacy_call(other),
    })
}

/// Returns the way to resume a call with these arguments; `None` if it is not listed in this form.
fn resumption(call: BlockingCall, arguments: &[u64; 6]) -> Option<Resumption> {
    use Resumption::{Forgotten, KernelDeadline, SameCall};
    let a = arguments;
    let milliseconds = |index: usize, timed: Resumption| if (a[index] as i32) < 0 { SameCall } else { timed };
    Some(match call {
        BlockingCall::Futex => match (a[1] & FUTEX_COMMAND) as i32 {
            libc::FUTEX_WAIT if a[3] == 0 => SameCall,
            libc::FUTEX_WAIT => KernelDeadline(Timeout::Timespec(3)),
            libc::FUTEX_WAIT_BITSET => SameCall, // its timeout is absolute
            _ => return None,
        },
        BlockingCall::Poll => milliseconds(2, KernelDeadline(Timeout::Milliseconds(2))),
        BlockingCall::EpollWait | BlockingCall::EpollPwait => {
            milliseconds(3, Forgotten(Timeout::Milliseconds(3)))
        }
        BlockingCall::EpollPwait2 if a[3] != 0 => return None,
        BlockingCall::Nanosleep => KernelDeadline(Timeout::TimespecWithRest(0, 1)),
        BlockingCall::ClockNanosleep if a[1] as i32 & libc::TIMER_ABSTIME == 0 => {
            KernelDeadline(Timeout::TimespecWithRest(2, 3))
        }
        // With MSG_WAITALL an interrupted receive returns what has arrived so far.
        BlockingCall::Recvfrom if a[3] as i32 & libc::MSG_WAITALL != 0 => return None,
        BlockingCall::Recvmsg if a[2] as i32 & libc::MSG_WAITALL != 0 => return None,
        // The kernel writes the remaining time back to the arguments of these three.
        BlockingCall::Ppoll | BlockingCall::Select | BlockingCall::Pselect6 => SameCall,
        BlockingCall::EpollPwait2
        | BlockingCall::ClockNanosleep
        | BlockingCall::Pause
        | BlockingCall::RtSigsuspend
        | BlockingCall::Wait4
        | BlockingCall::Waitid
        | BlockingCall::Read
        | BlockingCall::Accept
        | BlockingCall::Accept4
        | BlockingCall::Recvfrom
        | BlockingCall::Recvmsg => SameCall,
    })
}

fn reads_file(call: BlockingCall) -> bool {
    matches!(
        call,
        BlockingCall::Read
            | BlockingCall::Accept
            | BlockingCall::Accept4
            | BlockingCall::Recvfrom
            | BlockingCall::Recvmsg
    )
}

/// The result with which a stopped thread has left its system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupted {
    /// One of the four internal results, which the program will not see.
    Restart(i64),
    /// `EINTR`, which the program would see.
    Eintr,
}

const ERESTARTSYS: i64 = 512;
const ERESTARTNOINTR: i64 = 513;
/// Restarted if no handler runs, `EINTR` if one does.
pub(super) const ERESTARTNOHAND: i64 = 514;
const ERESTART_RESTARTBLOCK: i64 = 516;

impl Interrupted {
    /// Interprets the result register of a stopped thread; `None` if the call has a result of its own.
    pub(super) fn of(result: i64) -> Option<Self> {
        match result.wrapping_neg() {
            code @ (ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND | ERESTART_RESTARTBLOCK) => {
                Some(Interrupted::Restart(code))
            }
            code if code == i64::from(libc::EINTR) => Some(Interrupted::Eintr),
            _ => None,
        }
    }

    /// Returns whether the kernel keeps a deadline for the call.
    pub(super) fn has_kernel_deadline(self) -> bool {
        self == Interrupted::Restart(ERESTART_RESTARTBLOCK)
    }
}

/// Rounds a remaining time up to whole milliseconds, because a wait must never end early.
pub(super) fn milliseconds_up(remaining: Duration) -> u64 {
    u64::try_from(remaining.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: i64, arguments: [u64; 6]) -> Option<Resumption> {
        SystemCall { number, arguments }.known().map(|known| known.resumption)
    }

    #[test]
    fn a_futex_is_taken_up_by_what_its_timeout_means() {
        let private = libc::FUTEX_PRIVATE_FLAG as u64;
        let bitset = (libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME) as u64 | private;
        assert_eq!(call(libc::SYS_futex, [1, private, 0, 0, 0, 0]), Some(Resumption::SameCall));
        assert_eq!(call(libc::SYS_futex, [1, bitset, 0, 99, 0, 0]), Some(Resumption::SameCall));
        assert_eq!(
            call(libc::SYS_futex, [1, private, 0, 99, 0, 0]),
            Some(Resumption::KernelDeadline(Timeout::Timespec(3)))
        );
        assert_eq!(call(libc::SYS_futex, [1, libc::FUTEX_LOCK_PI as u64, 0, 0, 0, 0]), None);
    }

    #[test]
    fn timeouts_of_poll_and_epoll_decide() {
        let forever = u64::from(u32::MAX);
        assert_eq!(call(libc::SYS_poll, [0, 0, forever, 0, 0, 0]), Some(Resumption::SameCall));
        assert!(matches!(call(libc::SYS_poll, [0, 0, 9, 0, 0, 0]), Some(Resumption::KernelDeadline(_))));
        assert_eq!(call(libc::SYS_epoll_wait, [3, 1, 1, forever, 0, 0]), Some(Resumption::SameCall));
        assert!(matches!(call(libc::SYS_epoll_wait, [3, 1, 1, 9, 0, 0]), Some(Resumption::Forgotten(_))));
    }

    #[test]
    fn calls_that_change_memory_or_may_be_cut_short_are_not_on_the_list() {
        for number in [
            libc::SYS_madvise,
            libc::SYS_mmap,
            libc::SYS_munmap,
            libc::SYS_brk,
            libc::SYS_mprotect,
            libc::SYS_write,
            libc::SYS_clone,
            libc::SYS_vfork,
            libc::SYS_rt_sigtimedwait,
        ] {
            assert_eq!(call(number, [0; 6]), None, "{number}");
        }
        let waitall = libc::MSG_WAITALL as u64;
        assert_eq!(call(libc::SYS_recvfrom, [3, 0, 0, waitall, 0, 0]), None);
    }
}
