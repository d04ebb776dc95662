//! Creates a file, writes batches, ends it.
//!
//! | module | concept |
//! |---|---|
//! | `database` | creates and opens the file; durability |
//! | `batch` | one transaction, and the common rows: provenance, marks |
//! | `observed` | a recorder's observations |
//! | `rubies` | live memory of Rubies |
//! | `experiment` | results of experiments and load drivers |

mod batch;
mod database;
mod experiment;
mod observed;
mod rubies;
#[cfg(test)]
mod tests;

use crate::clock::monotonic_ns;
use crate::owner::is_alive;
use crate::{Error, Result, begin, reader, thin};
pub use batch::Batch;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::time::Duration;
use unbloat_recording::{Header, ProcessId};

/// An open recording for writing.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    db: Connection,
    header: Header,
    pub(crate) thinner: thin::Thinner,
}

impl Writer {
    /// Creates a new file; for `header` see [`begin`].
    ///
    /// # Errors
    /// The file exists (the error then says whether it is being written, or is not a recording), or cannot be
    /// created.
    pub fn create(path: &Path, header: &Header) -> Result<Self> {
        let db = database::make(path, header)?;
        Ok(Self::of(path, db, header.clone()))
    }

    /// Opens a recording to add to it, even while others are writing to it.
    ///
    /// # Errors
    /// It is not a recording, or has a newer version.
    pub fn join(path: &Path) -> Result<Self> {
        reader::check_kind(path)?;
        let db = database::open(path)?;
        reader::check(path, &db)?;
        let header = reader::header(path, &db)?;
        Ok(Self::of(path, db, header))
    }

    fn of(path: &Path, db: Connection, header: Header) -> Self {
        Writer { path: path.to_owned(), db, header, thinner: thin::Thinner::default() }
    }

    /// Opens a recording that was cut short in order to continue it, and becomes its owner. Its clock resumes
    /// where it stopped; the table `clock` records when that was.
    ///
    /// # Errors
    /// It is not a recording, has a newer version, or is being written.
    pub fn resume(path: &Path) -> Result<Self> {
        let mut writer = Self::join(path)?;
        let running = writer.header.ended_ns.is_none();
        if let Some(owner) = writer.header.owner.as_ref().filter(|owner| running && is_alive(owner)) {
            return Err(Error::InUse { path: path.to_owned(), pid: owner.pid });
        }
        let now = begin(writer.header.kind);
        let last_ns = writer.batch(|batch| batch.last_ns())?;
        writer.header.started_monotonic_ns = now.started_monotonic_ns - last_ns;
        writer.header.owner.clone_from(&now.owner);
        let started = writer.header.started_monotonic_ns;
        writer.batch(|batch| {
            batch.clock(last_ns, now.started_wall_ns)?;
            batch.owner(started, now.owner.as_ref())
        })?;
        Ok(writer)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the header of the file.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns nanoseconds since the recording began.
    #[must_use]
    pub fn elapsed_ns(&self) -> i64 {
        monotonic_ns() - self.header.started_monotonic_ns
    }

    /// Returns the first ID that no process of the file has.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next_process(&self) -> Result<ProcessId> {
        let sql = "SELECT coalesce(max(id), 0) + 1 FROM process";
        self.db
            .query_row(sql, [], |row| row.get(0).map(ProcessId))
            .map_err(|e| Error::sqlite(&self.path, "read", e))
    }

    /// Returns nanoseconds since the recording began, for a mark from outside the recorder.
    ///
    /// # Errors
    /// No process records to the file any more, so its clock has stopped.
    pub fn now_ns(&self) -> Result<i64> {
        let alive = self.header.owner.as_ref().is_some_and(is_alive);
        if self.header.ended_ns.is_some() || !alive {
            return Err(Error::Ended { path: self.path.clone() });
        }
        Ok(self.elapsed_ns())
    }

    /// Sets the maximum wait for another process's lock, ten seconds by default, after which
    /// [`Error::Locked`] is returned.
    ///
    /// # Errors
    /// SQLite refuses.
    pub fn wait_for_locks(&self, patience: Duration) -> Result<()> {
        self.db.busy_timeout(patience).map_err(|e| Error::sqlite(&self.path, "write to", e))
    }

    /// Writes everything that `write` writes, or nothing of it.
    ///
    /// # Errors
    /// The disk is full, or the file has become unusable; the file keeps the earlier batches.
    pub fn batch<T>(&mut self, write: impl FnOnce(&Batch<'_>) -> Result<T>) -> Result<T> {
        Batch::write(&self.path, &mut self.db, write)
    }

    /// Keeps the file below `limit_bytes` by thinning old samples in small steps. Call it after each batch.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn keep_below(&mut self, limit_bytes: u64) -> Result<()> {
        self.thinner.step(&mut self.db, limit_bytes).map_err(|e| Error::sqlite(&self.path, "write to", e))
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn finish(self, time_ns: i64, reason: &str, exit_status: Option<i64>) -> Result<()> {
        let Writer { path, db, .. } = self;
        let end = || -> rusqlite::Result<()> {
            db.execute(
                "UPDATE recording SET ended_ns = ?, end_reason = ?, exit_status = ?",
                (time_ns, reason, exit_status),
            )?;
            db.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE)")
        };
        end().map_err(|e| Error::sqlite(&path, "write to", e))
    }
}
