//! The environment that a process was started with.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn own_environment_has_a_path() {
        assert!(environment(Pid::this()).unwrap().contains_key("PATH"));
    }
}
