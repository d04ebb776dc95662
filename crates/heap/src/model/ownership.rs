//! The owners of the live memory of a Ruby, in a few figures.

use super::{Held, HolderSum, Origin};
use serde::{Deserialize, Serialize};

/// The owners of the live memory of one Ruby.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ownership {
    /// Objects that no root reaches: garbage until a collection. `None` if references were not read.
    pub waiting: Option<Held>,
    /// Bytes of slots and malloc memory of loaded code.
    pub code_bytes: u64,
    /// The largest origins of that code with their bytes.
    pub code: Vec<(Origin, u64)>,
    /// Strings: those that a root reaches if references were read, otherwise all.
    pub strings: Held,
    /// The holders of these strings, the one with most bytes first; empty if references were not read.
    pub string_holders: Vec<HolderSum>,
}
