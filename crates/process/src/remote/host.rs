//! A process in which functions are called: its memory, mappings and gadgets.

use super::arch::code;
use super::call::{LeftAlone, Returned};
use super::gadgets::Gadgets;
use super::moment;
use super::refusal::{Failure, Refusal, Unfit};
use super::unwinder::Unwinder;
use crate::{Error, LiveMemory, Maps, Memory, Pid, Pinned};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// A process in which functions can be called.
#[derive(Debug)]
pub struct Host<'a> {
    /// The process.
    pub pid: Pid,
    /// The same process, pinned before it was examined.
    pub pinned: &'a Pinned,
    /// Its memory.
    pub memory: &'a LiveMemory,
    /// Its mappings as of a moment ago.
    pub maps: &'a Maps,
    /// Gadgets in its libc.
    pub gadgets: &'a Gadgets,
    /// The unwinder for the stacks of its threads.
    pub unwinder: &'a Unwinder,
}

impl Host<'_> {
    /// Returns the system call number loaded by the code before `pc`.
    pub(super) fn call_number_before(&self, pc: u64) -> Option<i64> {
        let mut before = [0; code::NUMBERED_CALL_BYTES];
        self.memory.read(pc.checked_sub(before.len() as u64)?, &mut before).ok()?;
        code::number_of_call(before)
    }

    /// Returns whether a system call instruction lies just before `pc`.
    pub(super) fn is_behind_call(&self, pc: u64) -> bool {
        let mut before = code::CALL;
        before.fill(0);
        let at = pc.wrapping_sub(before.len() as u64);
        self.memory.read(at, &mut before).is_ok() && before == code::CALL
    }

    /// Returns the address where libc makes the system call `rt_sigreturn`.
    pub(super) fn signal_return(&self) -> u64 {
        self.gadgets.signal_returns.first().copied().unwrap_or_default()
    }

    /// Returns the program counter of a thread that has made the call in libc's `syscall`.
    pub(super) fn behind_system_call(&self) -> u64 {
        self.gadgets.system_call.wrapping_add(code::CALL.len() as u64)
    }

    /// Checks that a thread belongs to the pinned process, still running the same program. The thread is
    /// seized and so keeps its ID.
    ///
    /// # Errors
    /// The process has ended or become another program, or the ID is another process's thread by now.
    pub(super) fn check(&self, tid: i32) -> Result<(), Failure> {
        match self.pinned.check() {
            Err(Error::Replaced { .. }) => return Err(Refusal::Replaced.into()),
            checked => checked?,
        }
        if self.pid.proc(&format!("task/{tid}")).exists() { Ok(()) } else { Err(Unfit::Woke.into()) }
    }

    /// Determines the fate of a call whose thread can no longer be followed.
    ///
    /// # Errors
    /// The process has ended or become another program, and the thread with it.
    pub(super) fn lost_sight(&self) -> Result<Returned, Refusal> {
        match self.pinned.check() {
            Ok(()) => Ok(Returned::LeftAlone(LeftAlone::LostSight)),
            Err(Error::Replaced { .. }) => Err(Refusal::Replaced),
            Err(_) => Err(Refusal::Ended),
        }
    }
}

/// A writer to the target's address space at the time of opening, and to no other.
#[derive(Debug)]
pub(super) struct Writer(File);

impl Writer {
    /// Opens the target's memory. Checking the process afterwards proves that it is this process's memory.
    ///
    /// # Errors
    /// The process is gone, or may not be written to.
    pub(super) fn open(pid: Pid) -> Result<Self, Error> {
        let file = File::options().write(true).open(pid.proc("mem"));
        file.map(Writer).map_err(|e| Error::from_io(pid, "the memory (to write to it)", e))
    }

    /// Writes all bytes or fails; in that case the bytes already written lie below the stack and have no
    /// effect.
    ///
    /// # Errors
    /// The memory is absent, or the process is gone.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.0.write_all_at(bytes, address);
        moment();
        written.map_err(|_| Unfit::NoRoom.into())
    }
}
