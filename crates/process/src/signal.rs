//! Asking a process to end, and making it.

use crate::{Error, Pid, Result};
use nix::sys::signal::{Signal, kill};

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

fn send(pid: Pid, signal: Signal) -> Result<()> {
    kill(nix::unistd::Pid::from_raw(pid.0), signal)
        .map_err(|errno| Error::from_io(pid, "the permission to signal it", errno.into()))
}
