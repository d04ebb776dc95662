//! Owners of live memory in a few figures, for the verdict of an inspection: garbage, code, strings.

use super::code;
use super::graph::holder::Holders;
use super::graph::{self, Graph};
use super::names::text::STRING;
use super::of_class::memory_of;
use crate::closer::Scene;
use crate::model::{Held, Note, NoteCode, Ownership};
use std::collections::HashMap;
use std::path::Path;
use unbloat_process::Result;

/// Number of objects up to which references are read without being asked for: a large Rails application has 700,000. The
/// aim for these is one second; it is not measured yet.
const SMALL: u32 = 1_000_000;
/// Number of reported origins of code.
const ORIGINS: usize = 5;

/// Finds them. `directory` is the working directory of the process. References are read if the heap is small, or `always`.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(crate) fn of(
    scene: &Scene<'_>,
    directory: Option<&Path>,
    always: bool,
    notes: &mut Vec<Note>,
) -> Result<Ownership> {
    let code = code::count(scene, directory, None)?;
    let origins = code.origins();
    let mut found = Ownership {
        code_bytes: code.total().parts.bytes(),
        code: origins
            .iter()
            .take(ORIGINS)
            .map(|(origin, sum)| ((*origin).clone(), sum.parts.bytes()))
            .collect(),
        ..Ownership::default()
    };
    if always || scene.space().len() <= SMALL {
        match Graph::read(scene)? {
            Some(graph) => {
                held(scene, &graph, &mut found);
                return Ok(found);
            }
            None => notes.push(crate::holds::unknown(scene)),
        }
    } else {
        notes.push(Note::new(
            NoteCode::OwnershipOmitted,
            format!("Garbage and holders are not told: the Ruby heap has more than {SMALL} slots."),
        ));
    }
    let owned = graph::own(scene)?.map(|claims| claims.bytes);
    for (number, slot) in scene.space().objects().filter(|(_, slot)| slot.code() == STRING) {
        let malloc = owned.as_ref().map(|owned| owned.get(number as usize).copied().unwrap_or(0));
        found.strings += memory_of(&slot, malloc);
    }
    Ok(found)
}

/// Adds what the references tell.
fn held(scene: &Scene<'_>, graph: &Graph, found: &mut Ownership) {
    let mut holders = Holders::new(scene, graph);
    let mut by_holder: HashMap<u32, Held> = HashMap::new();
    let mut waiting = Held { malloc_bytes: scene.chunks.map(|_| 0), ..Held::default() };
    for (number, slot) in scene.space().objects() {
        let own = memory_of(&slot, scene.chunks.map(|_| graph.malloc_bytes(number)));
        if !graph.is_reached(number) {
            waiting += own;
        } else if slot.code() == STRING {
            found.strings += own;
            *by_holder.entry(holders.of(number)).or_default() += own;
        }
    }
    found.waiting = Some(waiting);
    found.string_holders = holders.largest(by_holder);
}
