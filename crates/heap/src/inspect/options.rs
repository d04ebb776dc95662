//! Options of an inspection.

use serde::{Deserialize, Serialize};
use unbloat_process::Stopping;

/// Options of an inspection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Stop the target while its Ruby heap is read, and again while each malloc heap is read, so that each is
    /// consistent in itself.
    pub stop: bool,
    /// Fill in the heap map.
    pub map: bool,
    /// Fill in the proportional census.
    pub proportional: bool,
    /// Fill in the owners of a Ruby's live memory.
    pub whose: Whose,
}

/// The search for the owners of a Ruby's live memory: garbage, code by gem, strings by holder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whose {
    /// Do not search.
    #[default]
    No,
    /// Search where that is cheap: in the largest of several processes, if this machine has the memory for it; for garbage and
    /// holders up to a million slots.
    IfCheap,
    /// Search in every process.
    Yes,
}

impl Options {
    pub(crate) fn stopping(&self) -> Stopping {
        if self.stop { Stopping::Allowed } else { Stopping::Never }
    }
}
