//! Kernel errors across the process boundary.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::io;

#[derive(Serialize, Deserialize)]
enum Reason {
    Errno(i32),
    Text(String),
}

/// Serializes an error as its number, or as text if it has none.
///
/// # Errors
/// The serializer's.
pub(crate) fn serialize<S: Serializer>(error: &io::Error, serializer: S) -> Result<S::Ok, S::Error> {
    match error.raw_os_error() {
        Some(errno) => Reason::Errno(errno).serialize(serializer),
        None => Reason::Text(error.to_string()).serialize(serializer),
    }
}

/// Deserializes an error.
///
/// # Errors
/// The deserializer's.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<io::Error, D::Error> {
    Ok(match de::Deserialize::deserialize(deserializer)? {
        Reason::Errno(errno) => io::Error::from_raw_os_error(errno),
        Reason::Text(text) => io::Error::other(text),
    })
}
