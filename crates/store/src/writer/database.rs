//! Creates the database of a recording, and opens it for writing.
//!
//! Durability: the database is in WAL mode and each batch is one transaction, so a killed writer loses only
//! what it had not yet put into a batch. `synchronous = NORMAL` does not wait for the disk on each batch:
//! after a power failure the last batches may be missing, but the file is intact.

use super::batch::integer;
use crate::reader::harden;
use crate::{APPLICATION_ID, Error, Reader, Result, SCHEMA_VERSION};
use rusqlite::{Connection, OpenFlags};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;
use unbloat_recording::Header;

/// Pages of WAL after which it is copied into the database: few, so that a reader of a killed recording has
/// little to replay, and a full disk leaves little outside the database.
const CHECKPOINT_PAGES: u32 = 256;

/// Maximum wait for another writer's transaction.
const BUSY: Duration = Duration::from_secs(10);

/// File mode: commands and paths are private, and a reader can hold locks. SQLite gives its companion files
/// the same mode.
const PRIVATE: u32 = 0o600;

/// Creates a new file with the single row of `recording` in it.
///
/// # Errors
/// The file exists (the error then says whether it is being written, or is not a recording), or cannot be
/// created.
pub(super) fn make(path: &Path, header: &Header) -> Result<Connection> {
    // Exclusive creation lets exactly one of two recorders that start together have it.
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(path) {
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(existing(path)),
        Err(source) => return Err(Error::Io { path: path.to_owned(), doing: "make", source }),
    }
    let mut db = open(path)?;
    lay_out(&mut db, header).map_err(|e| {
        // A partial file is useless.
        let _ = std::fs::remove_file(path);
        Error::sqlite(path, "make", e)
    })?;
    Ok(db)
}

/// Returns the error for an existing file.
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

/// Opens an existing file.
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
    // Last, so that a file without a version is one whose creation was cut short.
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()
}
