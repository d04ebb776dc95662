//! Makes the database of a recording, and opens it to write.
//!
//! Durability: the database is in WAL mode and each batch is one transaction, so a writer that is killed loses what it
//! had not yet put into a batch and nothing else. `synchronous = NORMAL` does not wait for the disk on each batch:
//! after a power failure the last batches may be missing, the file is whole.

use super::batch::integer;
use crate::reader::harden;
use crate::{APPLICATION_ID, Error, Reader, Result, SCHEMA_VERSION};
use rusqlite::{Connection, OpenFlags};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;
use unbloat_recording::Header;

/// Pages of WAL after which it is copied into the database: small, so that a reader of a killed recording has
/// little to replay, and that a full disk leaves little behind outside of the database.
const CHECKPOINT_PAGES: u32 = 256;

/// Longest wait for another writer's transaction.
const BUSY: Duration = Duration::from_secs(10);

/// Commands and paths are nobody else's to read, and a reader can hold locks. SQLite gives the files beside it the same
/// mode.
const PRIVATE: u32 = 0o600;

/// Makes a file that is not there yet, with the one row of `recording` in it.
///
/// # Errors
/// The file exists (and then: whether it is being written, or is no recording), or cannot be made.
pub(super) fn make(path: &Path, header: &Header) -> Result<Connection> {
    // Making it exclusively lets exactly one of two recorders that start together have it.
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(path) {
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(existing(path)),
        Err(source) => return Err(Error::Io { path: path.to_owned(), doing: "make", source }),
    }
    let mut db = open(path)?;
    lay_out(&mut db, header).map_err(|e| {
        // Half a file is of no use to anyone.
        let _ = std::fs::remove_file(path);
        Error::sqlite(path, "make", e)
    })?;
    Ok(db)
}

/// The error for a file that is in the way.
fn existing(path: &Path) -> Error {
    let exists = Error::Exists { path: path.to_owned() };
    match Reader::open(path) {
        Ok(reader) => match reader.live_owner() {
            Some(owner) => Error::InUse { path: path.to_owned(), pid: owner.pid },
            None => exists,
        },
        Err(_) => exists,
    }
}

/// Opens a file that is there.
pub(super) fn open(path: &Path) -> Result<Connection> {
    let open = || -> rusqlite::Result<Connection> {
        let db = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        db.busy_timeout(BUSY)?;
        harden(&db)?;
        db.execute_batch(&format!(
            "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}; \
             PRAGMA journal_size_limit = 4194304; PRAGMA cache_size = -2048; PRAGMA temp_store = MEMORY;"
        ))?;
        db.set_prepared_statement_cache_capacity(32);
        Ok(db)
    };
    open().map_err(|e| Error::sqlite(path, "open", e))
}

fn lay_out(db: &mut Connection, header: &Header) -> rusqlite::Result<()> {
    db.execute_batch(&format!("PRAGMA journal_mode = WAL; PRAGMA application_id = {APPLICATION_ID};"))?;
    let owner = header.owner.as_ref();
    let transaction = db.transaction()?;
    transaction.execute_batch(include_str!("../schema.sql"))?;
    transaction.execute(
        "INSERT INTO recording (id, kind, tool_version, started_wall_ns, started_monotonic_ns, boot_id, \
         writer_pid, writer_start_ticks) VALUES (1, ?, ?, ?, ?, ?, ?, ?)",
        (
            header.kind.name(),
            &header.tool_version,
            header.started_wall_ns,
            header.started_monotonic_ns,
            owner.and_then(|o| o.boot_id.as_ref()),
            owner.map(|o| o.pid),
            owner.and_then(|o| o.start_ticks).map(integer),
        ),
    )?;
    // Last, so that a file without a version is one whose making was cut short.
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()
}
