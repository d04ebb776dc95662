//! Errors of access to another process. Each message names the thing, the cause and the next step.

use crate::Pid;
use crate::sandbox::GaveUp;
use crate::sandbox::names::Name;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a process could not be accessed.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// There is no such process, or it has ended.
    #[error("process {pid} does not exist (any more). Look for its number with `ps` or use --name")]
    Gone {
        /// The requested process.
        pid: Pid,
    },
    /// The kernel denies access.
    #[error(
        "cannot read {what} of {pid}: operation not permitted. Run as the same user with CAP_SYS_PTRACE, or as root; \
         in a container add --cap-add SYS_PTRACE"
    )]
    NotPermitted {
        /// The process.
        pid: Pid,
        /// The thing to be read.
        #[serde(with = "crate::sandbox::names")]
        what: Name,
    },
    /// A range of memory could not be read: it is not mapped (any more), or the process has ended.
    #[error(
        "cannot read {len} bytes of memory at {address:#x} of {pid}: not mapped there (any more). Look again"
    )]
    Unreadable {
        /// The process.
        pid: Pid,
        /// The address where the read started.
        address: u64,
        /// The number of bytes requested.
        len: usize,
    },
    /// The page is not resident, and reading would make it so.
    #[error("the page at {address:#x} is not resident and was left alone")]
    Absent {
        /// The address where the read started.
        address: u64,
    },
    /// A file in `/proc` deviates from its documented format.
    #[error("{what} of {pid} has an unexpected form: {line:?}. Please report this with the kernel version")]
    Malformed {
        /// The process.
        pid: Pid,
        /// The file.
        #[serde(with = "crate::sandbox::names")]
        what: Name,
        /// The line that was not understood.
        line: String,
    },
    /// The process's status page has another version of the layout.
    #[error("cannot read the status page {path} of {pid}: {reason}. Look with the version of Unbloat that the process was started with", path = unbloat_untrusted::Untrusted::from(path.as_path()))]
    StatusPage {
        /// The process.
        pid: Pid,
        /// The page, as seen from here.
        #[serde(with = "crate::sandbox::path")]
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A list in `/proc` is longer than any real program could make it.
    #[error(
        "{pid} has more {what} than any program needs, so it was left alone. Please report what program it is"
    )]
    TooMany {
        /// The process.
        pid: Pid,
        /// The entries of the list.
        #[serde(with = "crate::sandbox::names")]
        what: Name,
    },
    /// The process became another program while it was being read.
    #[error("process {pid} became another program (exec) during the inspection. Try again")]
    Replaced {
        /// The process.
        pid: Pid,
    },
    /// The confined child did not finish within its limits. Created by the child's parent, never by the child
    /// itself.
    #[error("cannot inspect {pid}: {reason}")]
    GaveUp {
        /// The process.
        pid: Pid,
        /// The limit.
        #[serde(skip, default = "GaveUp::unknown")]
        reason: GaveUp,
    },
    /// A mapped file could not be used.
    #[error(transparent)]
    Image(crate::elf::ImageError),
    /// Any other error reported by the kernel.
    #[error("cannot read {what} of {pid}: {source}")]
    Io {
        /// The process.
        pid: Pid,
        /// The thing to be read.
        #[serde(with = "crate::sandbox::names")]
        what: Name,
        /// The kernel's reason.
        #[serde(with = "crate::sandbox::io_error")]
        source: io::Error,
    },
}

impl Error {
    /// A stable identifier for scripts.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Error::Gone { .. } => "gone",
            Error::NotPermitted { .. } => "not-permitted",
            Error::Unreadable { .. } => "unreadable",
            Error::Malformed { .. } => "malformed",
            Error::StatusPage { .. } => "status-page",
            Error::Io { .. } => "io",
            Error::Absent { .. } => "absent",
            Error::Image(_) => "image",
            Error::TooMany { .. } => "too-many",
            Error::Replaced { .. } => "replaced",
            Error::GaveUp { .. } => "gave-up",
        }
    }

    /// Maps an error of the kernel to its meaning for a process.
    #[must_use]
    pub fn from_io(pid: Pid, what: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(nix::libc::ENOENT | nix::libc::ESRCH) => Error::Gone { pid },
            Some(nix::libc::EPERM | nix::libc::EACCES) => Error::NotPermitted { pid, what },
            _ => Error::Io { pid, what, source },
        }
    }

    /// Creates the error for a file in `/proc` that deviates from its documented format, with its text.
    pub(crate) fn malformed(pid: Pid, what: &'static str, text: &[u8]) -> Self {
        Error::Malformed { pid, what, line: String::from_utf8_lossy(text).trim_end().to_owned() }
    }
}
