//! Asks or forces a process to end, and receives such requests to this process.

use crate::{Error, Pid, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::ffi::c_int;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Sends SIGTERM: servers finish their requests and end.
///
/// # Errors
/// The process is gone, or belongs to somebody else.
pub fn terminate(pid: Pid) -> Result<()> {
    send(pid, Signal::SIGTERM)
}

/// Sends SIGKILL.
///
/// # Errors
/// The process is gone, or belongs to somebody else.
pub fn end(pid: Pid) -> Result<()> {
    send(pid, Signal::SIGKILL)
}

/// Sends SIGINT, as Ctrl-C does.
///
/// # Errors
/// The process is gone, or belongs to somebody else.
pub fn interrupt(pid: Pid) -> Result<()> {
    send(pid, Signal::SIGINT)
}

/// A request to end that this process received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Ctrl-C or SIGINT, as opposed to SIGTERM and SIGHUP.
    pub is_interrupt: bool,
    /// It came from the terminal, which signaled the whole foreground process group.
    pub from_terminal: bool,
}

/// SIGINT, SIGTERM and SIGHUP, queued until read instead of ending this process.
#[derive(Debug)]
pub struct Requests {
    signals: SignalFd,
}

impl Requests {
    /// Takes over the signals for the calling thread and for threads it starts from now on. Commands started
    /// later would inherit the mask.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn take_over() -> std::io::Result<Self> {
        let mut mask = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            mask.add(signal);
        }
        mask.thread_block()?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Requests { signals })
    }

    /// Returns the next request, if there is one.
    #[must_use]
    pub fn next(&self) -> Option<Request> {
        let info = self.signals.read_signal().ok()??;
        Some(Request {
            is_interrupt: info.ssi_signo == Signal::SIGINT as u32,
            // Positive codes are the kernel's own (sigaction(2)): here the terminal's line discipline.
            from_terminal: info.ssi_code > 0,
        })
    }
}

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// This process was asked to end.
    Request,
    /// There is something to read.
    Input,
    /// The other end of the input is gone: the terminal was closed.
    HungUp,
    /// The time is over.
    Timeout,
}

impl Requests {
    /// Waits for a request to end, for input, or for the end of the input. A request is not consumed.
    #[must_use]
    pub fn wait(&self, input: BorrowedFd<'_>, timeout: Duration) -> Woken {
        let mut waited_for =
            [PollFd::new(self.as_fd(), PollFlags::POLLIN), PollFd::new(input, PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        if poll(&mut waited_for, timeout).is_err() {
            return Woken::Timeout;
        }
        let [request, input] = waited_for.map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
        if !request.is_empty() {
            Woken::Request
        } else if input.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
            Woken::HungUp
        } else if !input.is_empty() {
            Woken::Input
        } else {
            Woken::Timeout
        }
    }
}

impl AsFd for Requests {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

/// The first request to end: SIGINT, SIGTERM or SIGHUP.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn interrupted(_: c_int) {
    if INTERRUPTED.swap(true, Ordering::Relaxed) {
        // As a shell says it of a program that Ctrl-C has ended.
        exit_at_once(130);
    }
}

#[allow(unsafe_code)]
fn exit_at_once(status: c_int) -> ! {
    // SAFETY: `_exit` is async-signal-safe (signal-safety(7)) and touches no memory.
    unsafe { nix::libc::_exit(status) }
}

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets, for long work that is to end well. The second one ends the program at
/// once, with status 130. Commands that are started later get none of this. A SIGHUP that `nohup` ignores stays ignored.
///
/// # Errors
/// The kernel's reason.
#[allow(unsafe_code)]
pub fn interruptible() -> std::io::Result<&'static AtomicBool> {
    let action = SigAction::new(SigHandler::Handler(interrupted), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: The handler swaps an atomic and may call `_exit`: both are async-signal-safe.
        let before = unsafe { sigaction(signal, &action) }?;
        if signal == Signal::SIGHUP && matches!(before.handler(), SigHandler::SigIgn) {
            // With `nohup` the work is meant to go on.
            // SAFETY: As it was.
            unsafe { sigaction(signal, &before) }?;
        }
    }
    Ok(&INTERRUPTED)
}

/// Makes a write beyond RLIMIT_FSIZE an error instead of the end of this process.
#[allow(unsafe_code)]
pub fn survive_file_size_limit() {
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    // SAFETY: SIG_IGN runs no code.
    let _ = unsafe { sigaction(Signal::SIGXFSZ, &ignore) };
}

/// Returns the signal with that name: `INT`, `SIGINT`.
#[must_use]
pub fn named(name: &str) -> Option<Signal> {
    format!("SIG{}", name.strip_prefix("SIG").unwrap_or(name)).parse().ok()
}

/// Sends any signal.
///
/// # Errors
/// The process is gone, or belongs to somebody else.
pub fn send(pid: Pid, signal: Signal) -> Result<()> {
    kill(nix::unistd::Pid::from_raw(pid.0), signal)
        .map_err(|errno| Error::from_io(pid, "the permission to signal it", errno.into()))
}
