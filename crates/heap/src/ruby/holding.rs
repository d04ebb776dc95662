//! Holders: retained sizes, the largest holders with their paths, garbage, and the heap dump.

use super::by_class;
use super::graph::Graph;
use super::graph::dominators::Dominators;
use super::graph::words::Words;
use crate::closer::Scene;
use crate::model::{DumpedObject, HeapDump, Held, Holder, Holds, Step};
use unbloat_process::Result;
use unbloat_untrusted::Untrusted;

/// Maximum number of reported holders.
const HOLDERS: usize = 40;
/// A holder is omitted if one below it retains more than this share of its bytes.
const SAME_PERCENT: u64 = 90;
/// Maximum steps of a reported path, half of them at each end.
const MAX_STEPS: usize = 24;
/// Maximum number of reported objects per question.
const ASKED: usize = 5;

/// A question about objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Objects of the class with this name.
    Class(String),
    /// The object at this address.
    Address(u64),
}

/// Finds the holders; `None` if this version's references are unknown.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(crate) fn holds(scene: &Scene<'_>, wanted: Option<&Wanted>) -> Result<Option<Holds>> {
    let Some(graph) = Graph::read(scene)? else { return Ok(None) };
    let dominators = Dominators::of(&graph.edges, graph.top());
    let slot_bytes = |node: u32| scene.space().slot(node).map_or(0, |slot| slot.bytes.len() as u64);
    let bytes = dominators.sums(|node| slot_bytes(node) + graph.malloc_bytes(node));
    let objects = dominators.sums(|node| u64::from(node < graph.slots));
    let retention = Retention {
        words: Words { scene, graph: &graph },
        dominators: &dominators,
        bytes: &bytes,
        objects: &objects,
    };
    let mut holds = Holds {
        references: graph.edges.edges() as u64,
        coverage: graph.coverage,
        holders: retention.largest(),
        asked: wanted.map(|wanted| retention.matching(wanted)).unwrap_or_default(),
        ..Holds::default()
    };
    for (number, slot) in scene.space().objects() {
        let held = Held {
            objects: 1,
            slot_bytes: slot.bytes.len() as u64,
            malloc_bytes: scene.chunks.map(|_| graph.malloc_bytes(number)),
        };
        *if graph.is_reached(number) { &mut holds.reached } else { &mut holds.waiting } += held;
    }
    holds.foreign_bytes = graph.chunks.iter().sum();
    let unreached = |number: u32| (!graph.is_reached(number)).then(|| graph.malloc_bytes(number));
    holds.waiting_classes = by_class::rows_of(scene, unreached);
    Ok(Some(holds))
}

/// Describes holders.
pub(super) struct Retention<'a> {
    pub(super) words: Words<'a>,
    pub(super) dominators: &'a Dominators,
    /// Retained bytes and objects, by number.
    pub(super) bytes: &'a [u64],
    pub(super) objects: &'a [u64],
}

impl Retention<'_> {
    /// Returns the largest holders, excluding those of which a single object below retains nearly the same.
    fn largest(&self) -> Vec<Holder> {
        let mut largest_below = vec![0u64; self.bytes.len()];
        for number in 1..self.bytes.len() {
            let above = &mut largest_below[self.dominators.dominator[number] as usize];
            *above = (*above).max(self.bytes[number]);
        }
        let first_root = self.words.graph.slots + self.words.graph.chunks.len() as u32;
        let mut numbers: Vec<usize> = (1..self.bytes.len())
            .filter(|&number| self.dominators.nodes[number] < first_root)
            .filter(|&number| largest_below[number] * 100 <= self.bytes[number] * SAME_PERCENT)
            .collect();
        numbers.sort_unstable_by_key(|&number| std::cmp::Reverse(self.bytes[number]));
        numbers.into_iter().take(HOLDERS).map(|number| self.holder(number)).collect()
    }

    fn matching(&self, wanted: &Wanted) -> Vec<Holder> {
        let space = self.words.scene.space();
        let is_wanted = |node: u32| match wanted {
            Wanted::Address(address) => space.find(*address) == Some(node),
            Wanted::Class(name) => {
                let slot = space.slot(node).filter(|slot| slot.class() != 0 && slot.code() != 0x1a);
                slot.is_some_and(|slot| self.words.class_of(&slot) == *name)
            }
        };
        let mut numbers: Vec<usize> =
            (1..self.bytes.len()).filter(|&number| is_wanted(self.dominators.nodes[number])).collect();
        numbers.sort_unstable_by_key(|&number| std::cmp::Reverse(self.bytes[number]));
        numbers.into_iter().take(ASKED).map(|number| self.holder(number)).collect()
    }

    /// Describes the node with this number, and the path to it.
    pub(super) fn holder(&self, number: usize) -> Holder {
        let node = self.dominators.nodes[number];
        Holder {
            what: Untrusted::new(self.words.node(node)),
            address: self.words.scene.space().slot(node).map(|slot| slot.address),
            retained_bytes: self.bytes[number],
            retained_objects: self.objects[number],
            path: self.path(node),
        }
    }

    fn path(&self, node: u32) -> Vec<Step> {
        let path = self.words.graph.path(node);
        let skipped = path.len().saturating_sub(MAX_STEPS);
        let mut steps = Vec::new();
        for (i, &at) in path.iter().enumerate() {
            if skipped > 0 && (MAX_STEPS / 2..MAX_STEPS / 2 + skipped).contains(&i) {
                if i == MAX_STEPS / 2 {
                    steps.push(Step {
                        by: Untrusted::default(),
                        what: Untrusted::new(format!("({skipped} more)")),
                    });
                }
                continue;
            }
            let by = i.checked_sub(1).map(|before| self.words.edge(path[before], at)).unwrap_or_default();
            steps.push(Step { by: Untrusted::new(by), what: Untrusted::new(self.words.node(at)) });
        }
        steps
    }
}

/// Returns the whole heap, in the form of `ObjectSpace.dump_all`; `None` if this version's references are
/// unknown.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(crate) fn dump(scene: &Scene<'_>) -> Result<Option<HeapDump>> {
    let Some(graph) = Graph::read(scene)? else { return Ok(None) };
    let space = scene.space();
    let address = |node: &u32| space.slot(*node).map(|slot| slot.address);
    let first_root = graph.slots + graph.chunks.len() as u32;
    let roots = graph.roots.iter().enumerate().map(|(i, name)| {
        (
            Untrusted::new(name.clone()),
            targets(&graph, first_root + i as u32).iter().filter_map(address).collect(),
        )
    });
    let objects = space.objects().map(|(number, slot)| DumpedObject {
        address: slot.address,
        code: slot.code(),
        class: slot.class(),
        bytes: slot.bytes.len() as u64 + graph.malloc_bytes(number),
        references: targets(&graph, number).iter().filter_map(address).collect(),
        reached: graph.is_reached(number),
        name: name(scene, &slot).map(Untrusted::new),
    });
    Ok(Some(HeapDump { roots: roots.collect(), objects: objects.collect() }))
}

/// Returns the objects to which a node refers, directly or through memory of C code, each once.
fn targets(graph: &Graph, node: u32) -> Vec<u32> {
    const MAX_CHUNKS: usize = 20_000;
    let mut found: Vec<u32> = Vec::new();
    let mut chunks: Vec<u32> = vec![node];
    let mut seen = std::collections::HashSet::new();
    while let Some(at) = chunks.pop() {
        for &to in graph.edges.of(at) {
            if to < graph.slots {
                found.push(to);
            } else if seen.len() < MAX_CHUNKS && seen.insert(to) {
                chunks.push(to);
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn name(scene: &Scene<'_>, slot: &super::slots::Slot<'_>) -> Option<String> {
    use super::names::classes::{CLASS, ClassName, MODULE};
    match slot.code() {
        CLASS | MODULE => match scene.classes.name(slot.address) {
            ClassName::Named(name) => Some(name),
            ClassName::Anonymous(_) | ClassName::Unknown => None,
        },
        0x0c => scene.types.name(scene.types.of(slot)?),
        0x1a => Some(scene.facts.imemos[usize::from(slot.imemo_kind())].to_owned()),
        _ => None,
    }
}
