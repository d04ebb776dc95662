//! A look at the live objects of a Ruby by class.

use crate::closer::{self, Target};
use crate::inspect::InspectedRuby;
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
    let inspected = InspectedRuby { maps: maps.clone(), ruby, chunks: None };
    let target = Target { pid: Pid(0), memory };
    closer::within(target, &inspected, &mut Vec::new(), |scene, _| by_class::count(scene))
}
