//! Reads live memory of Rubies. Older files have none.

use super::{Reader, unsigned};
use crate::Result;
use rusqlite::Row;
use unbloat_recording::{ClassBytes, ClassHolder, CodeBytes, HeldBy, Label, PathStep, ProcessId, Rubies};

/// Maximum number of steps of a path; a recorder writes fewer.
const MAX_STEPS: usize = 100;

impl Reader {
    /// Reads everything that was recorded of Rubies.
    ///
    /// # Errors
    /// The file cannot be read; this applies to all methods below.
    pub fn rubies(&self) -> Result<Rubies> {
        Ok(Rubies::of(self.class_census()?, self.code_census()?, self.holders()?))
    }

    /// Reads the live objects by class in chronological order.
    pub fn class_census(&self) -> Result<Vec<ClassBytes>> {
        if !self.has("class_census")? {
            return Ok(Vec::new());
        }
        let sql = "SELECT time_ns, process, kind, name, objects, slot_bytes, malloc_bytes FROM class_census \
                   ORDER BY time_ns, rowid";
        self.rows(sql, [], |row| {
            Ok(ClassBytes {
                time_ns: row.get(0)?,
                process: ProcessId(row.get(1)?),
                label: label(row, 2, None)?,
                objects: unsigned(row, 4)?.unwrap_or(0),
                slot_bytes: unsigned(row, 5)?.unwrap_or(0),
                malloc_bytes: unsigned(row, 6)?,
            })
        })
    }

    /// Reads the loaded code by origin in chronological order.
    pub fn code_census(&self) -> Result<Vec<CodeBytes>> {
        if !self.has("code_census")? {
            return Ok(Vec::new());
        }
        let sql = "SELECT time_ns, process, kind, name, version, sequences, slot_bytes, malloc_bytes \
                   FROM code_census ORDER BY time_ns, rowid";
        self.rows(sql, [], |row| {
            Ok(CodeBytes {
                time_ns: row.get(0)?,
                process: ProcessId(row.get(1)?),
                label: label(row, 2, row.get(4)?)?,
                sequences: unsigned(row, 5)?.unwrap_or(0),
                slot_bytes: unsigned(row, 6)?.unwrap_or(0),
                malloc_bytes: unsigned(row, 7)?,
            })
        })
    }

    /// Reads the holders in chronological order.
    pub fn holders(&self) -> Result<Vec<ClassHolder>> {
        if !self.has("holder")? {
            return Ok(Vec::new());
        }
        let sql = "SELECT time_ns, process, kind, name, objects, bytes, holder, held_objects, held_bytes, \
                   retained_bytes, retained_objects, path FROM holder ORDER BY time_ns, rowid";
        self.rows(sql, [], |row| {
            Ok(ClassHolder {
                time_ns: row.get(0)?,
                process: ProcessId(row.get(1)?),
                label: label(row, 2, None)?,
                objects: unsigned(row, 4)?.unwrap_or(0),
                bytes: unsigned(row, 5)?.unwrap_or(0),
                holder: held_by(row)?,
            })
        })
    }
}

fn label(row: &Row<'_>, at: usize, version: Option<String>) -> rusqlite::Result<Label> {
    let (kind, name): (String, String) = (row.get(at)?, row.get(at + 1)?);
    Ok(Label { kind: kind.into(), name: name.into(), version: version.map(Into::into) })
}

fn held_by(row: &Row<'_>) -> rusqlite::Result<Option<HeldBy>> {
    let Some(what) = row.get::<_, Option<String>>(6)? else { return Ok(None) };
    let path: Option<String> = row.get(11)?;
    // A path that is none is left out.
    let path: Vec<PathStep> = path.and_then(|path| serde_json::from_str(&path).ok()).unwrap_or_default();
    Ok(Some(HeldBy {
        what: what.into(),
        objects: unsigned(row, 7)?.unwrap_or(0),
        bytes: unsigned(row, 8)?.unwrap_or(0),
        retained_bytes: unsigned(row, 9)?.unwrap_or(0),
        retained_objects: unsigned(row, 10)?.unwrap_or(0),
        path: path.into_iter().take(MAX_STEPS).collect(),
    }))
}
