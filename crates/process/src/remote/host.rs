//! A process in which functions are called: its memory, its mappings and its gadgets.

use super::arch::code;
use super::call::{LeftAlone, Returned};
use super::gadgets::Gadgets;
use super::moment;
use super::refusal::{Failure, Refusal, Unfit};
use super::unwind::Unwinder;
use crate::{Error, LiveMemory, Maps, Memory, Pid, Pinned};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// A process in which functions can be called.
#[derive(Debug)]
pub struct Host<'a> {
    /// The process.
    pub pid: Pid,
    /// The same, pinned before it was looked at.
    pub pinned: &'a Pinned,
    /// Its memory.
    pub memory: &'a LiveMemory,
    /// Its mappings, as of a moment ago.
    pub maps: &'a Maps,
    /// Gadgets in its libc.
    pub gadgets: &'a Gadgets,
    /// What unwinds the stacks of its threads.
    pub unwinder: &'a Unwinder,
}

impl Host<'_> {
    /// The system call number that the code before `pc` loads.
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

    /// The address at which libc makes the system call `rt_sigreturn`.
    pub(super) fn signal_return(&self) -> u64 {
        self.gadgets.signal_returns.first().copied().unwrap_or_default()
    }

    /// The program counter of a thread that has made the call of libc's `syscall`.
    pub(super) fn behind_system_call(&self) -> u64 {
        self.gadgets.system_call.wrapping_add(code::CALL.len() as u64)
    }

    /// Checks that a thread, which is seized and so keeps its number, belongs to the pinned process, and that this is
    /// still the program that was looked at.
    ///
    /// # Errors
    /// The process has ended or become another program, or the number is another process's thread by now.
    pub(super) fn check(&self, tid: i32) -> Result<(), Failure> {
        match self.pinned.check() {
            Err(Error::Replaced { .. }) => return Err(Refusal::Replaced.into()),
            checked => checked?,
        }
        if self.pid.proc(&format!("task/{tid}")).exists() { Ok(()) } else { Err(Unfit::Woke.into()) }
    }

    /// The fate of a call whose thread cannot be followed any more.
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

/// Writes to the address space that the target had when this was opened, and to no other.
#[derive(Debug)]
pub(super) struct Writer(File);

impl Writer {
    /// Opens the target's memory. Check the process afterwards: then this is its memory.
    ///
    /// # Errors
    /// The process is gone, or may not be written to.
    pub(super) fn open(pid: Pid) -> Result<Self, Error> {
        let file = File::options().write(true).open(pid.proc("mem"));
        file.map(Writer).map_err(|e| Error::from_io(pid, "the memory (to write to it)", e))
    }

    /// Writes all bytes, or fails; then those that were written lie below the stack and mean nothing.
    ///
    /// # Errors
    /// The memory is not there, or the process is gone.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.0.write_all_at(bytes, address);
        moment();
        written.map_err(|_| Unfit::NoRoom.into())
    }
}
