//! Errors of recording files. Each message names the file, the cause and the next step.

use std::path::{Path, PathBuf};

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a recording could not be created, written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file to be created already exists.
    #[error("{path} exists. Give another name with -o, or remove it first", path = path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// There is no such file.
    #[error("{path} does not exist. `unbloat record -o {path} -- COMMAND` creates one", path = path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// Another recorder writes to it.
    #[error(
        "{path} is being written by process {pid}. End that first (kill -INT {pid}), or give another name with -o",
        path = path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
        /// The process that writes to it.
        pid: i32,
    },
    /// No process is writing to it any more, so its clock has stopped.
    #[error("{path} is not being recorded any more. A mark needs a running recording", path = path.display())]
    Ended {
        /// The file.
        path: PathBuf,
    },
    /// Not a recording at all.
    #[error("{path} is not a recording: {reason}", path = path.display())]
    NotARecording {
        /// The file.
        path: PathBuf,
        /// The contents found instead.
        reason: String,
    },
    /// Written by a newer Unbloat.
    #[error(
        "{path} has version {found} of the recording format and this unbloat knows up to {known}. \
         Use a newer unbloat to read it",
        path = path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i32,
        /// The newest version known here.
        known: i32,
    },
    /// The disk is full, or the file has reached the size limit of the system.
    #[error(
        "no space left for {path}. The recording is complete up to about a second ago; free space or record to another disk",
        path = path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Reading requires, or yields, more than a recording of its size can.
    #[error(
        "{path} is damaged or was not made by unbloat: reading it takes more work than a recording of its size can need",
        path = path.display()
    )]
    TooCostly {
        /// The file.
        path: PathBuf,
    },
    /// Another process holds a lock on it.
    #[error("{path} is locked by another process. End the process that reads or writes it (fuser {path}), \
        or try again later", path = path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// Any other error of SQLite.
    #[error("cannot {doing} {path}: {source}", path = path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The attempted operation: `write to`, `read`, …
        doing: &'static str,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
    /// The file system's reason.
    #[error("cannot {doing} {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The attempted operation.
        doing: &'static str,
        /// The reason.
        source: std::io::Error,
    },
}

impl Error {
    /// Maps an SQLite error to its meaning for a file.
    pub(crate) fn sqlite(path: &Path, doing: &'static str, source: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            DatabaseBusy, DatabaseLocked, DiskFull, FileLockingProtocolFailed, NotADatabase,
            OperationInterrupted, SystemIoFailure,
        };
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(DiskFull) => Error::Full { path },
            // A write beyond RLIMIT_FSIZE or a quota comes back as an I/O error of the write.
            Some(SystemIoFailure)
                if source.sqlite_error().is_some_and(|e| e.extended_code == IOERR_WRITE) =>
            {
                Error::Full { path }
            }
            Some(OperationInterrupted) => Error::TooCostly { path },
            Some(DatabaseBusy | DatabaseLocked | FileLockingProtocolFailed) => Error::Locked { path },
            Some(NotADatabase) => {
                Error::NotARecording { path, reason: "it is not an SQLite database".into() }
            }
            _ => Error::Sqlite { path, doing, source },
        }
    }
}

/// `SQLITE_IOERR_WRITE` of `sqlite3.h`.
const IOERR_WRITE: i32 = 10 | (3 << 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_size_limit_is_said_plainly() {
        let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(13), None);
        let text = Error::sqlite(Path::new("x.unbloat"), "write to", error).to_string();
        assert!(text.starts_with("no space left for x.unbloat"), "{text}");
    }
}
