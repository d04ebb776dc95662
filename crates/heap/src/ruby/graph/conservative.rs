//! Conservative references of wrapped data, threads, fibers and roots: words that may be references, and
//! chunks without an owner.
//!
//! A pointer to another wrapped object's structure is not a reference for the collector, except from roots
//! and among threads, fibers and ractors, which mark each other by such pointers. A chunk that no object owns
//! becomes a node of its own.

use super::build::Builder;
use super::facts::GraphFacts;
use super::stacks::{self, Owner};
use crate::closer::Scene;
use crate::ruby::chunks::{Chunks, Claims};
use crate::ruby::words::word;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use unbloat_process::{Residency, Result};

/// No address of a program is as large (56 bits, with five levels of page tables).
const ADDRESS_END: u64 = 1 << 56;

/// Maximum number of chunk nodes.
const MAX_CHUNKS: usize = 1 << 24;
/// Maximum size of a searched chunk; larger ones hold data.
const MAX_CHUNK_BYTES: u64 = 64 << 20;

/// Follows words.
pub(super) struct Follower<'b, 'a> {
    pub(super) builder: &'b mut Builder<'a>,
    scene: &'b Scene<'a>,
    chunks: Option<&'a Chunks>,
    claims: Option<&'b Claims<'a>>,
    /// Wrapped objects by the chunk of their structure.
    structures: HashMap<usize, u32>,
    /// Chunks that keep nothing alive.
    pub(super) weak: HashSet<u64>,
    nodes: HashMap<usize, u32>,
    /// Usable bytes of the chunk nodes, which follow the slots.
    pub(super) chunk_nodes: Vec<u64>,
    queue: Vec<(u64, u64, u32)>,
    /// Pointers to other objects' structures count.
    through: bool,
    /// Names of the roots, and the words of each: nodes that follow the chunks.
    pub(super) roots: Vec<(String, Vec<u32>)>,
    root: Option<usize>,
    pub(super) vm: Option<u64>,
    pub(super) first_pool: Option<u64>,
    stack_pointers: Vec<u64>,
}

/// A placeholder for a root as the start of an edge, until the roots have numbers.
const ROOT: u32 = u32::MAX;

impl<'b, 'a> Follower<'b, 'a> {
    pub(super) fn new(
        builder: &'b mut Builder<'a>,
        scene: &'b Scene<'a>,
        claims: Option<&'b Claims<'a>>,
    ) -> Self {
        let named = |slot: u32| {
            let slot = builder.space.slot(slot)?;
            scene.types.name(scene.types.of(&slot)?)
        };
        // The T_DATA "VM" wraps rb_vm_t.
        let vm = builder.wrapped.iter().find(|(slot, _)| named(*slot).as_deref() == Some("VM"));
        let vm = vm.map(|&(_, pointer)| pointer);
        let chunks = scene.chunks;
        let wrapped =
            builder.wrapped.iter().filter_map(|&(slot, pointer)| Some((chunks?.find(pointer)?.0, slot)));
        let structures = wrapped.collect();
        Follower {
            stack_pointers: super::roots::stack_pointers(scene),
            builder,
            scene,
            chunks,
            claims,
            structures,
            weak: vm.into_iter().collect(),
            nodes: HashMap::new(),
            chunk_nodes: Vec::new(),
            queue: Vec::new(),
            through: false,
            roots: Vec::new(),
            root: None,
            vm,
            first_pool: scene.first_pool,
        }
    }

    /// Returns the usable bytes of the chunk that starts here, or 0.
    pub(super) fn chunk_bytes(&self, address: u64) -> u64 {
        self.chunks.and_then(|chunks| chunks.find(address)).map_or(0, |(_, bytes)| bytes)
    }

    /// Starts a root and returns its placeholder as the start of edges.
    pub(super) fn root(&mut self, name: &str) -> u32 {
        self.root = Some(self.roots.len());
        self.roots.push((name.to_owned(), Vec::new()));
        self.through = true;
        ROOT
    }

    fn edge(&mut self, from: u32, to: u32) {
        match self.root.filter(|_| from == ROOT) {
            Some(root) => self.roots[root].1.push(to),
            None => self.builder.edges.add(from, to),
        }
    }

    /// Adds a word that may be a reference, or a pointer to memory with references.
    pub(super) fn word(&mut self, from: u32, value: u64) {
        if value == 0 {
            return;
        }
        if let Some(to) = self.builder.space.find(value) {
            return self.edge(from, to);
        }
        let Some((chunk, bytes)) = self.chunks.and_then(|chunks| chunks.find(value)) else { return };
        if self.weak.contains(&value) {
            return;
        }
        if let Some(&wrapped) = self.structures.get(&chunk) {
            if self.through && wrapped != from {
                self.edge(from, wrapped);
            }
            return;
        }
        if self.claims.is_some_and(|claims| claims.is_taken(chunk)) {
            return;
        }
        let to = match self.nodes.get(&chunk) {
            Some(&known) => known,
            None if self.chunk_nodes.len() >= MAX_CHUNKS => return,
            None => {
                let new = self.builder.space.len() + self.chunk_nodes.len() as u32;
                self.nodes.insert(chunk, new);
                self.chunk_nodes.push(bytes);
                self.queue.push((value, bytes, new));
                new
            }
        };
        self.edge(from, to);
    }

    /// Adds the words of a range, as far as it is resident.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(super) fn range(&mut self, from: u32, range: Range<u64>) -> Result<()> {
        const STEP: u64 = 64 << 10;
        // The target chose the range; below this end no sum can overflow.
        let range = range.start.min(ADDRESS_END)..range.end.min(ADDRESS_END);
        let mut at = range.start.next_multiple_of(8);
        let mut buffer = Vec::new();
        while at < range.end {
            let end = range.end.min((at / STEP + 1) * STEP);
            buffer.resize((end - at) as usize / 8 * 8, 0);
            if self.scene.memory.read(at, &mut buffer).is_err() {
                self.resident_words(from, at..end, &mut buffer)?;
            } else {
                self.words(from, &buffer);
            }
            at = end;
        }
        Ok(())
    }

    /// Adds the words of the resident pages of an incomplete range.
    fn resident_words(&mut self, from: u32, range: Range<u64>, buffer: &mut Vec<u8>) -> Result<()> {
        let page = unbloat_process::page_size();
        let start = range.start / page * page;
        let len = range.end.next_multiple_of(page) - start;
        let residency: Residency = self.scene.memory.residency(start, len)?;
        buffer.resize(len as usize, 0);
        self.scene.memory.read_resident(&residency, buffer)?;
        let words = (range.start - start) as usize..(range.end - start) as usize;
        let words = buffer.get(words).unwrap_or_default().to_vec();
        self.words(from, &words);
        Ok(())
    }

    fn words(&mut self, from: u32, bytes: &[u8]) {
        for bytes in bytes.chunks_exact(8) {
            self.word(from, word(bytes, 0).unwrap_or(0));
        }
    }

    /// Adds the words of the chunk at an address.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(super) fn chunk_words(&mut self, from: u32, address: u64) -> Result<()> {
        let bytes = self.chunk_bytes(address).min(MAX_CHUNK_BYTES);
        self.range(from, address..address.saturating_add(bytes))
    }

    /// Follows the chunks that have become nodes. Each becomes one only once, so this ends.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(super) fn drain(&mut self) -> Result<()> {
        while let Some((address, bytes, node)) = self.queue.pop() {
            self.range(node, address..address.saturating_add(bytes.min(MAX_CHUNK_BYTES)))?;
        }
        Ok(())
    }

    /// Follows all wrapped data.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(super) fn wrapped(&mut self, facts: &GraphFacts) -> Result<()> {
        for (slot, pointer) in std::mem::take(&mut self.builder.wrapped) {
            let Some(object) = self.builder.space.slot(slot) else { continue };
            let name =
                self.scene.types.of(&object).and_then(|of| self.scene.types.name(of)).unwrap_or_default();
            self.through = matches!(name.as_str(), "VM/thread" | "fiber" | "ractor");
            // Done first, to know the unused words of the VM stack.
            match name.as_str() {
                "VM/thread" => stacks::follow(self, facts, self.scene, slot, (Owner::Thread, pointer))?,
                "fiber" => stacks::follow(self, facts, self.scene, slot, (Owner::Fiber, pointer))?,
                _ => {}
            }
            match name.as_str() {
                // Precise, and weak on purpose.
                "proc" | "binding" | "weakmap" | "weakkeymap" | "WeakMap" | "WeakKeyMap" | "VM" => {}
                _ if pointer == object.address + 32 => {
                    self.words(slot, object.bytes.get(32..).unwrap_or_default());
                }
                _ => self.chunk_words(slot, pointer)?,
            }
            self.drain()?;
        }
        Ok(())
    }

    /// Returns the highest stack pointer in a range, of threads that wait in the kernel.
    pub(super) fn highest(&self, range: Range<u64>) -> Option<u64> {
        self.stack_pointers.iter().copied().filter(|pointer| range.contains(pointer)).max()
    }

    /// Returns the lowest stack pointer in a range, of threads that wait in the kernel.
    pub(super) fn lowest(&self, range: Range<u64>) -> Option<u64> {
        self.stack_pointers.iter().copied().filter(|pointer| range.contains(pointer)).min()
    }
}
