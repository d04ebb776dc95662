//! Checks a whole process before any of its threads is touched.

#![allow(unsafe_code)] // two system calls that no crate wraps

use super::refusal::Refusal;
use super::threads;
use crate::{Error, Pid};
use nix::libc;
use std::fs;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// `SECCOMP_MODE_STRICT`: allows only `read`, `write`, `exit` and `rt_sigreturn`; anything else kills.
const SECCOMP_STRICT: i32 = 1;
/// The inode of the initial PID namespace (`PROC_PID_INIT_INO`, `include/linux/proc_ns.h`).
const HOST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Refuses processes in which nothing may be called, whatever their threads do.
///
/// `trusted`: the user takes responsibility for the host's init and for system call filters (`--yes`). Strict
/// seccomp, which kills on any of the chain's calls, is always refused.
///
/// # Errors
/// The reason.
pub fn check(pid: Pid, trusted: bool) -> Result<(), Refusal> {
    if pid == Pid::this() {
        return Err(Refusal::Myself);
    }
    if pid.0 == 1 && !trusted && namespace("/proc/self/ns/pid").as_deref() == Some(HOST_PID_NAMESPACE) {
        return Err(Refusal::HostInit);
    }
    let status = Status::of(pid)?;
    if let Some(tracer) = status.number("TracerPid:").filter(|&tracer| tracer != 0) {
        return Err(Refusal::Traced { tracer: Pid(tracer) });
    }
    if status.number("PPid:").is_some_and(|parent| share_memory(pid, Pid(parent))) {
        return Err(Refusal::SharedMemory);
    }
    if status.text("State:").is_some_and(|state| state.starts_with('T')) {
        return Err(Refusal::Stopped);
    }
    if is_frozen(pid) {
        return Err(Refusal::Frozen);
    }
    // Each thread may have restricted itself.
    let ours = Status::of(Pid::this())?;
    for tid in threads::of(pid)? {
        let Ok(thread) = Status::of_thread(pid, tid) else { continue };
        match thread.number("Seccomp:") {
            None | Some(0) => {}
            Some(SECCOMP_STRICT) => return Err(Refusal::SeccompStrict),
            Some(_) if trusted || is_filter_of(&thread, &ours) && same_namespace(pid) => {}
            Some(_) => return Err(Refusal::Seccomp),
        }
    }
    Ok(())
}

struct Status(String);

impl Status {
    fn of(pid: Pid) -> Result<Self, Error> {
        let text =
            fs::read_to_string(pid.proc("status")).map_err(|e| Error::from_io(pid, "the status", e))?;
        Ok(Status(text))
    }

    fn of_thread(pid: Pid, tid: i32) -> std::io::Result<Self> {
        fs::read_to_string(pid.proc(&format!("task/{tid}/status"))).map(Status)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
    }

    fn number(&self, name: &str) -> Option<i32> {
        self.text(name)?.parse().ok()
    }
}

/// Returns whether a system call filter is the one that also applies to Unbloat: the same number of filters
/// in the same PID namespace, as in a container whose runtime filters all of its processes. Unbloat makes the
/// calls in question itself, and would not be running if they killed.
fn is_filter_of(thread: &Status, ours: &Status) -> bool {
    ["Seccomp:", "Seccomp_filters:"].iter().all(|name| thread.number(name) == ours.number(name))
}

fn same_namespace(pid: Pid) -> bool {
    namespace("/proc/self/ns/pid") == namespace(&format!("/proc/{pid}/ns/pid"))
}

fn namespace(path: &str) -> Option<String> {
    Some(fs::read_link(path).ok()?.to_str()?.to_owned())
}

/// Returns whether the process's control group is frozen, as far as Unbloat sees the control groups (`docker
/// pause`, `cgroup.freeze`, the freezer of version 1). Its threads would run the call when they are thawed,
/// whenever that is.
fn is_frozen(pid: Pid) -> bool {
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let mounts = read(Path::new("/proc/self/mounts"));
    let mounted_at = |kind: &str, option: &str| {
        mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find_map(|fields| match fields[..] {
            [_, at, fs, options, ..]
                if fs == kind && (option.is_empty() || options.split(',').any(|o| o == option)) =>
            {
                Some(PathBuf::from(at))
            }
            _ => None,
        })
    };
    read(&pid.proc("cgroup")).lines().any(|line| {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            return false;
        };
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            let group = mounted_at("cgroup2", "").map(|at| at.join(path).join("cgroup.events"));
            return group.is_some_and(|events| read(&events).lines().any(|line| line == "frozen 1"));
        }
        controllers == "freezer"
            && mounted_at("cgroup", "freezer")
                .is_some_and(|at| read(&at.join(path).join("freezer.state")).trim() == "FROZEN")
    })
}

/// Returns whether two processes share an address space (`kcmp(2)`, `KCMP_VM`); false on a kernel without the
/// call.
fn share_memory(a: Pid, b: Pid) -> bool {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: the call reads none of our memory.
    b.0 > 0 && unsafe { libc::syscall(libc::SYS_kcmp, a.0, b.0, KCMP_VM, 0, 0) } == 0
}

/// Returns whether a blocked read of a descriptor can be interrupted and resumed without the program
/// noticing: a pipe, an event, timer or signal descriptor, or a socket without a receive timeout (with one,
/// the kernel answers `EINTR`; `sock_intr_errno`, `include/net/sock.h`).
pub(super) fn reads_survive(pid: Pid, descriptor: i32) -> bool {
    let path = pid.proc(&format!("fd/{descriptor}"));
    let Ok(kind) = fs::metadata(&path).map(|file| file.file_type()) else { return false };
    let target = fs::read_link(&path).unwrap_or_default();
    let plain = ["anon_inode:[eventfd]", "anon_inode:[timerfd]", "anon_inode:[signalfd]"];
    kind.is_fifo()
        || plain.iter().any(|name| target.as_os_str() == *name)
        || kind.is_socket() && has_no_receive_timeout(pid, descriptor) == Some(true)
}

fn has_no_receive_timeout(pid: Pid, descriptor: i32) -> Option<bool> {
    // SAFETY: both calls return a new descriptor of ours, or -1.
    let socket = unsafe {
        let process = owned(libc::syscall(libc::SYS_pidfd_open, pid.0, 0))?;
        owned(libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), descriptor, 0))?
    };
    let mut timeout = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut len = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the timeout.
    let result = unsafe {
        let value = (&raw mut timeout).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, value, &raw mut len)
    };
    (result == 0).then_some(timeout.tv_sec == 0 && timeout.tv_usec == 0)
}

/// # Safety
/// `descriptor` is negative or owned by nobody else.
unsafe fn owned(descriptor: i64) -> Option<OwnedFd> {
    let descriptor = i32::try_from(descriptor).ok().filter(|&d| d >= 0)?;
    // SAFETY: as the caller promises.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn unbloat_leaves_itself_alone() {
        assert!(matches!(check(Pid::this(), true), Err(Refusal::Myself)));
    }

    #[test]
    fn a_pipe_and_a_plain_socket_survive_and_a_file_and_a_timed_socket_do_not() {
        let this = Pid::this();
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(reads_survive(this, reader.as_raw_fd()));
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(reads_survive(this, socket.as_raw_fd()));
        socket.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
        assert!(!reads_survive(this, socket.as_raw_fd()));
        let file = fs::File::open("/proc/self/status").unwrap();
        assert!(!reads_survive(this, file.as_raw_fd()));
    }
}
