//! The place of a status page in the file system: its directory and its name.

use crate::text::split_once;
use core::fmt;

/// Name of the directory under `$XDG_RUNTIME_DIR`.
pub const RUNTIME_SUBDIRECTORY: &str = "unbloat";

/// Directory used without `$XDG_RUNTIME_DIR`, to be followed by the effective user ID.
pub const SHARED_MEMORY_PREFIX: &str = "/dev/shm/unbloat-";

/// A page's file name: `NAMESPACE-PID.status`.
///
/// NAMESPACE is the inode of `/proc/self/ns/pid`, since containers may share `/dev/shm` but number processes
/// independently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileName {
    /// Inode number of the PID namespace.
    pub namespace: u64,
    /// The process ID in that namespace.
    pub pid: u32,
}

impl FileName {
    /// Parses a name; anything else in the directory gives `None`.
    pub fn parse(name: &str) -> Option<Self> {
        let (namespace, pid) = split_once(name.strip_suffix(".status")?, b'-')?;
        Some(Self { namespace: namespace.parse().ok()?, pid: pid.parse().ok()? })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}.status", self.namespace, self.pid)
    }
}
