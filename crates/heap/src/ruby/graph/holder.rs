//! The nearest holder of an object that has a name: an instance variable of a class, a constant, a root.
//!
//! The holder is found on the shortest path from a root. Arrays, hashes, shared strings, internal objects and memory of C code are
//! passed through: an object in an array in a hash in `@rows` is held by `@rows`. Holders are numbered; names are
//! made only for those that are shown.

use super::Graph;
use super::dominators::NONE;
use super::words::Words;
use crate::closer::Scene;
use crate::model::{Held, HolderSum};
use crate::ruby::names::classes::{CLASS, ICLASS, MODULE, RealClass};
use crate::ruby::names::text::{ARRAY, STRING};
use crate::ruby::slots::Slot;
use std::collections::HashMap;
use unbloat_untrusted::Untrusted;

/// Maximum number of holders to tell apart; further ones count as the last.
const MAX_HOLDERS: usize = 1 << 20;
/// Kinds of internal objects that are code.
const CODE: [&str; 5] = ["ment", "iseq", "callinfo", "callcache", "constcache"];
/// Holders that are named, of each sum.
const NAMED: usize = 10;

/// The identity of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    /// No root reaches the object.
    Nobody,
    /// A root.
    Root(u32),
    /// An instance variable by class and index.
    Variable(RealClass, Option<u64>),
    /// A value of a class or module, by both nodes: a constant, a class variable.
    Class(u32, u32),
    /// Instruction sequences and methods: literals.
    Code,
    /// Any other object, by its class.
    Object(RealClass),
}

/// The holders of the objects of one graph.
pub(crate) struct Holders<'a> {
    words: Words<'a>,
    index: HashMap<Key, u32>,
    /// An edge from each holder, by which it is named.
    edges: Vec<(Key, (u32, u32))>,
    /// The holder of each node, or [`NONE`] if it has not been looked for.
    known: Vec<u32>,
}

impl<'a> Holders<'a> {
    pub(crate) fn new(scene: &'a Scene<'a>, graph: &'a Graph) -> Self {
        let known = vec![NONE; graph.edges.nodes() as usize];
        Holders { words: Words { scene, graph }, index: HashMap::new(), edges: Vec::new(), known }
    }

    /// Returns the number of the holder of a node.
    pub(crate) fn of(&mut self, node: u32) -> u32 {
        let mut path = Vec::new();
        let mut at = node;
        let holder = loop {
            if let Some(&known) = self.known.get(at as usize).filter(|&&known| known != NONE) {
                break known;
            }
            path.push(at);
            let parent = self.words.graph.parents.get(at as usize).copied().unwrap_or(NONE);
            if parent == NONE || path.len() > self.known.len() {
                break self.number(Key::Nobody, (at, at));
            }
            match self.key(parent, at) {
                Some(key) => break self.number(key, (parent, at)),
                None => at = parent,
            }
        };
        for passed in path {
            if let Some(known) = self.known.get_mut(passed as usize) {
                *known = holder;
            }
        }
        holder
    }

    fn number(&mut self, key: Key, edge: (u32, u32)) -> u32 {
        let next = self.edges.len() as u32;
        if self.edges.len() >= MAX_HOLDERS && !self.index.contains_key(&key) {
            return next - 1;
        }
        let number = *self.index.entry(key).or_insert(next);
        if number == next {
            self.edges.push((key, edge));
        }
        number
    }

    /// Returns the identity of a parent as a holder; `None` if it is to be passed through.
    fn key(&self, parent: u32, child: u32) -> Option<Key> {
        let graph = self.words.graph;
        let first_root = graph.slots + graph.chunks.len() as u32;
        if parent >= first_root {
            return Some(Key::Root(parent));
        }
        if parent >= graph.slots {
            return None;
        }
        let space = self.words.scene.space();
        let slot = space.slot(parent)?;
        let class = |slot: &Slot<'_>| self.words.scene.classes.real(slot.class());
        match slot.code() {
            ARRAY | STRING | 0x08 => None,
            0x1a => {
                let kind = self.words.scene.facts.imemos[usize::from(slot.imemo_kind())];
                CODE.contains(&kind).then_some(Key::Code)
            }
            CLASS | MODULE | ICLASS => Some(Key::Class(parent, child)),
            0x01 => {
                let value = space.slot(child).map(|slot| slot.address);
                let index = value.and_then(|value| self.words.variable_index(&slot, value));
                Some(Key::Variable(class(&slot), index))
            }
            _ => Some(Key::Object(class(&slot))),
        }
    }

    /// Names a holder.
    pub(crate) fn name(&self, holder: u32) -> String {
        let Some(&(key, (from, to))) = self.edges.get(holder as usize) else { return String::new() };
        let named = |what: String| match self.words.edge(from, to) {
            by if by.is_empty() => what,
            by => format!("{what} {by}"),
        };
        match key {
            Key::Nobody => "nothing: waits for a collection".to_owned(),
            Key::Root(root) => self.words.node(root),
            Key::Code => "code (literals and caches)".to_owned(),
            Key::Class(class, _) => named(self.words.node(class)),
            Key::Variable(..) | Key::Object(_) => {
                let slot = self.words.scene.space().slot(from);
                let class = slot.map(|slot| match slot.code() {
                    0x0c => self.words.node(from),
                    _ => self.words.class_of(&slot),
                });
                named(class.unwrap_or_default())
            }
        }
    }

    /// Names the holders with most bytes, and sums up the others.
    pub(crate) fn largest(&self, sums: HashMap<u32, Held>) -> Vec<HolderSum> {
        let mut sums: Vec<(u32, Held)> = sums.into_iter().collect();
        sums.sort_unstable_by_key(|&(holder, held)| (std::cmp::Reverse(held.bytes()), holder));
        let named = sums.iter().take(NAMED);
        let mut rows: Vec<HolderSum> = named
            .map(|&(holder, held)| HolderSum { what: Untrusted::new(self.name(holder)), held })
            .collect();
        if let Some(others) = sums.get(NAMED..).filter(|others| !others.is_empty()) {
            let mut held = Held::default();
            others.iter().for_each(|&(_, sum)| held += sum);
            rows.push(HolderSum { what: Untrusted::new(format!("{} others", others.len())), held });
        }
        rows
    }
}
