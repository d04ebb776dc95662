//! Replaces this process by another program, leaving nothing of ours in it.

#![allow(unsafe_code)] // reading and setting a signal disposition

use nix::libc;
use nix::sys::signal::{SigHandler, Signal, signal};
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// This process was started with `SIGPIPE` ignored, as systemd does for services.
static IGNORES_SIGPIPE: AtomicBool = AtomicBool::new(false);

/// Reads the disposition of `SIGPIPE` before Rust's start-up, which unconditionally ignores the signal: the
/// dynamic linker calls the functions in `.init_array` (System V ABI, chapter 5) before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_SIGPIPE: extern "C" fn() = look_at_sigpipe;

extern "C" fn look_at_sigpipe() {
    // SAFETY: an all-zero sigaction is valid.
    let mut inherited: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action, sigaction only fills the live structure.
    let asked = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut inherited) };
    IGNORES_SIGPIPE.store(asked == 0 && inherited.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
}

/// Replaces this process by a program. Returns only on failure, with the kernel's reason.
///
/// Unlike `std::os::unix::process::CommandExt::exec`, it keeps the inherited signal mask, and restores the
/// inherited disposition of `SIGPIPE`, which Rust's start-up ignores.
///
/// A file in a format unknown to the kernel is run by `/bin/sh`, as with `execvp(3)`.
///
/// # Errors
/// Always: the reason why the program was not started.
pub fn become_program(program: &Path, arguments: &[CString], environment: &[CString]) -> io::Error {
    let Ok(path) = CString::new(program.as_os_str().as_bytes()) else {
        return io::Error::from(io::ErrorKind::InvalidInput);
    };
    if !IGNORES_SIGPIPE.load(Ordering::Relaxed) {
        // SAFETY: sets a disposition to the default; no handler is involved.
        let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
    }
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
