//! Whether the recorder of a file is still alive.
//!
//! A recording names its writer by pid, start time and boot: these three never name another process. No lock file is
//! left behind by a writer that was killed, and a lock on the database itself would stand in the way of SQLite's own.

use std::fs;

/// A process that writes to a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its pid.
    pub pid: i32,
    /// Field 22 of its `/proc/PID/stat`: clock ticks since boot.
    pub start_ticks: Option<u64>,
    /// `/proc/sys/kernel/random/boot_id` of the boot it ran in.
    pub boot_id: Option<String>,
}

impl Owner {
    /// The calling process.
    #[must_use]
    pub fn this() -> Self {
        let pid = nix::unistd::getpid().as_raw();
        Owner { pid, start_ticks: start_ticks(pid), boot_id: boot_id() }
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let same_boot = self.boot_id == boot_id();
        same_boot && self.start_ticks.is_some() && start_ticks(self.pid) == self.start_ticks
    }
}

fn boot_id() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// `None` for a process that does not exist or is a zombie: it writes nothing any more.
fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name, field 2, may hold spaces and parentheses: count from its end on.
    let mut fields = stat.rsplit_once(") ")?.1.split_ascii_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then_some(())?;
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_another_with_its_pid_would_not_be() {
        let this = Owner::this();
        assert!(this.is_alive());
        assert!(!Owner { start_ticks: Some(1), ..this.clone() }.is_alive());
        assert!(!Owner { boot_id: Some("another".into()), ..this }.is_alive());
    }
}
