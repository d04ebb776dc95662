//! Opens a recording for reading, whoever wrote it: read-only, and without trusting its contents.
//!
//! A file may come from anywhere. SQLite's own advice for such files ("Defense Against The Dark Arts",
//! sqlite.org/security.html) is followed: the schema is not trusted, triggers and views are off, the tables
//! being read must be real tables, and [`Limits`] end a query that does more work than an honest file of that
//! size can require.

use super::limits::Limits;
use crate::later::{LATER, has_table};
use crate::{APPLICATION_ID, Error, Result, SCHEMA_VERSION};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// Maximum wait of a reader for a writer's lock.
const BUSY: Duration = Duration::from_secs(10);

/// The tables that every recording has. For those that were added later see [`LATER`].
const TABLES: [&str; 17] = [
    "recording",
    "provenance",
    "process",
    "sample",
    "census",
    "counter",
    "mark",
    "cgroup",
    "clock",
    "cost",
    "thinning",
    "variant",
    "block",
    "run",
    "step",
    "latency",
    "metric",
];

/// Opens a recording for reading.
///
/// # Errors
/// There is no such file, it is not a recording, or it has a newer version.
pub(super) fn open(path: &Path) -> Result<(Connection, Limits)> {
    check_kind(path)?;
    let limits = Limits::of(path);
    let mut last = None;
    for attempt in attempts(path) {
        match connect(path, attempt, &limits) {
            Ok(db) => {
                check(path, &db)?;
                return Ok((db, limits));
            }
            Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
                return Err(Error::sqlite(path, "read", e));
            }
            Err(e) => last = Some(e),
        }
    }
    Err(Error::sqlite(path, "read", last.unwrap_or(rusqlite::Error::InvalidQuery)))
}

/// Refuses anything except a regular file: opening a FIFO would block, and a device may never end.
pub(crate) fn check_kind(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(file) if file.is_file() => Ok(()),
        Ok(_) => {
            Err(Error::NotARecording { path: path.to_owned(), reason: "it is not a regular file".into() })
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(Error::Missing { path: path.to_owned() }),
        Err(source) => Err(Error::Io { path: path.to_owned(), doing: "read", source }),
    }
}

/// A way to open the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// No process writes to it, and everything is in the database itself: no lock is taken and no companion
    /// file is created.
    Immutable,
    /// With its write-ahead log, from a recorder that is running or was killed.
    WithLog,
    /// The same if the log's index cannot be written (a read-only or full disk): an exclusive reader keeps
    /// that index in memory (sqlite.org/wal.html, "Use of WAL Without Shared-Memory").
    WithLogExclusively,
}

/// Returns the ways in the order to try them.
fn attempts(path: &Path) -> Vec<Attempt> {
    let log = std::fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len());
    let rollback = beside(path, "-journal").exists();
    if log == 0 && !rollback {
        vec![Attempt::Immutable]
    } else {
        vec![Attempt::WithLog, Attempt::WithLogExclusively]
    }
}

/// Returns the path of SQLite's companion file to a database.
pub(crate) fn beside(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn connect(path: &Path, attempt: Attempt, limits: &Limits) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = match attempt {
        Attempt::Immutable => Connection::open_with_flags(
            format!("{}?immutable=1", uri(path)),
            flags | OpenFlags::SQLITE_OPEN_URI,
        )?,
        Attempt::WithLog | Attempt::WithLogExclusively => Connection::open_with_flags(path, flags)?,
    };
    db.busy_timeout(BUSY)?;
    harden(&db)?;
    limits.apply(&mut db)?;
    if attempt == Attempt::WithLogExclusively {
        db.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
    }
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
    Ok(db)
}

/// Converts the path to a URI: everything except unreserved characters and slashes is escaped.
fn uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = "file:".to_owned();
    for &byte in absolute.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Disables everything that a file's schema could do.
pub(crate) fn harden(db: &Connection) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    db.execute_batch("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0")
}

/// Refuses a database that is not a recording readable by this build.
pub(crate) fn check(path: &Path, db: &Connection) -> Result<()> {
    let pragma = |name| {
        db.pragma_query_value(None, name, |row| row.get::<_, i32>(0))
            .map_err(|e| Error::sqlite(path, "read", e))
    };
    if pragma("application_id")? != APPLICATION_ID {
        return Err(not_ours(path, "it is an SQLite database of another program"));
    }
    match pragma("user_version")? {
        0 => Err(not_ours(path, "its creation was cut short")),
        found if found > SCHEMA_VERSION => {
            Err(Error::Newer { path: path.to_owned(), found, known: SCHEMA_VERSION })
        }
        _ => check_tables(path, db),
    }
}

fn not_ours(path: &Path, reason: &str) -> Error {
    Error::NotARecording { path: path.to_owned(), reason: reason.to_owned() }
}

/// Checks that every table being read is a real table: no view, no virtual table, no computed column.
fn check_tables(path: &Path, db: &Connection) -> Result<()> {
    let is_plain = |table: &str| -> rusqlite::Result<bool> {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND upper(sql) LIKE 'CREATE TABLE%'";
        let computed = "SELECT count(*) FROM pragma_table_xinfo(?1) WHERE hidden <> 0";
        let count = |sql: &str| db.query_row(sql, [table], |row| row.get::<_, i64>(0));
        Ok(count(sql)? == 1 && count(computed)? == 0)
    };
    let mut all = TABLES.to_vec();
    for table in LATER {
        if has_table(db, table).map_err(|e| Error::sqlite(path, "read", e))? {
            all.push(table);
        }
    }
    for table in all {
        if !is_plain(table).map_err(|e| Error::sqlite(path, "read", e))? {
            return Err(not_ours(path, &format!("its table {table} is missing or is not a plain table")));
        }
    }
    Ok(())
}
