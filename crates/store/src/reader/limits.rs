//! Ends a query that yields or does more than an honest file of that size can require.
//!
//! A file of 100 KB can describe endless work: pages of a tree that all lead to the same page, texts that
//! share their overflow pages. The data in a recording is never larger than its file.

use super::open::beside;
use crate::Error;
use rusqlite::limits::Limit;
use rusqlite::{Connection, Row};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Steps of SQLite's virtual machine between two checks of the limits.
const STEPS: i32 = 10_000;

/// Steps allowed for any file; each of its bytes adds more. A sample of some 60 bytes takes about 100 steps
/// to read and sort.
const LEAST_STEPS: i64 = 50_000_000;
const STEPS_A_BYTE: i64 = 20;

/// Size of the smallest row in the file: its header, its cell pointer and its row ID.
const LEAST_ROW_BYTES: u64 = 4;

/// Maximum size of a text or blob, and maximum length of a statement.
const LARGEST_VALUE: i32 = 64 << 20;

/// The work still allowed for one file.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    file_bytes: u64,
    steps_left: Arc<AtomicI64>,
}

impl Limits {
    /// Derives the limits from the size of the file and of its log.
    pub(super) fn of(path: &Path) -> Self {
        let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        let file_bytes = bytes(path).saturating_add(bytes(&beside(path, "-wal")));
        let by_size = i64::try_from(file_bytes).unwrap_or(i64::MAX).saturating_mul(STEPS_A_BYTE);
        let steps_left = Arc::new(AtomicI64::new(LEAST_STEPS.saturating_add(by_size)));
        Limits { file_bytes, steps_left }
    }

    pub(super) fn apply(&self, db: &mut Connection) -> rusqlite::Result<()> {
        db.set_limit(Limit::SQLITE_LIMIT_LENGTH, LARGEST_VALUE)?;
        db.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        let left = Arc::clone(&self.steps_left);
        let spend = move || left.fetch_sub(i64::from(STEPS), Ordering::Relaxed) < 0;
        db.progress_handler(STEPS, Some(spend))
    }

    /// Starts metering a query.
    pub(super) fn meter(&self) -> Meter {
        // A recorder may be writing meanwhile.
        Meter { rows: self.file_bytes / LEAST_ROW_BYTES + 100_000, bytes: self.file_bytes * 2 + (16 << 20) }
    }
}

/// The rows and bytes that one query may still yield.
#[derive(Debug)]
pub(super) struct Meter {
    rows: u64,
    bytes: u64,
}

impl Meter {
    /// Counts a row; `None` if there are more, or larger ones, than the file can hold.
    pub(super) fn count(&mut self, row: &Row<'_>) -> Option<()> {
        self.rows = self.rows.checked_sub(1)?;
        let columns = 0..row.as_ref().column_count();
        let texts = columns.filter_map(|column| row.get_ref(column).ok()?.as_bytes_or_null().ok()?);
        let bytes: u64 = texts.map(|bytes| bytes.len() as u64).sum();
        self.bytes = self.bytes.checked_sub(bytes)?;
        Some(())
    }
}

/// The error for a file that yields more than it can hold.
pub(super) fn exceeded(path: &Path) -> Error {
    Error::TooCostly { path: path.to_owned() }
}
