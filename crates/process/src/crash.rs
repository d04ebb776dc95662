//! A last byte sent when this process fails.

#![allow(unsafe_code)] // what runs in a signal handler

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

/// Signals of a process that has failed: `abort(3)`, as for want of memory, and the kernel's for a mistake. A stack overflow
/// ends in SIGABRT too (std's handler of SIGSEGV).
const CRASHES: [Signal; 4] = [Signal::SIGABRT, Signal::SIGBUS, Signal::SIGILL, Signal::SIGFPE];

static SOCKET: AtomicI32 = AtomicI32::new(-1);
static BYTE: AtomicU8 = AtomicU8::new(0);

/// Makes a crash of this process send a byte to a socket before it ends the process.
pub(crate) fn send(socket: BorrowedFd<'_>, byte: u8) {
    BYTE.store(byte, Ordering::Relaxed);
    SOCKET.store(socket.as_raw_fd(), Ordering::Relaxed);
    let flags = SaFlags::SA_RESETHAND | SaFlags::SA_NODEFER;
    let action = SigAction::new(SigHandler::Handler(send_and_end), flags, SigSet::empty());
    for signal in CRASHES {
        // SAFETY: the handler makes system calls only. It fails for no signal of the list.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

/// Sends nothing any more; true if something would have been sent to this socket.
pub(crate) fn forget(socket: BorrowedFd<'_>) -> bool {
    SOCKET.compare_exchange(socket.as_raw_fd(), -1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

extern "C" fn send_and_end(signal: libc::c_int) {
    let byte = BYTE.load(Ordering::Relaxed);
    // SAFETY: both calls are async-signal-safe; the byte lives. The signal has its default action again, which ends the process.
    unsafe {
        libc::send(SOCKET.load(Ordering::Relaxed), (&raw const byte).cast(), 1, libc::MSG_NOSIGNAL);
        libc::raise(signal);
    }
}
