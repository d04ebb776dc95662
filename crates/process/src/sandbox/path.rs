//! Paths across the process boundary: arbitrary bytes chosen by the target.
//!
//! Use with `#[serde(with = "unbloat_process::sandbox::path")]`.

use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Serializes the bytes of a path.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_os_str().as_bytes().serialize(serializer)
}

/// Deserializes the bytes of a path.
///
/// # Errors
/// The deserializer's.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(OsString::from_vec(Vec::deserialize(deserializer)?).into())
}
