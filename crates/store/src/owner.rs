//! Tests whether the process that writes a recording is still alive.
//!
//! A recording names its writer by PID, start time and boot, which together identify it for good. Unlike a
//! lock file, they are not left behind by a killed writer; a lock on the database itself would conflict with
//! SQLite's own.

use std::fs;
use unbloat_process::{Pid, watch::ProcFs};
use unbloat_recording::Owner;

/// Returns the calling process as an owner.
#[must_use]
pub fn this_process() -> Owner {
    let pid = Pid::this();
    Owner { pid: pid.0, start_ticks: start_ticks(pid), boot_id: boot_id() }
}

/// Returns whether an owner is still running.
#[must_use]
pub fn is_alive(owner: &Owner) -> bool {
    let same_boot = owner.boot_id == boot_id();
    same_boot && owner.start_ticks.is_some() && start_ticks(Pid(owner.pid)) == owner.start_ticks
}

fn boot_id() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// Returns the start time; `None` for a process that does not exist or is a zombie, since neither writes any
/// more.
fn start_ticks(pid: Pid) -> Option<u64> {
    let stat = ProcFs::default().stat(pid).ok().filter(|stat| !stat.is_dead())?;
    Some(stat.start_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_another_with_its_pid_would_not_be() {
        let this = this_process();
        assert!(is_alive(&this));
        assert!(!is_alive(&Owner { start_ticks: Some(1), ..this.clone() }));
        assert!(!is_alive(&Owner { boot_id: Some("another".into()), ..this }));
    }
}
