//! Static strings across the process boundary.
//!
//! Codes and names in a result are `&'static str`. The child sends their bytes; the parent keeps each once
//! and for good. A compromised child could send many, so their number and length are bounded.
//!
//! Use as `#[serde(with = "unbloat_process::sandbox::names")] code: Name`.

use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A static string. (Serde's derive would try to borrow a field spelled as a reference.)
pub type Name = &'static str;

/// Maximum number of names kept, and maximum size of each.
const MAX_NAMES: usize = 1024;
const MAX_BYTES: usize = 128;

static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Serializes a name.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(name: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name)
}

/// Deserializes a name.
///
/// # Errors
/// The deserializer's; also a name that is too long, or one too many.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    let name = String::deserialize(deserializer)?;
    keep(name).ok_or_else(|| D::Error::custom("not a name"))
}

fn keep(name: String) -> Option<&'static str> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&known) = names.get(name.as_str()) {
        return Some(known);
    }
    (names.len() < MAX_NAMES && name.len() <= MAX_BYTES).then(|| {
        let kept: &'static str = name.leak();
        names.insert(kept);
        kept
    })
}

/// Names with numbers: `#[serde(with = "unbloat_process::sandbox::names::counted")]` on a `Vec<(Name, u64)>`.
pub mod counted {
    use super::{Deserializer, Name, Serializer, keep};
    use serde::{Deserialize as _, Serialize as _, de::Error as _};

    /// Serializes them.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(counts: &[(Name, u64)], serializer: S) -> Result<S::Ok, S::Error> {
        counts.serialize(serializer)
    }

    /// Deserializes them.
    ///
    /// # Errors
    /// As [`super::deserialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Name, u64)>, D::Error> {
        let counts = Vec::<(String, u64)>::deserialize(deserializer)?;
        let kept = counts.into_iter().map(|(name, count)| Some((keep(name)?, count)));
        kept.collect::<Option<_>>().ok_or_else(|| D::Error::custom("not a name"))
    }
}
