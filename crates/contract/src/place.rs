//! The place of a status page in the file system: its directory and its name.

use core::fmt;

/// Name of the directory under `$XDG_RUNTIME_DIR`.
pub const RUNTIME_SUBDIRECTORY: &str = "unbloat";

/// Directory used without `$XDG_RUNTIME_DIR`, to be followed by the effective user id.
pub const SHARED_MEMORY_PREFIX: &str = "/dev/shm/unbloat-";

/// A page's file name: `NAMESPACE-PID.status`.
///
/// NAMESPACE is the inode of `/proc/self/ns/pid`: containers may share `/dev/shm` and still count pids apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileName {
    /// Inode number of the pid namespace.
    pub namespace: u64,
    /// The process id in that namespace.
    pub pid: u32,
}

impl FileName {
    /// Reads a name back; anything else in the directory gives `None`.
    pub fn parse(name: &str) -> Option<Self> {
        let (namespace, pid) = name.strip_suffix(".status")?.split_once('-')?;
        Some(Self { namespace: namespace.parse().ok()?, pid: pid.parse().ok()? })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}.status", self.namespace, self.pid)
    }
}
