//! The tables that were added after the first release of the schema: a file may lack them.

use rusqlite::{Connection, OptionalExtension as _};

/// Their names.
pub(crate) const LATER: [&str; 4] = ["folded", "class_census", "code_census", "holder"];

/// Returns whether the file has a table.
pub(crate) fn has_table(db: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?";
    Ok(db.query_row(sql, [name], |_| Ok(())).optional()?.is_some())
}
