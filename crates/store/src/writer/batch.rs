//! One transaction, and the few tables that every command writes to: the file's own row, provenance and
//! marks.
//!
//! `observed` writes the rows of a recorder, `experiment` those of experiments and load drivers.

use crate::{Error, Result};
use rusqlite::{Connection, ToSql, Transaction, TransactionBehavior};
use std::path::Path;
use unbloat_recording::{Owner, RunId};

/// Converts to SQLite's signed integers; values that do not fit are never measured by this tool.
pub(super) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// One transaction's worth of rows.
#[derive(Debug)]
pub struct Batch<'a> {
    path: &'a Path,
    transaction: Transaction<'a>,
}

impl<'a> Batch<'a> {
    /// Writes everything that `write` writes, or nothing of it.
    pub(super) fn write<T>(
        path: &'a Path,
        db: &'a mut Connection,
        write: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let begun = db.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begun.map_err(|e| Error::sqlite(path, "write to", e))?;
        let batch = Batch { path, transaction };
        let result = write(&batch)?;
        batch.transaction.commit().map_err(|e| Error::sqlite(path, "write to", e))?;
        Ok(result)
    }

    /// Inserts a row and returns its number.
    pub(super) fn insert(&self, sql: &str, values: &[&dyn ToSql]) -> Result<i64> {
        let run = || self.transaction.prepare_cached(sql)?.insert(values);
        run().map_err(|e| Error::sqlite(self.path, "write to", e))
    }

    pub(super) fn update(&self, sql: &str, values: &[&dyn ToSql]) -> Result<()> {
        let run = || self.transaction.prepare_cached(sql)?.execute(values);
        run().map(drop).map_err(|e| Error::sqlite(self.path, "write to", e))
    }

    /// Returns the latest time in the file.
    pub(super) fn last_ns(&self) -> Result<i64> {
        let sql = "SELECT max(coalesce((SELECT max(time_ns) FROM sample), 0), \
                   coalesce((SELECT max(coalesce(ended_ns, started_ns)) FROM run), 0), \
                   coalesce((SELECT max(time_ns) FROM mark), 0))";
        self.find(sql, &[])
    }

    /// Records a new owner of the file.
    pub(super) fn owner(&self, started_monotonic_ns: i64, owner: Option<&Owner>) -> Result<()> {
        self.update(
            "UPDATE recording SET started_monotonic_ns = ?, writer_pid = ?, writer_start_ticks = ?, boot_id = ?, \
             ended_ns = NULL, end_reason = NULL",
            &[
                &started_monotonic_ns,
                &owner.map(|o| o.pid),
                &owner.and_then(|o| o.start_ticks).map(integer),
                &owner.and_then(|o| o.boot_id.clone()),
            ],
        )
    }

    /// Records a fact about the origin of the figures, for the whole file if `run` is `None`. Names are those
    /// of [`Key`](unbloat_recording::Key).
    ///
    /// # Errors
    /// The file cannot be written; this applies to all methods of a batch.
    pub fn provenance(&self, run: Option<RunId>, name: &str, value: &str) -> Result<()> {
        self.insert(
            "INSERT INTO provenance (run, name, value) VALUES (?, ?, ?)",
            &[&run.map(|run| run.0), &name, &value],
        )
        .map(drop)
    }

    /// Marks a moment: a deploy, a step of a load.
    pub fn mark(&self, time_ns: i64, name: &str, run: Option<RunId>) -> Result<()> {
        self.insert(
            "INSERT INTO mark (time_ns, name, run) VALUES (?, ?, ?)",
            &[&time_ns, &name, &run.map(|run| run.0)],
        )
        .map(drop)
    }

    /// Returns the single number that a query selects.
    pub(super) fn find(&self, sql: &str, values: &[&dyn ToSql]) -> Result<i64> {
        let find = || self.transaction.prepare_cached(sql)?.query_row(values, |row| row.get(0));
        find().map_err(|e| Error::sqlite(self.path, "read", e))
    }
}
