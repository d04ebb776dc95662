//! A process's number, as this tool's own PID namespace sees it.

use std::fmt;
use std::path::PathBuf;

/// The number of a process (or of a thread), as `/proc` of the caller's namespace shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Pid(pub i32);

impl Pid {
    /// The calling process.
    #[must_use]
    pub fn this() -> Self {
        Pid(nix::unistd::getpid().as_raw())
    }

    /// A file below `/proc/PID`.
    #[must_use]
    pub fn proc(self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.0))
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
