//! The memory of a process's control group.
//!
//! Version 2: `memory.current`, `memory.peak` (since Linux 5.19) below the path after `0::` in
//! `/proc/PID/cgroup`. Version 1: `memory.usage_in_bytes`, `memory.max_usage_in_bytes` of the `memory`
//! controller (`Documentation/admin-guide/cgroup-v2.rst`, `cgroup-v1/memory.rst`). The kernel also counts
//! page cache and its own memory, so the figure is larger than the processes' PSS.

use crate::Pid;
use std::path::{Path, PathBuf};

/// A control group whose memory can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// Its name, as in `/proc/PID/cgroup`.
    pub name: String,
    current: PathBuf,
    peak: PathBuf,
    limit: PathBuf,
}

impl Cgroup {
    /// Returns the group of a process, if it has one with memory accounting.
    #[must_use]
    pub fn of(pid: Pid) -> Option<Self> {
        let text = std::fs::read_to_string(pid.proc("cgroup")).ok()?;
        Self::find(&text, Path::new("/sys/fs/cgroup"))
    }

    fn find(text: &str, mounted: &Path) -> Option<Self> {
        let mut candidates = text.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, name) = rest.split_once(':')?;
            let (directory, [current, peak, limit]) = if controllers.is_empty() {
                (mounted.to_owned(), ["memory.current", "memory.peak", "memory.max"])
            } else if controllers.split(',').any(|c| c == "memory") {
                let files = ["memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.limit_in_bytes"];
                (mounted.join("memory"), files)
            } else {
                return None;
            };
            let directory = directory.join(name.trim_start_matches('/'));
            let group = Cgroup {
                name: name.to_owned(),
                current: directory.join(current),
                peak: directory.join(peak),
                limit: directory.join(limit),
            };
            group.current_bytes().is_some().then_some(group)
        });
        candidates.next_back()
    }

    /// Returns the bytes currently charged to the group.
    #[must_use]
    pub fn current_bytes(&self) -> Option<u64> {
        number(&self.current)
    }

    /// Returns the most that was ever charged to it.
    #[must_use]
    pub fn peak_bytes(&self) -> Option<u64> {
        number(&self.peak)
    }

    /// The most that may be charged to it; `None` without a limit of its own (`max`, and in version 1 a number as large as the
    /// address space).
    #[must_use]
    pub fn limit_bytes(&self) -> Option<u64> {
        number(&self.limit).filter(|&limit| limit < 1 << 60)
    }
}

/// Returns the name of a process's control group, as in `/proc/PID/cgroup`: that of version 2, or of version 1's
/// `memory` controller, or of systemd's own hierarchy. `None` if there is none, or the process is gone.
#[must_use]
pub fn name_of(pid: Pid) -> Option<String> {
    name_in(&std::fs::read_to_string(pid.proc("cgroup")).ok()?)
}

fn name_in(text: &str) -> Option<String> {
    let named = |line: &str| -> Option<(u8, String)> {
        let (_, rest) = line.split_once(':')?;
        let (controllers, name) = rest.split_once(':')?;
        let rank = match controllers {
            _ if controllers.split(',').any(|c| c == "memory") => 2,
            "name=systemd" => 1,
            "" => 3,
            _ => 0,
        };
        // In a hybrid hierarchy version 2's group may be the root, and version 1's is the one that says something.
        let rank = if name == "/" { 0 } else { rank };
        Some((rank, name.to_owned()))
    };
    text.lines()
        .filter_map(named)
        .filter(|(rank, _)| *rank > 0)
        .max_by_key(|&(rank, _)| rank)
        .map(|(_, name)| name)
}

fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn lay(root: &Path, files: &[(&str, &str)]) {
        for (file, text) in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn both_versions_are_found() {
        let root = tempfile::tempdir().unwrap();
        lay(root.path(), &[("app/memory.current", "4096\n"), ("app/memory.peak", "8192\n")]);
        let group = Cgroup::find("0::/app\n", root.path()).unwrap();
        assert_eq!((group.current_bytes(), group.peak_bytes()), (Some(4096), Some(8192)));
        lay(root.path(), &[("app/memory.max", "max\n")]);
        assert_eq!(group.limit_bytes(), None);
        lay(root.path(), &[("app/memory.max", "16384\n")]);
        assert_eq!(group.limit_bytes(), Some(16384));

        lay(root.path(), &[("memory/old/memory.usage_in_bytes", "12288\n")]);
        let text = "5:devices:/\n4:cpu,memory:/old\n0::/\n";
        let group = Cgroup::find(text, root.path()).unwrap();
        assert_eq!(
            (group.name.as_str(), group.current_bytes(), group.peak_bytes()),
            ("/old", Some(12288), None)
        );
    }

    #[test]
    fn the_name_that_says_most_is_taken() {
        assert_eq!(name_in("0::/system.slice/puma.service\n"), Some("/system.slice/puma.service".into()));
        let hybrid = "5:memory:/docker/ab\n1:name=systemd:/docker/ab\n0::/\n";
        assert_eq!(name_in(hybrid), Some("/docker/ab".into()));
        assert_eq!(name_in("0::/\n"), None);
    }

    #[test]
    fn a_group_without_memory_accounting_is_none() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Cgroup::find("0::/\n3:cpuset:/\n", root.path()), None);
    }
}
