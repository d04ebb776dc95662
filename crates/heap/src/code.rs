//! A look at the loaded code of a Ruby, by file.

use crate::closer::{self, Target};
use crate::inspect::InspectedRuby;
use crate::model::{Code, RubyLook};
use crate::ruby::{Ruby, code};
use crate::sharing::SharedPages;
use unbloat_process::{Maps, Memory, Pid, Result, status};

/// Counts the memory of a Ruby's loaded code. If `parent`, which forked this process, is given, also the part
/// still shared with it. With `stop`, the process is stopped meanwhile.
///
/// # Errors
/// As [`crate::inspect::inspect`].
pub fn code(pid: Pid, parent: Option<Pid>, stop: bool) -> Result<RubyLook<Code>> {
    closer::look(pid, stop, |scene, _| {
        // If the two cannot be compared (one has just ended), sharing is omitted.
        let shared = parent.and_then(|parent| SharedPages::with_parent(parent, pid).ok());
        let directory = status::directory(pid).ok();
        code::count(scene, directory.as_deref(), shared.as_ref())
    })
}

/// Counts the loaded code of a Ruby in a test's memory, in which malloc's chunks are unknown.
///
/// # Errors
/// The memory cannot be looked at.
pub fn code_of(memory: &dyn Memory, maps: &Maps, ruby: Ruby) -> Result<Option<Code>> {
    let inspected = InspectedRuby { maps: maps.clone(), ruby, chunks: None };
    let target = Target { pid: Pid(0), memory };
    closer::within(target, &inspected, &mut Vec::new(), |scene, _| code::count(scene, None, None))
}
