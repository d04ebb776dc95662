//! Writes live memory of Rubies.

use super::batch::{Batch, integer};
use crate::Result;
use unbloat_recording::{ClassBytes, ClassHolder, CodeBytes};

impl Batch<'_> {
    /// Adds the live objects of a class.
    pub fn class_bytes(&self, row: &ClassBytes) -> Result<()> {
        self.insert(
            "INSERT INTO class_census (time_ns, process, kind, name, objects, slot_bytes, malloc_bytes) \
             VALUES (?, ?, ?, ?, ?, ?, ?)",
            &[
                &row.time_ns,
                &row.process.0,
                &row.label.kind.raw(),
                &row.label.name.raw(),
                &integer(row.objects),
                &integer(row.slot_bytes),
                &row.malloc_bytes.map(integer),
            ],
        )
        .map(drop)
    }

    /// Adds the loaded code of an origin.
    pub fn code_bytes(&self, row: &CodeBytes) -> Result<()> {
        self.insert(
            "INSERT INTO code_census (time_ns, process, kind, name, version, sequences, slot_bytes, malloc_bytes) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            &[
                &row.time_ns,
                &row.process.0,
                &row.label.kind.raw(),
                &row.label.name.raw(),
                &row.label.version.as_ref().map(|version| version.raw()),
                &integer(row.sequences),
                &integer(row.slot_bytes),
                &row.malloc_bytes.map(integer),
            ],
        )
        .map(drop)
    }

    /// Adds the holder of a class.
    pub fn holder(&self, row: &ClassHolder) -> Result<()> {
        let holder = row.holder.as_ref();
        let path = holder.and_then(|holder| serde_json::to_string(&holder.path).ok());
        self.insert(
            "INSERT INTO holder (time_ns, process, kind, name, objects, bytes, holder, held_objects, held_bytes, \
             retained_bytes, retained_objects, path) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &[
                &row.time_ns,
                &row.process.0,
                &row.label.kind.raw(),
                &row.label.name.raw(),
                &integer(row.objects),
                &integer(row.bytes),
                &holder.map(|holder| holder.what.raw()),
                &holder.map(|holder| integer(holder.objects)),
                &holder.map(|holder| integer(holder.bytes)),
                &holder.map(|holder| integer(holder.retained_bytes)),
                &holder.map(|holder| integer(holder.retained_objects)),
                &path,
            ],
        )
        .map(drop)
    }
}
