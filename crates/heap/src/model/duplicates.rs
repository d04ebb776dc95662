//! Strings with equal contents, and the holders of objects.

use super::{Encoding, Held};
use serde::{Deserialize, Serialize};
use unbloat_untrusted::Untrusted;

/// Objects by the nearest holder with a name on a shortest path from a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderSum {
    /// `Product @name`, `I18n ::TABLE`, `code`.
    pub what: Untrusted,
    /// The objects that it holds, directly or through arrays and hashes.
    pub held: Held,
}

/// Several strings with the same contents and encoding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DuplicateText {
    /// Its length in bytes.
    pub length: u64,
    /// Its encoding.
    pub encoding: Encoding,
    /// All of its strings but the one with most memory: what would be freed if there were one only.
    pub copies: Held,
    /// The start of the text; `None` unless it was asked for.
    pub contents: Option<Untrusted>,
    /// The holders of these strings, the one with most bytes first; empty if they were not asked for.
    pub holders: Vec<HolderSum>,
}

/// Strings with equal contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicates {
    /// The strings that were compared.
    pub compared: Held,
    /// Number of strings whose contents could not be read.
    pub unread: u64,
    /// One of this many contents was compared, to bound memory, and the sums are scaled accordingly.
    pub one_in: u64,
    /// Number of contents that several strings have.
    pub contents: u64,
    /// All strings but one of each of these contents.
    pub copies: Held,
    /// The contents whose copies take most bytes.
    pub largest: Vec<DuplicateText>,
    /// The holders of the copies, the one with most bytes first; `None` if they were not asked for or are unknown.
    pub holders: Option<Vec<HolderSum>>,
}
