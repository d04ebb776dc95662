//! The live memory of one Ruby in few rows, to be kept many times.

use super::{ClassRow, Held, Origin};
use serde::{Deserialize, Serialize};

/// Objects and code of one Ruby.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Makeup {
    /// The largest classes, largest first.
    pub classes: Vec<ClassRow>,
    /// All other objects.
    pub other_classes: Held,
    /// The largest origins of code, largest first.
    pub origins: Vec<OriginRow>,
    /// All other code.
    pub other_origins: OriginRow,
}

/// The code of one origin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginRow {
    /// The origin.
    pub origin: Origin,
    /// Instruction sequences.
    pub sequences: u64,
    /// All its objects and their memory.
    pub held: Held,
}
