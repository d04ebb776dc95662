//! The threads of a process, and the address of libc's description of each.

#![allow(unsafe_code)] // one system call that no crate wraps

use crate::{Error, Pid, Result, status};
use unbloat_untrusted::Untrusted;

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its ID.
    pub tid: Pid,
    /// Its name (`comm`), unless it has ended meanwhile.
    pub name: Option<Untrusted>,
    /// Address of the head of its robust futex list, which lies inside libc's description of the thread
    /// (`struct pthread`). Every thread announces it to the kernel (`set_robust_list(2)`), so it can be
    /// queried without stopping the thread.
    pub robust_list: Option<u64>,
}

/// Lists the threads of a process, the main thread first, skipping any that end meanwhile.
///
/// # Errors
/// The process is gone.
pub fn threads(pid: Pid) -> Result<Vec<Thread>> {
    let thread = |tid| Thread { tid, name: status::name(tid).ok(), robust_list: robust_list(tid) };
    Ok(tids(pid)?.into_iter().map(thread).collect())
}

/// Lists the stack pointers of the threads that wait in the kernel (`/proc/PID/task/TID/syscall`, the last field but
/// one). A thread that runs has none.
#[must_use]
pub fn stack_pointers(pid: Pid) -> Vec<u64> {
    let pointer = |tid: Pid| {
        let text = std::fs::read_to_string(pid.proc("task").join(tid.to_string()).join("syscall")).ok()?;
        let field = text.split_whitespace().rev().nth(1)?;
        u64::from_str_radix(field.strip_prefix("0x")?, 16).ok()
    };
    tids(pid).unwrap_or_default().into_iter().filter_map(pointer).collect()
}

/// Lists the thread IDs of a process, the main thread first.
///
/// # Errors
/// The process is gone.
pub fn tids(pid: Pid) -> Result<Vec<Pid>> {
    let failed = |error| Error::from_io(pid, "the list of threads", error);
    let mut tids = Vec::new();
    for entry in std::fs::read_dir(pid.proc("task")).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        tids.extend(name.to_str().and_then(|n| n.parse().ok()).map(Pid));
    }
    tids.sort_by_key(|&tid| (tid != pid, tid));
    Ok(tids)
}

fn robust_list(tid: Pid) -> Option<u64> {
    let (mut head, mut len) = (0u64, 0usize);
    // SAFETY: get_robust_list(2) writes one pointer and one size to the two places, which outlive the call.
    let result =
        unsafe { nix::libc::syscall(nix::libc::SYS_get_robust_list, tid.0, &raw mut head, &raw mut len) };
    (result == 0 && head != 0).then_some(head)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn own_threads() {
        let threads = threads(Pid::this()).unwrap();
        assert_eq!(threads[0].tid, Pid::this());
        let this = threads.iter().find(|thread| thread.tid.0 == nix::unistd::gettid().as_raw()).unwrap();
        assert!(this.robust_list.is_some());
    }
}
