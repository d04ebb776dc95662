//! Descriptions of nodes and edges, for readable paths.
//!
//! Names and sizes only: a hash key is shown if it is a Symbol, and never if it is a String or a number.

use super::Graph;
use crate::closer::Scene;
use crate::ruby::code::facts::{BODY, Constants};
use crate::ruby::names::classes::{CLASS, ClassName, ICLASS, MODULE, RealClass};
use crate::ruby::names::tables::{self, ST_BYTES};
use crate::ruby::names::text::ARRAY;
use crate::ruby::names::user;
use crate::ruby::of_class::pairs;
use crate::ruby::slots::Slot;
use crate::ruby::words::{half_word, word};

/// Maximum number of elements of an array or a hash to search.
const MAX_ELEMENTS: u64 = 1 << 20;

/// Describes nodes and edges of a graph.
pub(crate) struct Words<'a> {
    pub(crate) scene: &'a Scene<'a>,
    pub(crate) graph: &'a Graph,
}

impl Words<'_> {
    fn class_name(&self, class: u64) -> String {
        match self.scene.classes.name(class) {
            ClassName::Named(name) => name,
            ClassName::Anonymous(above) => format!("(class below {above})"),
            ClassName::Unknown => "(unknown class)".to_owned(),
        }
    }

    /// Returns the name of an object's class.
    pub(crate) fn class_of(&self, slot: &Slot<'_>) -> String {
        match self.scene.classes.real(slot.class()) {
            RealClass::Of(class) => self.class_name(class),
            RealClass::Hidden | RealClass::Unknown => "(hidden)".to_owned(),
        }
    }

    /// Describes a node.
    pub(crate) fn node(&self, node: u32) -> String {
        if let Some(chunk) = node.checked_sub(self.graph.slots) {
            let chunks = self.graph.chunks.len() as u32;
            return match chunk.checked_sub(chunks) {
                None => "memory of C code".to_owned(),
                Some(root) => self.graph.roots.get(root as usize).cloned().unwrap_or_default(),
            };
        }
        self.scene.space().slot(node).map_or_else(String::new, |slot| self.object(&slot))
    }

    fn object(&self, slot: &Slot<'_>) -> String {
        match slot.code() {
            CLASS if self.scene.classes.is_singleton(slot) => {
                let of = self.scene.classes.attached(slot.address);
                let of = of.and_then(|of| self.scene.space().object(of));
                match of.filter(|of| [CLASS, MODULE].contains(&of.code())) {
                    Some(of) => format!("singleton class of {}", self.class_name(of.address)),
                    None => "singleton class".to_owned(),
                }
            }
            CLASS => format!("class {}", self.class_name(slot.address)),
            MODULE => format!("module {}", self.class_name(slot.address)),
            ICLASS => format!("included {}", self.class_name(slot.class())),
            ARRAY => {
                let length = self.scene.texts().array(slot.address).map_or(0, |(_, length)| length);
                format!("{}[{length}]", self.class_of(slot))
            }
            0x08 => format!("{}{{{}}}", self.class_of(slot), pairs(self.scene, slot)),
            0x0c => {
                let name = self.scene.types.of(slot).and_then(|of| self.scene.types.name(of));
                match name {
                    Some(name) if slot.class() == 0 => format!("<{name}>"),
                    Some(name) => format!("{} <{name}>", self.class_of(slot)),
                    None => self.class_of(slot),
                }
            }
            0x1a => self.internal(slot),
            _ => self.class_of(slot),
        }
    }

    fn internal(&self, slot: &Slot<'_>) -> String {
        let symbol = |id: u64| self.scene.symbols.and_then(|symbols| symbols.of_id(self.scene.texts(), id));
        match slot.imemo_kind() {
            // rb_method_entry_t: called_id at 24, owner at 32
            6 => format!(
                "method {}#{}",
                self.class_name(slot.word(32)),
                symbol(slot.word(24)).unwrap_or_default()
            ),
            7 => {
                // location.label
                let label = self.scene.memory.word(slot.word(BODY).wrapping_add(80)).ok();
                let label = label.and_then(|label| self.scene.texts().string(label));
                format!("code {}", String::from_utf8_lossy(&label.unwrap_or_default()))
            }
            kind => format!("<{}>", self.scene.facts.imemos[usize::from(kind) & 15]),
        }
    }

    /// Returns the name by which one node holds another; empty if it has none.
    pub(crate) fn edge(&self, from: u32, to: u32) -> String {
        let slots = self.scene.space().slot(from).zip(self.scene.space().slot(to));
        let name = slots.and_then(|(from, to)| match from.code() {
            CLASS | MODULE => {
                self.constant(&from, to.address).or_else(|| self.class_variable(&from, to.address))
            }
            0x01 => self.variable(&from, to.address),
            ARRAY => self.index(&from, to.address),
            0x08 => self.key(&from, to.address),
            _ => None,
        });
        name.unwrap_or_default()
    }

    fn symbol(&self, id: u64) -> Option<String> {
        self.scene.symbols?.of_id(self.scene.texts(), id)
    }

    fn constant(&self, class: &Slot<'_>, value: u64) -> Option<String> {
        let table = match self.scene.facts.code.constants {
            Constants::InSlot(at) => class.word(at),
            Constants::InExtension(at) => {
                self.scene.memory.word(class.word(24).wrapping_add(at as u64)).ok()?
            }
        };
        let mut found = None;
        tables::id_values(self.scene.memory, table, |serial, entry| {
            if found.is_none() && self.scene.memory.word(entry.wrapping_add(8)).ok() == Some(value) {
                found = Some(serial);
            }
        });
        let name = self.scene.symbols?.of_serial(self.scene.texts(), u64::from(found?))?;
        Some(format!("::{name}"))
    }

    /// Names instance variables of a class (`@x`), and class variables (`@@x`).
    fn class_variable(&self, class: &Slot<'_>, value: u64) -> Option<String> {
        if let Some(shapes) = &self.graph.shapes {
            let index = self.position(class.word(32), u64::from(shapes.of(class.flags).variables), value)?;
            return self.symbol(shapes.variable(class.flags, index as u32)?);
        }
        let table = self.scene.memory.word(class.word(24).wrapping_add(8)).ok()?;
        self.symbol(self.key_of(table, |entry| entry == value)?)
    }

    /// Returns the key of the first table entry whose value passes.
    fn key_of(&self, table: u64, is: impl Fn(u64) -> bool) -> Option<u64> {
        let mut head = [0; ST_BYTES];
        self.scene.memory.read(table, &mut head).ok()?;
        let mut found = None;
        tables::entries(self.scene.memory, &head, MAX_ELEMENTS, |key, entry| {
            if found.is_none() && is(entry) {
                found = Some(key);
            }
        });
        found
    }

    /// Names instance variables of an object.
    fn variable(&self, object: &Slot<'_>, value: u64) -> Option<String> {
        let index = self.variable_index(object, value)?;
        if let Some(shapes) = &self.graph.shapes {
            return self.symbol(shapes.variable(object.flags, index as u32)?);
        }
        let RealClass::Of(class) = self.scene.classes.real(object.class()) else { return None };
        // iv_index_tbl: values point at a u32 index
        let extension = self.scene.space().object(class)?.word(24);
        let table = self.scene.memory.word(extension).ok()?;
        let is_index = |entry: u64| {
            let mut bytes = [0; 4];
            self.scene.memory.read(entry, &mut bytes).is_ok() && half_word(&bytes, 0) == Some(index as u32)
        };
        self.symbol(self.key_of(table, is_index)?)
    }

    /// Returns the index of an object's instance variable by its value.
    pub(crate) fn variable_index(&self, object: &Slot<'_>, value: u64) -> Option<u64> {
        let embedded = object.flags & user(1) != 0;
        let (at, count) = match (&self.graph.shapes, embedded) {
            (Some(shapes), true) => (object.address + 16, shapes.of(object.flags).variables.into()),
            (Some(shapes), false) => (object.word(16), shapes.of(object.flags).variables.into()),
            (None, true) => (object.address + 16, 3),
            (None, false) => (object.word(24), object.word(16) & 0xffff_ffff),
        };
        if embedded {
            let values = object.bytes.get(16..)?.chunks_exact(8).take(count as usize);
            return values.map(|bytes| word(bytes, 0)).position(|own| own == Some(value)).map(|i| i as u64);
        }
        self.position(at, count, value)
    }

    /// Returns the index of a value among `count` at an address.
    fn position(&self, address: u64, count: u64, value: u64) -> Option<u64> {
        const STEP: u64 = 512;
        let count = count.min(MAX_ELEMENTS);
        let mut bytes = vec![0; 8 * STEP as usize];
        for first in (0..count).step_by(STEP as usize) {
            let here = (count - first).min(STEP) as usize;
            let part = &mut bytes[..8 * here];
            self.scene.memory.read(address.checked_add(8 * first)?, part).ok()?;
            if let Some(i) = part.chunks_exact(8).position(|bytes| word(bytes, 0) == Some(value)) {
                return Some(first + i as u64);
            }
        }
        None
    }

    fn index(&self, array: &Slot<'_>, value: u64) -> Option<String> {
        let (address, length) = self.scene.texts().array(array.address)?;
        Some(format!("[{}]", self.position(address, length, value)?))
    }

    fn key(&self, hash: &Slot<'_>, value: u64) -> Option<String> {
        let old = self.graph.shapes.is_none();
        let key = if hash.flags & user(3) != 0 {
            match old {
                true => self.key_of(hash.word(16), |entry| entry == value)?,
                false => {
                    let mut found = None;
                    let head = hash.bytes.get(24..80)?;
                    tables::entries(self.scene.memory, head, MAX_ELEMENTS, |key, entry| {
                        if found.is_none() && entry == value {
                            found = Some(key);
                        }
                    });
                    found?
                }
            }
        } else {
            let at = if old { hash.word(16) } else { hash.address + 32 };
            let place = self.position(at, 2 * (hash.flags >> 20 & 15), value)?;
            self.scene.memory.word(at + 8 * (place & !1)).ok()?
        };
        // Symbols without an object have 0xc in their lowest byte.
        Some(if key & 0xff == 0xc { format!("[:{}]", self.symbol(key >> 8)?) } else { "[…]".to_owned() })
    }
}
