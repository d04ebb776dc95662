//! Becoming another program: the same process, with nothing of ours left in it.

#![allow(unsafe_code)] // one call: setting a signal disposition

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Replaces this process by a program. Returns only when that fails, with the kernel's reason.
///
/// Unlike `std::os::unix::process::CommandExt::exec`, it leaves the signal mask as it was inherited. `SIGPIPE`, which
/// Rust's start-up ignores, goes back to its default.
///
/// A file without a format that the kernel knows is given to `/bin/sh`, as `execvp(3)` does.
///
/// # Errors
/// Always: the reason why the program was not started.
pub fn become_program(program: &Path, arguments: &[CString], environment: &[CString]) -> io::Error {
    let Ok(path) = CString::new(program.as_os_str().as_bytes()) else {
        return io::Error::from(io::ErrorKind::InvalidInput);
    };
    // SAFETY: sets a disposition to the default; no handler is involved.
    let _ =
        unsafe { nix::sys::signal::signal(nix::sys::signal::SIGPIPE, nix::sys::signal::SigHandler::SigDfl) };
    let Err(error) = nix::unistd::execve(&path, arguments, environment);
    if error != nix::errno::Errno::ENOEXEC {
        return error.into();
    }
    let shell: &CStr = c"/bin/sh";
    let rest = arguments.iter().skip(1).map(CString::as_c_str);
    let with_shell: Vec<&CStr> = [shell, path.as_c_str()].into_iter().chain(rest).collect();
    let Err(error) = nix::unistd::execve(shell, &with_shell, environment);
    error.into()
}
