//! A process in which functions are called: its memory, its mappings and its gadgets.

use super::arch::code;
use super::gadgets::Gadgets;
use super::moment;
use super::refusal::{Failure, Unfit};
use crate::{LiveMemory, Maps, Memory, Pid};
use nix::sys::uio::{RemoteIoVec, process_vm_writev};
use std::io::IoSlice;

/// A process in which functions can be called.
#[derive(Debug)]
pub struct Host<'a> {
    /// The process.
    pub pid: Pid,
    /// Its memory.
    pub memory: &'a LiveMemory,
    /// Its mappings, as of a moment ago.
    pub maps: &'a Maps,
    /// Gadgets in its libc.
    pub gadgets: &'a Gadgets,
}

impl Host<'_> {
    /// The system call number that the code before `pc` loads.
    pub(super) fn call_number_before(&self, pc: u64) -> Option<i64> {
        let mut before = [0; code::NUMBERED_CALL_BYTES];
        self.memory.read(pc.checked_sub(before.len() as u64)?, &mut before).ok()?;
        code::number_of_call(before)
    }

    /// Whether a system call instruction lies just before `pc`.
    pub(super) fn is_behind_call(&self, pc: u64) -> bool {
        let mut before = code::CALL;
        before.fill(0);
        let at = pc.wrapping_sub(before.len() as u64);
        self.memory.read(at, &mut before).is_ok() && before == code::CALL
    }

    /// Where libc makes the system call `rt_sigreturn`.
    pub(super) fn signal_return(&self) -> u64 {
        self.gadgets.signal_returns.first().copied().unwrap_or_default()
    }

    /// The program counter of a thread that has made the call of libc's `syscall`.
    pub(super) fn behind_system_call(&self) -> u64 {
        self.gadgets.system_call.wrapping_add(code::CALL.len() as u64)
    }

    /// Writes to the target, wholly or not at all.
    ///
    /// # Errors
    /// The memory is not there, or the process is gone.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        let pid = nix::unistd::Pid::from_raw(self.pid.0);
        let range = RemoteIoVec { base: address as usize, len: bytes.len() };
        let written = process_vm_writev(pid, &[IoSlice::new(bytes)], &[range]);
        moment();
        match written {
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(_) | Err(nix::Error::EFAULT) => Err(Unfit::NoRoom.into()),
            Err(errno) => Err(errno.into()),
        }
    }
}
