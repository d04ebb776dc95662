//! Process IDs, in this tool's own PID namespace.

use std::fmt;
use std::path::PathBuf;

/// The ID of a process (or of a thread), as in `/proc` of the caller's namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Pid(pub i32);

impl Pid {
    /// Returns the calling process.
    #[must_use]
    pub fn this() -> Self {
        Pid(nix::unistd::getpid().as_raw())
    }

    /// Returns the path of a file in `/proc/PID`.
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
