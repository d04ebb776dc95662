//! The kernel's reasons across the boundary of a look.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::io;

#[derive(Serialize, Deserialize)]
enum Reason {
    Errno(i32),
    Text(String),
}

/// Writes a reason: its number, or its text if it has none.
///
/// # Errors
/// The serializer's.
pub(crate) fn serialize<S: Serializer>(error: &io::Error, serializer: S) -> Result<S::Ok, S::Error> {
    match error.raw_os_error() {
        Some(errno) => Reason::Errno(errno).serialize(serializer),
        None => Reason::Text(error.to_string()).serialize(serializer),
    }
}

/// Reads a reason.
///
/// # Errors
/// The deserializer's.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<io::Error, D::Error> {
    Ok(match de::Deserialize::deserialize(deserializer)? {
        Reason::Errno(errno) => io::Error::from_raw_os_error(errno),
        Reason::Text(text) => io::Error::other(text),
    })
}
