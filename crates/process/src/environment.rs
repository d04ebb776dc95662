//! The environment that a process was started with, and finding processes by a variable in it.
//!
//! `/proc/PID/environ` shows what was passed to `execve`; what the program itself changed later does not show.

use crate::{Error, Pid, Result};
use std::collections::BTreeMap;

/// Variables and values as the process was started with them. Bytes that are not UTF-8 are replaced.
///
/// # Errors
/// The process is gone, or may not be looked at.
pub fn environment(pid: Pid) -> Result<BTreeMap<String, String>> {
    let bytes = std::fs::read(pid.proc("environ")).map_err(|e| Error::from_io(pid, "the environment", e))?;
    let variables = bytes.split(|&b| b == 0).filter_map(|entry| {
        let text = String::from_utf8_lossy(entry);
        text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
    });
    Ok(variables.collect())
}

/// All processes that were started with `key=value` in their environment and that may be looked at. Every descendant
/// inherits it unless it cleans its environment, also one that left its session or was re-parented.
#[must_use]
pub fn started_with(key: &str, value: &str) -> Vec<Pid> {
    let wanted = format!("{key}={value}").into_bytes();
    let has = |pid: &Pid| {
        std::fs::read(pid.proc("environ"))
            .is_ok_and(|bytes| bytes.split(|&b| b == 0).any(|entry| entry == wanted))
    };
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid));
    pids.filter(has).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_and_its_detached_grandchild_are_found_by_their_variable() {
        let value = format!("test-{}", std::process::id());
        let mut child = Command::new("sh")
            .args(["-c", "setsid sleep 60 & echo $!; wait"])
            .env("UNBLOAT_TEST_MARK", &value)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
            .unwrap();
        // In the middle of an execve a process has no environment to read.
        let looks = (0..250).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            started_with("UNBLOAT_TEST_MARK", &value)
        });
        let found = { looks }.find(|found| found.len() >= 2).unwrap_or_default();
        for &pid in &found {
            crate::signal::end(pid).unwrap();
        }
        child.wait().unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.contains(&Pid(line.trim().parse().unwrap())));
    }

    #[test]
    fn own_environment_has_a_path() {
        assert!(environment(Pid::this()).unwrap().contains_key("PATH"));
    }
}
