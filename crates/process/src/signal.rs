//! Asks a process to end or makes it, and receives such requests to ourselves.

use crate::{Error, Pid, Result};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::{AsFd, BorrowedFd};

/// Sends SIGTERM: servers finish their requests and end.
///
/// # Errors
/// The process is gone, or is somebody else's.
pub fn terminate(pid: Pid) -> Result<()> {
    send(pid, Signal::SIGTERM)
}

/// Sends SIGKILL.
///
/// # Errors
/// The process is gone, or is somebody else's.
pub fn end(pid: Pid) -> Result<()> {
    send(pid, Signal::SIGKILL)
}

/// Sends SIGINT, as Ctrl-C does.
///
/// # Errors
/// The process is gone, or is somebody else's.
pub fn interrupt(pid: Pid) -> Result<()> {
    send(pid, Signal::SIGINT)
}

/// A request to end that has reached us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Ctrl-C or SIGINT, as opposed to SIGTERM and SIGHUP.
    pub is_interrupt: bool,
    /// It came from the terminal, which has told the whole foreground process group.
    pub from_terminal: bool,
}

/// SIGINT, SIGTERM and SIGHUP, read when we are ready for them instead of ending us.
#[derive(Debug)]
pub struct Requests {
    signals: SignalFd,
}

impl Requests {
    /// Takes the signals over for the calling thread and those that it starts from now on. Commands that are started
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

    /// The next request, if there is one.
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

impl AsFd for Requests {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

/// Makes a write beyond RLIMIT_FSIZE an error instead of the end of this process.
#[allow(unsafe_code)]
pub fn survive_file_size_limit() {
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    // SAFETY: SIG_IGN runs no code.
    let _ = unsafe { sigaction(Signal::SIGXFSZ, &ignore) };
}

/// The signal of that name: `INT`, `SIGINT`.
#[must_use]
pub fn named(name: &str) -> Option<Signal> {
    format!("SIG{}", name.strip_prefix("SIG").unwrap_or(name)).parse().ok()
}

/// Sends any signal.
///
/// # Errors
/// The process is gone, or is somebody else's.
pub fn send(pid: Pid, signal: Signal) -> Result<()> {
    kill(nix::unistd::Pid::from_raw(pid.0), signal)
        .map_err(|errno| Error::from_io(pid, "the permission to signal it", errno.into()))
}
