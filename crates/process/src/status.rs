//! Reads `/proc/PID/status` (`Documentation/filesystems/proc.rst`, section 1.1), a process's command line and
//! its name.
//!
//! **Accuracy of RSS**: from Linux 6.2 to 6.16 `VmRSS` is the sum of per-CPU counters read without their
//! remainders and may be off by some 100 KiB per core; since 6.17 it is exact again. `Rss` of `smaps_rollup`
//! ([`crate::rollup`]) walks the page tables and is exact at the moment of the walk, but costs about 30 ms
//! per GiB. Both exclude the shared zero page.

use crate::rollup::Backed;
use crate::watch::ProcFs;
use crate::{Error, Pid, Result};
use std::path::PathBuf;
use unbloat_untrusted::Untrusted;

/// The kind of a process, as far as it limits what can be reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A program in user space.
    Program,
    /// A kernel thread, which has no user memory.
    KernelThread,
    /// Ended, but not yet awaited by its parent; its memory is gone.
    Zombie,
}

/// The relevant fields of `/proc/PID/status`. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The short name (`comm`), at most 15 bytes.
    pub name: String,
    /// The kind of process.
    pub kind: Kind,
    /// Its parent; 0 if that lies outside our PID namespace.
    pub parent: Pid,
    /// Number of threads.
    pub threads: u64,
    /// `VmRSS`; absent for a kernel thread or zombie.
    pub rss_bytes: Option<u64>,
    /// The backing of the resident bytes: `RssAnon`, `RssFile`, `RssShmem` (since Linux 4.5).
    pub backing: Option<Backed>,
    /// `VmSwap`.
    pub swap_bytes: Option<u64>,
    /// `VmLck`: memory that may not be swapped out, and that `madvise` does not release.
    pub locked_bytes: Option<u64>,
    /// Number of cores it may run on (`sched_setaffinity(2)`).
    pub allowed_cores: Option<u64>,
    /// Its PIDs in its own and the enclosing PID namespaces, ours first.
    pub namespace_pids: Vec<Pid>,
}

/// `PF_KTHREAD` of `include/linux/sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;

impl Status {
    /// Reads the status of a process.
    ///
    /// # Errors
    /// The process is gone, or `/proc` hides it (`hidepid`).
    pub fn of(pid: Pid) -> Result<Self> {
        let text = read(pid, "status", "the status")?;
        let stat = read(pid, "stat", "the status")?;
        Self::parse(pid, &text, &stat)
    }

    fn parse(pid: Pid, text: &str, stat: &str) -> Result<Self> {
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let number = |name: &str| field(name).and_then(|value| value.parse().ok());
        let bytes = |name: &str| kib(field(name)?);
        let backing = || {
            Some(Backed {
                anonymous_bytes: bytes("RssAnon")?,
                file_bytes: bytes("RssFile")?,
                shared_memory_bytes: bytes("RssShmem")?,
            })
        };
        let malformed = |what: &str| Error::Malformed { pid, what: "status", line: what.to_owned() };
        let kind = match field("State").and_then(|state| state.chars().next()) {
            Some('Z' | 'X') => Kind::Zombie,
            Some(_) if kernel_thread(stat) => Kind::KernelThread,
            Some(_) => Kind::Program,
            None => return Err(malformed("no line State")),
        };
        Ok(Status {
            name: field("Name").unwrap_or_default().to_owned(),
            kind,
            parent: Pid(number("PPid").ok_or_else(|| malformed("no line PPid"))? as i32),
            threads: number("Threads").unwrap_or(1),
            rss_bytes: bytes("VmRSS"),
            backing: backing(),
            swap_bytes: bytes("VmSwap"),
            locked_bytes: bytes("VmLck"),
            allowed_cores: field("Cpus_allowed").map(cores_in_mask),
            namespace_pids: field("NSpid")
                .map(|pids| pids.split_whitespace().filter_map(|p| p.parse().ok()).map(Pid).collect())
                .unwrap_or_default(),
        })
    }
}

/// Returns the number of online cores (`/sys/devices/system/cpu/online`, for example `0-3,8`), if the kernel
/// reports it.
#[must_use]
pub fn online_cores() -> Option<u64> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    text.trim().split(',').map(cores_in_range).sum()
}

fn cores_in_range(range: &str) -> Option<u64> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
}

/// Counts the bits of a hexadecimal mask with a comma after every eight digits.
fn cores_in_mask(mask: &str) -> u64 {
    mask.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| u64::from(digit.count_ones())).sum()
}

/// Reads the flags, which are the ninth field; the second, in parentheses, may contain anything.
fn kernel_thread(stat: &str) -> bool {
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after_name.split(' ').nth(6).and_then(|flags| flags.parse::<u64>().ok()).unwrap_or(0) & KERNEL_THREAD != 0
}

/// Returns the command line of a process with the arguments joined by spaces, or the short name in brackets
/// if it has none.
///
/// # Errors
/// The process is gone.
pub fn command(pid: Pid) -> Result<Untrusted> {
    // A process without a command line has a name; one that is gone has neither.
    ProcFs::default().command(pid).map_or_else(|| Ok(Untrusted::new(format!("[{}]", name(pid)?.raw()))), Ok)
}

/// Returns the working directory of a process, by the name that it has for the process itself.
///
/// # Errors
/// The process is gone, or may not be looked at.
pub fn directory(pid: Pid) -> Result<PathBuf> {
    let link = |name| std::fs::read_link(pid.proc(name));
    let directory = link("cwd").map_err(|e| Error::from_io(pid, "the working directory", e))?;
    // The kernel names both from our root on; the process has names from its own root on.
    let inside = link("root").ok().and_then(|root| Some(directory.strip_prefix(root).ok()?.to_path_buf()));
    Ok(inside.map_or(directory, |inside| PathBuf::from("/").join(inside)))
}

/// Returns the file name of the program that a process runs, for example `ruby3.1`; `None` if the process is gone or may
/// not be looked at.
#[must_use]
pub fn program(pid: Pid) -> Option<String> {
    let path = std::fs::read_link(pid.proc("exe")).ok()?;
    Some(path.file_name()?.to_string_lossy().trim_end_matches(" (deleted)").to_owned())
}

/// Returns the short name of a process or thread (`comm`).
///
/// # Errors
/// It is gone.
pub fn name(pid: Pid) -> Result<Untrusted> {
    Ok(read(pid, "comm", "the name")?.trim_end_matches('\n').into())
}

fn read(pid: Pid, file: &str, what: &'static str) -> Result<String> {
    let bytes = std::fs::read(pid.proc(file)).map_err(|e| Error::from_io(pid, what, e))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses `1234 kB`, by which the kernel means KiB.
fn kib(value: &str) -> Option<u64> {
    value.strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn cores_are_counted() {
        assert_eq!(cores_in_mask("ff,0000000f"), 12);
        assert_eq!(["0-3", "8", "x", "3-1"].map(cores_in_range), [Some(4), Some(1), None, None]);
        assert!(online_cores().is_some_and(|cores| cores > 0));
    }

    #[test]
    fn own_status() {
        let status = Status::of(Pid::this()).unwrap();
        assert_eq!(status.kind, Kind::Program);
        assert_eq!(status.parent.0, std::os::unix::process::parent_id() as i32);
        assert!(status.rss_bytes.unwrap() > 1 << 16);
        assert_eq!(status.namespace_pids.first(), Some(&Pid::this()));
        assert!(command(Pid::this()).unwrap().raw().contains("unbloat"));
    }

    #[test]
    fn the_kernels_thread_daemon_is_told_apart() {
        // In a container PID 2 may be anything, or absent.
        if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
            assert_eq!(Status::of(Pid(2)).unwrap().kind, Kind::KernelThread);
            assert_eq!(command(Pid(2)).unwrap(), "[kthreadd]");
        }
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        assert!(kernel_thread("2 (a) b) S 0 0 0 0 -1 2129984 0 0"));
        assert!(!kernel_thread("2 (a) b) S 0 0 0 0 -1 4194304 0 0"));
    }

    #[test]
    fn nobody_has_this_number() {
        assert!(matches!(Status::of(Pid(i32::MAX)), Err(Error::Gone { .. })));
    }
}
