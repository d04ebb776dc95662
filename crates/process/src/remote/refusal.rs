//! The reasons to leave a thread, or a whole process, alone.

use crate::{Error, Pid};
use std::time::Duration;

/// The reason why one thread was not borrowed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Not this thread, or not now.
    Unfit(Unfit),
    /// Not now, on no thread.
    Busy(&'static str),
    /// Not in this process at all.
    Refused(Refusal),
}

impl From<Unfit> for Failure {
    fn from(unfit: Unfit) -> Self {
        Failure::Unfit(unfit)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::Refused(refusal)
    }
}

impl From<nix::Error> for Failure {
    fn from(errno: nix::Error) -> Self {
        match errno {
            // The thread has ended, or is no longer stopped because it was killed.
            nix::Error::ESRCH | nix::Error::ECHILD => Failure::Unfit(Unfit::Woke),
            errno => Failure::Refused(Refusal::Process(Error::from_io(Pid(0), "its threads", errno.into()))),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Gone { .. } => Failure::Unfit(Unfit::Woke),
            error => Failure::Refused(Refusal::Process(error)),
        }
    }
}

/// The reason why a thread cannot be borrowed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is no longer where `/proc` showed it.
    #[error("a thread woke up just then")]
    Woke,
    /// The kernel cannot stop it for a tracer.
    #[error("a thread does not stop: its cgroup is frozen, or the machine is very busy")]
    NotStopping,
    /// Its process has just been stopped by job control.
    #[error("the process was stopped just then")]
    Stopped,
    /// A signal is pending.
    #[error("a thread has a signal to handle first")]
    SignalPending,
    /// Every signal that could announce the end of the call has a handler or is blocked.
    #[error("the program handles SIGURG, SIGWINCH and SIGCHLD itself")]
    NoSignalFree,
    /// The stack pointer is outside the thread's own stack.
    #[error(
        "a thread runs on a stack that is not its own (a fiber's, a coroutine's, an alternate signal stack)"
    )]
    ForeignStack,
    /// The stack is nearly full.
    #[error("a thread has too little stack left")]
    NoRoom,
    /// It is inside a signal handler, which may have interrupted the allocator.
    #[error("a thread is inside a signal handler")]
    InSignalHandler,
    /// Control-flow enforcement is active.
    #[error("a thread has a shadow stack (CET), which takes no return addresses from outside")]
    ShadowStack,
    /// It runs 32-bit or x32 code.
    #[error("a thread runs 32-bit code")]
    Not64Bit,
    /// It uses AMX tiles or something newer.
    #[error("a thread uses processor state that signal frames here do not contain (AMX)")]
    ExtendedState,
    /// It reads from a file whose reads reveal an interruption.
    #[error("a thread reads from a file whose reads reveal an interruption")]
    FileWait,
    /// The remaining time of a timeout is unknown.
    #[error("a thread waits with a timeout whose remaining time this kernel does not report")]
    TimeoutUnknown,
    /// It is in a timed wait outside libc.
    #[error("a thread waits with a timeout in code that is not libc's, whose registers must not change")]
    TimedOutsideLibc,
    /// The caller's own check failed.
    #[error("{0}")]
    Checked(&'static str),
}

/// The reason why no function was called in a process.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No thread could be borrowed in time.
    #[error(
        "no safe point within {:.1} s: {why}. Nothing was changed; try again, or give it more time with --timeout",
        .waited.as_secs_f64()
    )]
    NoSafePoint {
        /// Time spent trying.
        waited: Duration,
        /// The last obstacle.
        why: String,
    },
    /// The process is Unbloat itself.
    #[error("this is Unbloat itself")]
    Myself,
    /// The process is the host's init.
    #[error("PID 1 of the host is left alone unless --yes is given")]
    HostInit,
    /// The process is being traced.
    #[error(
        "it is traced by process {tracer} (a debugger, strace), and only one tracer is possible. \
        Detach it first"
    )]
    Traced {
        /// The tracer.
        tracer: Pid,
    },
    /// The memory belongs to two processes.
    #[error("it shares its memory with its parent (vfork, posix_spawn) for the moment")]
    SharedMemory,
    /// The process has a system call filter other than ours.
    #[error(
        "a seccomp filter restricts its system calls, and its reaction to a forbidden one is unknown from \
         outside. Run Unbloat inside the same container, or give --yes to trust that the filter allows \
         madvise, brk, futex, tgkill and rt_sigreturn"
    )]
    Seccomp,
    /// Seccomp's strict mode applies.
    #[error("seccomp's strict mode would kill it for returning memory")]
    SeccompStrict,
    /// Job control has stopped the process.
    #[error("the process is stopped (SIGSTOP, Ctrl-Z); continue it with SIGCONT first")]
    Stopped,
    /// Its control group is frozen.
    #[error("its control group is frozen (docker pause); unfreeze it first")]
    Frozen,
    /// This machine lacks a requirement.
    #[error(
        "the kernel's signal frames have no extended state on this machine, so a thread cannot be restored"
    )]
    NoFrames,
    /// It became another program.
    #[error("it became another program (exec) meanwhile. Try again")]
    Replaced,
    /// It ended meanwhile.
    #[error("it ended meanwhile")]
    Ended,
    /// The kernel's reason.
    #[error(transparent)]
    Process(#[from] Error),
}
