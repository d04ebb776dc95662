//! The holder of most objects of a class.
//!
//! From the top, the way leads down the tree of dominators to whatever dominates most bytes of the class, and ends where
//! these fan out: at the array, hash or table that holds them.

use super::by_class::{self, NOT_WANTED};
use super::graph::Graph;
use super::graph::dominators::Dominators;
use super::graph::words::Words;
use super::holding::Retention;
use crate::closer::Scene;
use crate::model::{ClassLabel, Held, HeldClass};
use unbloat_process::Result;

/// The way ends where no single node below has more than this share of the bytes of the one above.
const FAN_PERCENT: u64 = 10;
/// A holder is named if it holds at least this share of all.
const LEAST_PERCENT: u64 = 10;
/// Maximum number of classes per look.
const MAX_CLASSES: usize = 16;

/// Finds the holders of classes; `None` if this version's references are unknown.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(crate) fn held(scene: &Scene<'_>, wanted: &[ClassLabel]) -> Result<Option<Vec<HeldClass>>> {
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
    let wanted = &wanted[..wanted.len().min(MAX_CLASSES)];
    let members = by_class::members(scene, wanted);
    let member = |node: u32| members.get(node as usize).copied().unwrap_or(NOT_WANTED);
    let held = |(place, class): (usize, &ClassLabel)| {
        let is_member = |node: u32| usize::from(member(node)) == place;
        let only = |node: u32, of: u64| if is_member(node) { of } else { 0 };
        let sums = Sums {
            objects: dominators.sums(|node| only(node, 1)),
            slot_bytes: dominators.sums(|node| only(node, slot_bytes(node))),
            malloc_bytes: dominators.sums(|node| only(node, graph.malloc_bytes(node))),
        };
        let at = way_down(&dominators, |number| sums.bytes(number), is_member);
        let of = |number| sums.held(number, scene.chunks.is_some());
        let large = sums.bytes(at) * 100 >= sums.bytes(0) * LEAST_PERCENT;
        let holder = (at > 0 && sums.bytes(at) > 0 && large).then(|| (retention.holder(at), of(at)));
        HeldClass { class: class.clone(), reached: of(0), holder }
    };
    Ok(Some(wanted.iter().enumerate().map(held).collect()))
}

/// Sums over what each node dominates, of one class, by number.
struct Sums {
    objects: Vec<u64>,
    slot_bytes: Vec<u64>,
    malloc_bytes: Vec<u64>,
}

impl Sums {
    fn bytes(&self, number: usize) -> u64 {
        let at = |sums: &Vec<u64>| sums.get(number).copied().unwrap_or(0);
        at(&self.slot_bytes) + at(&self.malloc_bytes)
    }

    fn held(&self, number: usize, knows_malloc: bool) -> Held {
        let at = |sums: &Vec<u64>| sums.get(number).copied().unwrap_or(0);
        Held {
            objects: at(&self.objects),
            slot_bytes: at(&self.slot_bytes),
            malloc_bytes: knows_malloc.then(|| at(&self.malloc_bytes)),
        }
    }
}

/// Returns the number of the node where the objects fan out, or of the first of them if one of them holds the others;
/// 0 if nothing below the top holds a large part.
fn way_down(dominators: &Dominators, bytes: impl Fn(usize) -> u64, is_member: impl Fn(u32) -> bool) -> usize {
    let count = dominators.nodes.len();
    // The heaviest child of each node. A dominator has a lower number than what it dominates.
    let mut heaviest = vec![0usize; count];
    for number in 1..count {
        let above = dominators.dominator[number] as usize;
        if heaviest[above] == 0 || bytes(number) > bytes(heaviest[above]) {
            heaviest[above] = number;
        }
    }
    let mut at = 0;
    loop {
        let next = heaviest.get(at).copied().unwrap_or(0);
        // Numbers only rise, so this ends.
        if next <= at || bytes(next) * 100 <= bytes(at) * FAN_PERCENT {
            return at;
        }
        at = next;
        if dominators.nodes.get(at).is_some_and(|&node| is_member(node)) {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::layout::Edges;
    use super::*;

    /// A top (0), a registry (1) with a list (2) of 20 leaks (10 to 29), and a leak elsewhere (3).
    fn registry(edges: &mut Edges) -> u32 {
        for (from, to) in [(0, 1), (1, 2), (0, 3)] {
            edges.add(from, to);
        }
        (10..30).for_each(|leak| edges.add(2, leak));
        30
    }

    fn way(build: impl Fn(&mut Edges) -> u32, is_member: impl Fn(u32) -> bool) -> u32 {
        let mut edges = Edges::default();
        let nodes = build(&mut edges);
        let dominators = Dominators::of(&edges.lay_out(nodes), 0);
        let sums = dominators.sums(|node| if is_member(node) { 40 } else { 0 });
        let at = way_down(&dominators, |number| sums[number], &is_member);
        dominators.nodes[at]
    }

    #[test]
    fn the_way_ends_where_the_objects_fan_out() {
        assert_eq!(way(registry, |node| node >= 10 || node == 3), 2);
    }

    #[test]
    fn a_chain_is_held_by_its_first_link() {
        let chain = |edges: &mut Edges| {
            (0..50).for_each(|node| edges.add(node, node + 1));
            51
        };
        assert_eq!(way(chain, |node| node >= 5), 5);
    }

    #[test]
    fn objects_that_many_hold_have_no_holder() {
        let many = |edges: &mut Edges| {
            (1..41).for_each(|node| edges.add(0, node));
            41
        };
        assert_eq!(way(many, |node| node > 0), 0);
        assert_eq!(way(many, |_| false), 0);
    }
}
