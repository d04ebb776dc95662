//! A look at the holders of a Ruby's memory.

use crate::allocators::Observer as _;
use crate::closer::{self, Scene, Target};
use crate::inspect::InspectedRuby;
use crate::model::{ClassLabel, HeapDump, HeldClass, Holds, Note, NoteCode, RubyLook};
use crate::ruby::Ruby;
use crate::ruby::chunks::Chunks;
use crate::ruby::held;
use crate::ruby::holding::{self, Wanted};
use crate::ruby::versions;
use std::ops::Range;
use unbloat_process::{Maps, Memory, Pid, Result};

/// Finds the holders of a Ruby's memory: the largest with their paths, the garbage, and the `wanted` objects.
/// With `stop`, the process is stopped meanwhile.
///
/// # Errors
/// As [`crate::inspect::inspect`].
pub fn holds(pid: Pid, wanted: Option<&Wanted>, stop: bool) -> Result<RubyLook<Holds>> {
    let look = closer::look(pid, stop, |scene, notes| known(scene, notes, holding::holds(scene, wanted)?))?;
    Ok(look.flattened())
}

/// Finds, for each class, the object that holds most of its objects. Nothing is stopped.
///
/// # Errors
/// As [`crate::inspect::inspect`].
pub fn held(pid: Pid, classes: &[ClassLabel]) -> Result<RubyLook<Vec<HeldClass>>> {
    let look = closer::look(pid, false, |scene, notes| known(scene, notes, held::held(scene, classes)?))?;
    Ok(look.flattened())
}

/// Reads the whole heap of a Ruby, in the form of `ObjectSpace.dump_all`.
///
/// # Errors
/// As [`crate::inspect::inspect`].
pub fn heap_dump(pid: Pid, stop: bool) -> Result<RubyLook<HeapDump>> {
    let look = closer::look(pid, stop, |scene, notes| known(scene, notes, holding::dump(scene)?))?;
    Ok(look.flattened())
}

fn known<T>(scene: &Scene<'_>, notes: &mut Vec<Note>, found: Option<T>) -> Result<Option<T>> {
    if found.is_none() {
        notes.push(unknown(scene));
    }
    Ok(found)
}

/// Returns the note on a version whose references are unknown.
pub(crate) fn unknown(scene: &Scene<'_>) -> Note {
    let text = format!(
        "Who holds what cannot be told: the references of Ruby {} are not known (those of {} are).",
        scene.version,
        versions::with_references()
    );
    Note::new(NoteCode::RubyReferencesUnknown, text)
}

/// Finds the holders of a Ruby's memory in a test's memory, in which malloc has allocated `blocks`.
///
/// # Errors
/// The memory cannot be looked at.
pub fn holds_of(
    memory: &dyn Memory,
    maps: &Maps,
    ruby: Ruby,
    blocks: &[Range<u64>],
) -> Result<Option<Holds>> {
    let mut chunks = Chunks::default();
    blocks.iter().for_each(|block| chunks.block(block.clone(), 0));
    chunks.sort();
    let inspected = InspectedRuby { maps: maps.clone(), ruby, chunks: Some(chunks) };
    let target = Target { pid: Pid(0), memory };
    let found = closer::within(target, &inspected, &mut Vec::new(), |scene, _| {
        holding::dump(scene)?;
        holding::holds(scene, Some(&Wanted::Class("(unknown class)".to_owned())))
    })?;
    Ok(found.flatten())
}
