//! A look at the live objects of a Ruby by class.

use crate::closer::{self, Scene, Target};
use crate::inspect::InspectedRuby;
use crate::model::{ByClass, Held, HolderSum, Note, RubyLook};
use crate::ruby::by_class::{self, Counted};
use crate::ruby::graph::holder::Holders;
use crate::ruby::graph::{self, Graph};
use crate::ruby::{Ruby, duplicates, of_class};
use std::collections::HashMap;
use unbloat_process::{Maps, Memory, Pid, Result};

/// Questions beside the table of classes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Questions {
    /// Describe the objects of the class with this name.
    pub class: Option<String>,
    /// Find strings with equal contents.
    pub duplicates: bool,
    /// Find the holders of each class's objects and of duplicates. This reads all references.
    pub holders: bool,
    /// Include the starts of texts of strings, which are the program's data.
    pub contents: bool,
}

/// Counts the live objects of a Ruby by class. With `stop`, the process is stopped meanwhile.
///
/// # Errors
/// As [`crate::inspect::inspect`].
pub fn objects(pid: Pid, stop: bool) -> Result<RubyLook<ByClass>> {
    closer::look(pid, stop, |scene, _| by_class::count(scene))
}

/// Counts the live objects of a Ruby by class, and answers the questions. With `stop`, the process is stopped meanwhile.
///
/// # Errors
/// As [`crate::inspect::inspect`].
pub fn objects_with(pid: Pid, questions: &Questions, stop: bool) -> Result<RubyLook<ByClass>> {
    closer::look(pid, stop, |scene, notes| answer(scene, notes, questions))
}

fn answer(scene: &Scene<'_>, notes: &mut Vec<Note>, questions: &Questions) -> Result<ByClass> {
    let mut counted = by_class::counted(scene)?;
    let graph = if questions.holders { Graph::read(scene)? } else { None };
    if questions.holders && graph.is_none() {
        notes.push(crate::holds::unknown(scene));
    }
    let owned = match &graph {
        None if questions.class.is_some() || questions.duplicates => {
            graph::own(scene)?.map(|claims| claims.bytes).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    let owned = graph.as_ref().map_or(&owned, |graph| &graph.owned);
    let malloc = |number: u32| scene.chunks.map(|_| owned.get(number as usize).copied().unwrap_or(0));
    if let Some(name) = &questions.class {
        let described = of_class::describe(scene, &mut counted, name, malloc, questions.contents);
        counted.by_class.of_class = Some(described);
    }
    let mut holders = graph.as_ref().map(|graph| Holders::new(scene, graph));
    if let Some(holders) = &mut holders {
        let found = holders_by_class(scene, &mut counted, holders, malloc);
        counted.by_class.holders = Some(found);
    }
    if questions.duplicates {
        let found = duplicates::find(scene, malloc, holders.as_mut(), questions.contents)?;
        counted.by_class.duplicates = Some(found);
    }
    Ok(counted.by_class)
}

/// Finds the holders of each class's objects, in the order of the classes.
fn holders_by_class(
    scene: &Scene<'_>,
    counted: &mut Counted<'_>,
    holders: &mut Holders<'_>,
    malloc: impl Fn(u32) -> Option<u64>,
) -> Vec<Vec<HolderSum>> {
    let mut sums: Vec<HashMap<u32, Held>> = vec![HashMap::new(); counted.by_class.classes.len()];
    for (number, slot) in scene.space().objects() {
        if let Some(sums) = counted.row(&slot).and_then(|row| sums.get_mut(row)) {
            *sums.entry(holders.of(number)).or_default() += of_class::memory_of(&slot, malloc(number));
        }
    }
    sums.into_iter().map(|sums| holders.largest(sums)).collect()
}

/// Counts the live objects of a Ruby in a test's memory, in which malloc's chunks are unknown, and answers every
/// question.
///
/// # Errors
/// The memory cannot be looked at.
pub fn objects_of(memory: &dyn Memory, maps: &Maps, ruby: Ruby) -> Result<Option<ByClass>> {
    let class = Some("String".to_owned());
    let questions = Questions { class, duplicates: true, holders: true, contents: true };
    let inspected = InspectedRuby { maps: maps.clone(), ruby, chunks: None };
    let target = Target { pid: Pid(0), memory };
    closer::within(target, &inspected, &mut Vec::new(), |scene, notes| answer(scene, notes, &questions))
}
