//! A look at the live objects of a Ruby by class.

use crate::closer::{self, Whose};
use crate::inspect::Ground;
use crate::model::{ByClass, RubyLook};
use crate::ruby::{Ruby, by_class};
use unbloat_process::{Maps, Memory, Pid, Result};

/// Counts the live objects of a Ruby by class. With `stop`, the process is stopped meanwhile.
///
/// # Errors
/// As [`crate::inspect::inspect`].
pub fn objects(pid: Pid, stop: bool) -> Result<RubyLook<ByClass>> {
    closer::look(pid, stop, |scene, _| by_class::count(scene))
}

/// Counts the live objects of a Ruby in a test's memory, in which malloc's chunks are unknown.
///
/// # Errors
/// The memory cannot be looked at.
pub fn objects_of(memory: &dyn Memory, maps: &Maps, ruby: Ruby) -> Result<Option<ByClass>> {
    let ground = Ground { maps: maps.clone(), ruby, chunks: None };
    let whose = Whose { pid: Pid(0), memory };
    closer::at_ground(whose, &ground, &mut Vec::new(), |scene, _| by_class::count(scene))
}
