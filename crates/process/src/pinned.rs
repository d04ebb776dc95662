//! A pinned process, which cannot be mistaken for a later process with the same PID, nor for the program it
//! becomes by `execve`.
//!
//! A PID is only a number: a process can end at any time, and the kernel reuses its number. A pidfd
//! (`pidfd_open(2)`, Linux 5.3) stands for the process itself. `/proc/PID/mem` belongs to the address space
//! that the process had when the file was opened (`proc_mem_open`, fs/proc/base.c): after an exec it reads as
//! empty.

#![allow(unsafe_code)] // one system call that no crate wraps

use crate::{Error, Pid, Result, Stat, sandbox};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use serde::{Serialize, de::DeserializeOwned};
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

/// A process, and its address space at the time it was pinned.
#[derive(Debug)]
pub struct Pinned {
    pid: Pid,
    /// The process; `None` on kernels before 5.3.
    process: Option<OwnedFd>,
    /// Its memory; `None` if it may not be read, or does not exist (a zombie, a kernel thread).
    memory: Option<File>,
}

/// Permission for a look to stop the target's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopping {
    /// Read only.
    Never,
    /// The user asked for it.
    Allowed,
}

impl Pinned {
    /// Pins a process.
    ///
    /// # Errors
    /// There is no such process.
    pub fn open(pid: Pid) -> Result<Self> {
        let process = open_pidfd(pid)?;
        let memory = File::open(pid.proc("mem")).ok().filter(has_address_space);
        let pinned = Pinned { pid, process, memory };
        // The memory belongs to the pidfd's process only if that had not ended before the memory was opened.
        pinned.check_alive()?;
        Ok(pinned)
    }

    /// Returns its PID.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns its memory, opened for reading.
    #[must_use]
    pub fn memory(&self) -> Option<&File> {
        self.memory.as_ref()
    }

    /// Checks that it is still the same process running the same program.
    ///
    /// # Errors
    /// It has ended, or has become another program.
    pub fn check(&self) -> Result<()> {
        self.check_alive()?;
        match &self.memory {
            Some(memory) if !has_address_space(memory) && is_exiting(self.pid) => {
                Err(Error::Gone { pid: self.pid })
            }
            Some(memory) if !has_address_space(memory) => Err(Error::Replaced { pid: self.pid }),
            _ => Ok(()),
        }
    }

    /// Sends it a signal; a later process with the same PID gets none.
    ///
    /// # Errors
    /// It has ended, or belongs to somebody else.
    pub fn send(&self, signal: Signal) -> Result<()> {
        let Some(process) = &self.process else { return crate::signal::send(self.pid, signal) };
        // SAFETY: the call takes a descriptor and numbers; without a `siginfo_t` the kernel creates one.
        let sent = unsafe {
            let none = std::ptr::null::<libc::siginfo_t>();
            libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal as i32, none, 0)
        };
        let failed = |errno: Errno| Error::from_io(self.pid, "the permission to signal it", errno.into());
        Errno::result(sent).map(drop).map_err(failed)
    }

    /// Checks that the process has not ended: its pidfd is then readable.
    fn check_alive(&self) -> Result<()> {
        let Some(process) = &self.process else { return Ok(()) };
        let ended = poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO);
        // A zombie has ended and can still be read: its PID is its own until it is reaped.
        if ended == Ok(1) && !self.pid.proc("stat").exists() {
            return Err(Error::Gone { pid: self.pid });
        }
        Ok(())
    }

    /// Its descriptors, for a confined child to inherit.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let process = self.process.as_ref().map(|process| process.as_fd());
        process.into_iter().chain(self.memory.as_ref().map(|memory| memory.as_fd())).collect()
    }
}

/// Returns whether a process is ending, or has ended: it gives its memory up before its pidfd tells (`do_exit`, kernel/exit.c).
fn is_exiting(pid: Pid) -> bool {
    const PF_EXITING: u64 = 0x4;
    let stat = std::fs::read(pid.proc("stat")).ok().and_then(|text| Stat::parse(&text));
    stat.is_none_or(|stat| stat.flags & PF_EXITING != 0)
}

/// Runs `work` in a confined child, within limits that follow from the process's resident bytes, and verifies
/// that it was the same process with the same program all the time.
///
/// # Errors
/// Those of `work`; [`Error::GaveUp`] if it did not finish within its limits; [`Error::Replaced`] and
/// [`Error::Gone`] if the process changed or ended.
pub fn look<T: Serialize + DeserializeOwned>(
    pid: Pid,
    stopping: Stopping,
    work: impl FnOnce(&Pinned) -> Result<T>,
) -> Result<T> {
    look_at(&Pinned::open(pid)?, stopping, work)
}

/// As [`look`], with room for a copy of parts of the target: limits on memory and time that grow with its resident bytes.
///
/// # Errors
/// As [`look`].
pub fn look_with_copy<T: Serialize + DeserializeOwned>(
    pid: Pid,
    stopping: Stopping,
    work: impl FnOnce(&Pinned) -> Result<T>,
) -> Result<T> {
    let limits = sandbox::Limits::of_resident(resident_bytes(pid)).with_copy_of(resident_bytes(pid));
    look_within(&limits, &Pinned::open(pid)?, None, stopping, work)
}

/// As [`look_with_copy`], beside another process that was pinned before: its memory can be read as well.
///
/// # Errors
/// As [`look`]; also if the other process has ended or has become another program.
pub fn look_beside<T: Serialize + DeserializeOwned>(
    pid: Pid,
    beside: &Pinned,
    work: impl FnOnce(&Pinned) -> Result<T>,
) -> Result<T> {
    let limits = sandbox::Limits::of_resident(resident_bytes(pid)).with_copy_of(resident_bytes(pid));
    let result = look_within(&limits, &Pinned::open(pid)?, Some(beside), Stopping::Never, work)?;
    beside.check()?;
    Ok(result)
}

/// Like [`look`], for a process that is already pinned and stays so.
///
/// # Errors
/// As [`look`].
pub fn look_at<T: Serialize + DeserializeOwned>(
    pinned: &Pinned,
    stopping: Stopping,
    work: impl FnOnce(&Pinned) -> Result<T>,
) -> Result<T> {
    look_within(&sandbox::Limits::of_resident(resident_bytes(pinned.pid)), pinned, None, stopping, work)
}

fn look_within<T: Serialize + DeserializeOwned>(
    limits: &sandbox::Limits,
    pinned: &Pinned,
    beside: Option<&Pinned>,
    stopping: Stopping,
    work: impl FnOnce(&Pinned) -> Result<T>,
) -> Result<T> {
    let pid = pinned.pid;
    let scope = sandbox::Scope {
        targets: vec![pid],
        descriptors: std::iter::once(pinned).chain(beside).flat_map(Pinned::descriptors).collect(),
        may_stop: stopping == Stopping::Allowed,
    };
    let result = sandbox::look(pid, limits, &scope, || work(pinned))?;
    pinned.check()?;
    Ok(result)
}

/// Reads the second field of `/proc/PID/statm`, in pages.
fn resident_bytes(pid: Pid) -> u64 {
    let text = std::fs::read_to_string(pid.proc("statm")).unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(crate::page_size())
}

pub(crate) fn open_pidfd(pid: Pid) -> Result<Option<OwnedFd>> {
    // SAFETY: the call takes numbers only.
    match Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) }) {
        // SAFETY: a new descriptor that nothing else owns.
        Ok(descriptor) => Ok(Some(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })),
        // Before Linux 5.3, or denied by a container.
        Err(Errno::ENOSYS | Errno::EPERM) => Ok(None),
        // EINVAL: the ID of a thread, or of nothing.
        Err(errno) if errno == Errno::EINVAL && pid.proc("stat").exists() => Ok(None),
        Err(_) => Err(Error::Gone { pid }),
    }
}

/// Returns whether the address space of an open `/proc/PID/mem` still exists: reading at 0 then fails,
/// because nothing is mapped there, and otherwise returns nothing (`mem_rw`, fs/proc/base.c).
fn has_address_space(memory: &File) -> bool {
    !matches!(memory.read_at(&mut [0], 0), Ok(0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    fn shell(script: &str) -> (std::process::Child, Pid) {
        let child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid(child.id() as i32);
        (child, pid)
    }

    #[test]
    fn an_exec_is_noticed() {
        let (mut child, pid) = shell("read _; exec sleep 60");
        while crate::status::name(pid).unwrap() != "sh" {
            std::thread::sleep(Duration::from_millis(1));
        }
        let pinned = Pinned::open(pid).unwrap();
        pinned.check().unwrap();
        drop(child.stdin.take());
        while crate::status::name(pid).unwrap() != "sleep" {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(matches!(pinned.check(), Err(Error::Replaced { .. })));
        pinned.send(Signal::SIGKILL).unwrap();
        child.wait().unwrap();
        assert!(matches!(pinned.check(), Err(Error::Gone { .. })));
        assert!(matches!(pinned.send(Signal::SIGKILL), Err(Error::Gone { .. })));
    }

    #[test]
    fn an_exec_during_a_look_is_an_error_and_no_report() {
        let (mut child, pid) = shell("read _; exec sleep 60");
        let mut stdin = child.stdin.take();
        let looked = look(pid, Stopping::Never, |_| {
            // The parent's end was closed in the child when it was created, so only the test can let it
            // continue.
            std::thread::sleep(Duration::from_millis(300));
            Ok(7u32)
        });
        assert_eq!(looked.unwrap(), 7);
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            drop(stdin.take());
        });
        let looked = look(pid, Stopping::Never, |_| {
            while crate::status::name(pid)? != "sleep" {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(7u32)
        });
        assert!(matches!(looked, Err(Error::Replaced { .. })), "{looked:?}");
        writer.join().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn nobody_has_this_number() {
        assert!(matches!(Pinned::open(Pid(i32::MAX)), Err(Error::Gone { .. })));
    }
}
