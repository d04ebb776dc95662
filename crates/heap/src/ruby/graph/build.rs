//! The references of each type of object; `structures` has those of the structures to which they lead.
//! ~Precise where CRuby's marking is: what `gc_mark_children` (gc.c) marks. What extensions wrap is followed
//! conservatively in `conservative`.~They are as precise as CRuby's marking (`gc_mark_children`, gc.c).
//! `conservative` follows the data wrapped by extensions.
//!
//! Precise where CRuby's marking is: what `gc_mark_children` (gc.c) marks. What extensions wrap is followed
//! conservatively in `conservative`.

use super::facts::{GraphFacts, Shape};
use super::jobs::{Jobs, Kind, Value};
use super::layout::Edges;
use super::shapes::Shapes;
use crate::ruby::chunks::Chunks;
use crate::ruby::names::facts::NameFacts;
use crate::ruby::names::user;
use crate::ruby::slots::Slot;
use crate::ruby::space::Space;
use crate::ruby::words::word;

/// `FL_EXIVAR` (include/ruby/internal/fl_type.h): the object has instance variables in a separate table.
pub(super) const GENERIC_VARIABLES: u64 = 1 << 10;
/// `Qundef`, the key of a deleted pair of a small hash: up to 3.1, and from 3.2 on (include/ruby/internal/special_consts.h).
const UNDEF: [u64; 2] = [0x34, 0x24];

/// Collects edges.
pub(super) struct Builder<'a> {
    pub(super) space: &'a Space,
    pub(super) names: &'static NameFacts,
    pub(super) facts: &'static GraphFacts,
    pub(super) chunks: Option<&'a Chunks>,
    pub(super) shapes: Option<&'a Shapes>,
    pub(super) edges: Edges,
    pub(super) jobs: Jobs,
    /// Wrapped data with the address of its structure, to follow conservatively.
    pub(super) wrapped: Vec<(u32, u64)>,
    /// Number of references to slots without an object, because the heap changed meanwhile.
    pub(super) dangling: u64,
}

impl Builder<'_> {
    /// Adds a word as a reference if it is the address of an object.
    pub(super) fn refer(&mut self, from: u32, value: u64) {
        if let Some(to) = self.space.find(value) {
            self.edges.add(from, to);
        } else if value != 0 && value & 7 == 0 && self.space.is_slot(value) {
            self.dangling += 1;
        }
    }

    pub(super) fn all(&mut self, from: u32, bytes: &[u8]) {
        for bytes in bytes.chunks_exact(8) {
            self.refer(from, word(bytes, 0).unwrap_or(0));
        }
    }

    pub(super) fn ask(&mut self, kind: Kind, address: u64, bytes: u64, from: u32) {
        self.jobs.ask(kind, (address, bytes), 8, from);
    }

    /// Returns the usable bytes from an address to the end of its chunk, or `otherwise` if no chunk starts
    /// there.
    pub(super) fn usable(&self, address: u64, otherwise: u64) -> u64 {
        self.chunks.and_then(|chunks| chunks.find(address)).map_or(otherwise, |(_, bytes)| bytes)
    }

    /// Adds values at an address, at most as many as its chunk has.
    pub(super) fn values(&mut self, from: u32, address: u64, count: u64) {
        let bytes = count.saturating_mul(8);
        let bytes = bytes.min(self.usable(address, bytes));
        self.ask(Kind::Words, address, bytes, from);
    }

    pub(super) fn table(&mut self, from: u32, address: u64, keys: bool, values: bool) {
        self.ask(Kind::Table { keys, values }, address, 56, from);
    }

    /// Adds the references of an object.
    pub(super) fn visit(&mut self, from: u32, slot: &Slot<'_>) {
        match slot.code() {
            0x1a => return self.imemo(from, slot),
            // T_FLOAT, T_BIGNUM, T_SYMBOL, which have no references, and slots that are no longer objects.
            0x04 | 0x0a | 0x14 | 0x1b | 0x1d | 0x1e => return,
            _ => {}
        }
        self.refer(from, slot.class());
        match slot.code() {
            0x01 => self.object(from, slot),
            0x02 | 0x03 | 0x1c => self.class(from, slot),
            0x05 => self.string(from, slot),
            0x06 => self.refer(from, slot.word(24)),
            0x07 => self.array(from, slot),
            0x08 => self.hash(from, slot),
            0x09 => self.structure(from, slot),
            0x0b => self.ask(Kind::Words, slot.word(16), self.usable(slot.word(16), 0).min(34 * 8), from),
            0x0c => self.data(from, slot),
            0x0d => {
                self.refer(from, slot.word(16));
                self.refer(from, slot.word(if self.facts.shape == Shape::Tables { 32 } else { 24 }));
            }
            0x0e | 0x0f => self.all(from, slot.bytes.get(16..32).unwrap_or_default()),
            _ => {}
        }
    }

    /// Adds the string whose bytes a string shares. An embedded one shares none.
    fn string(&mut self, from: u32, slot: &Slot<'_>) {
        let external = slot.flags & user(1) != 0;
        if external && slot.flags & self.names.shared != 0 {
            self.refer(from, slot.word(32));
        }
    }

    fn object(&mut self, from: u32, slot: &Slot<'_>) {
        let embedded = slot.flags & user(1) != 0;
        match (self.facts.shape, embedded) {
            (Shape::Tables, true) => self.all(from, slot.bytes.get(16..40).unwrap_or_default()),
            (Shape::Tables, false) => self.values(from, slot.word(24), slot.word(16) & 0xffff_ffff),
            (Shape::Shapes, embedded) => match self.shapes.map(|shapes| shapes.of(slot.flags)) {
                Some(shape) if shape.too_complex => self.table(from, slot.word(16), false, true),
                Some(shape) if embedded => {
                    let end = 16 + 8 * shape.variables as usize;
                    self.all(from, slot.bytes.get(16..end.min(slot.bytes.len())).unwrap_or_default());
                }
                Some(shape) => self.values(from, slot.word(16), u64::from(shape.variables)),
                None if embedded => self.all(from, slot.bytes.get(16..).unwrap_or_default()),
                None => self.values(from, slot.word(16), self.usable(slot.word(16), 0) / 8),
            },
        }
    }

    fn array(&mut self, from: u32, slot: &Slot<'_>) {
        if slot.flags & user(1) != 0 {
            let length = (slot.flags >> 15 & self.names.array_length_mask) as usize;
            let end = (16 + 8 * length).min(slot.bytes.len());
            self.all(from, slot.bytes.get(16..end).unwrap_or_default());
        } else if slot.flags & self.names.shared != 0 {
            self.refer(from, slot.word(24));
        } else {
            self.values(from, slot.word(32), slot.word(16));
        }
    }

    fn hash(&mut self, from: u32, slot: &Slot<'_>) {
        let pairs = slot.flags >> 20 & 15;
        let large = slot.flags & user(3) != 0;
        match (self.facts.shape, large) {
            (Shape::Tables, true) => self.table(from, slot.word(16), true, true),
            // struct ar_table_struct (hash.c): nothing but pairs; their hints are in the slot.
            (Shape::Tables, false) if slot.word(16) != 0 => {
                self.jobs.ask(Kind::Pairs, (slot.word(16), 16 * pairs), 16, from);
            }
            (Shape::Tables, false) => {}
            (Shape::Shapes, true) => {
                if let Some(head) = slot.bytes.get(24..80) {
                    self.entries(from, head, true, true);
                }
            }
            (Shape::Shapes, false) => {
                let end = (32 + 16 * pairs as usize).min(slot.bytes.len());
                self.pairs(from, slot.bytes.get(32..end).unwrap_or_default());
            }
        }
        self.refer(from, slot.word(if self.facts.shape == Shape::Tables { 24 } else { 16 }));
    }

    pub(super) fn pairs(&mut self, from: u32, bytes: &[u8]) {
        let undef = UNDEF[usize::from(self.facts.shape == Shape::Shapes)];
        for pair in bytes.chunks_exact(16).filter(|pair| word(pair, 0) != Some(undef)) {
            self.all(from, pair);
        }
    }

    fn structure(&mut self, from: u32, slot: &Slot<'_>) {
        let mask = if self.facts.shape == Shape::Tables { 3 } else { 0x7f };
        match (slot.flags >> 13 & mask) as usize {
            0 => self.values(from, slot.word(24), slot.word(16)),
            length => {
                let end = (16 + 8 * length).min(slot.bytes.len());
                self.all(from, slot.bytes.get(16..end).unwrap_or_default());
            }
        }
    }

    fn data(&mut self, from: u32, slot: &Slot<'_>) {
        // TYPED_DATA_EMBEDDED (3.3): the structure follows `data`.
        match slot.word(24) {
            3 if self.facts.shape == Shape::Shapes => self.wrapped.push((from, slot.address + 32)),
            _ => self.wrapped.push((from, slot.word(32))),
        }
    }

    fn class(&mut self, from: u32, slot: &Slot<'_>) {
        self.refer(from, slot.word(self.names.super_class));
        let iclass = slot.code() == 0x1c;
        if self.facts.shape == Shape::Tables {
            let origin = slot.flags & user(5) != 0 && slot.flags & user(8) == 0;
            return self.ask(Kind::Extension { iclass, origin }, slot.word(24), 80, from);
        }
        // 3.3: m_tbl at 24, iv_ptr, const_tbl, callable_m_tbl, cc_tbl, cvc_tbl; as.*, classpath.
        let origin = slot.flags & user(0) != 0 && slot.flags & user(3) == 0;
        if iclass {
            self.refer(from, slot.word(136));
        } else {
            match self.shapes.map(|shapes| shapes.of(slot.flags)) {
                Some(shape) if shape.too_complex => self.table(from, slot.word(32), false, true),
                Some(shape) => self.values(from, slot.word(32), u64::from(shape.variables)),
                None => {}
            }
            self.refer(from, slot.word(152));
            if slot.flags & self.names.singleton != 0 {
                self.refer(from, slot.word(self.names.attached));
            }
            self.id_table(from, slot.word(40), Value::Constant);
        }
        if !iclass || origin {
            self.id_table(from, slot.word(24), Value::Reference);
        }
        if iclass {
            self.id_table(from, slot.word(48), Value::Reference);
        }
        self.id_table(from, slot.word(56), Value::CallCaches);
        self.id_table(from, slot.word(64), Value::ClassVariable);
    }

    pub(super) fn id_table(&mut self, from: u32, address: u64, values: Value) {
        self.ask(Kind::IdTable(values), address, 24, from);
    }

    fn imemo(&mut self, from: u32, slot: &Slot<'_>) {
        let words = |this: &mut Self, from_byte: usize, to: usize| {
            this.all(from, slot.bytes.get(from_byte..to.min(slot.bytes.len())).unwrap_or_default());
        };
        match slot.imemo_kind() {
            // env: iseq at 8, ep, env, its size
            0 if slot.word(16) != 0 => {
                self.refer(from, slot.word(8));
                let count = slot.word(32) & 0xffff_ffff;
                self.values(from, slot.word(24), count);
                self.ask(Kind::Environment, slot.word(16).wrapping_sub(8), 16, from);
            }
            // cref, svar, memo
            1 | 5 => words(self, 8, 32),
            2 => words(self, 8, 40),
            3 => self.refer(from, slot.word(16)),
            4 => self.refer(from, slot.word(24)),
            // ment: defined_class, def, owner
            6 => {
                self.refer(from, slot.word(8));
                self.refer(from, slot.word(32));
                self.ask(Kind::Definition, slot.word(16), 32, from);
            }
            7 => {
                self.refer(from, slot.word(8));
                self.ask(Kind::Body, slot.word(16), self.facts.body.bytes as u64, from);
                // ISEQ_NOT_LOADED_YET: IMEMO_FL_USER1 (iseq.h)
                if slot.flags & user(5) != 0 {
                    self.refer(from, slot.word(24));
                }
            }
            8 => self.values(from, slot.word(16), slot.word(32).min(1 << 20)),
            // callcache: 3.3 marks the method of super and refinement caches only
            12 if self.facts.shape == Shape::Tables || slot.flags >> 18 & 3 != 0 => {
                self.refer(from, slot.word(16))
            }
            13 => self.refer(from, slot.word(8)),
            _ => {}
        }
    }

    /// Adds the entries of a table with this head.
    pub(super) fn entries(&mut self, from: u32, head: &[u8], keys: bool, values: bool) {
        let field = |at| word(head, at).unwrap_or(0);
        let (start, bound, address) = (field(32), field(40), field(48));
        let bytes = bound.saturating_sub(start).saturating_mul(24);
        if let Some(first) = start.checked_mul(24).and_then(|offset| address.checked_add(offset)) {
            let usable = self.usable(address, u64::MAX).saturating_sub(start.saturating_mul(24));
            self.jobs.ask(Kind::Entries { keys, values }, (first, bytes.min(usable) / 24 * 24), 24, from);
        }
    }
}
