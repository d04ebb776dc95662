//! The names of classes and modules.

use super::facts::ClassPath;
use super::symbols::Symbols;
use super::tables::{self, ST_BYTES};
use super::text::Texts;
use crate::ruby::slots::Slot;
use crate::ruby::words::word;
use std::collections::HashMap;
use unbloat_process::Result;

/// `T_CLASS`, `T_MODULE`, `T_ICLASS`.
pub(crate) const CLASS: u8 = 0x02;
pub(crate) const MODULE: u8 = 0x03;
pub(crate) const ICLASS: u8 = 0x1c;
/// Number of structures per read.
const BATCH: usize = 1024;
/// Maximum number of instance variables of a class to search; the hidden ones are among the first.
const MAX_VARIABLES: u64 = 4096;
/// Maximum steps to a real class: more than any program's ancestors, and a bound for loops in a damaged heap.
const MAX_STEPS: usize = 4096;

/// The names of a process's classes.
pub(crate) struct Classes<'a> {
    pub(crate) texts: &'a Texts<'a>,
    /// The String that is the name of a class, by the class.
    paths: HashMap<u64, u64>,
    /// The object to which a singleton class belongs, by the class, if that is an instance variable.
    attached: HashMap<u64, u64>,
}

/// The class of an object from a developer's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RealClass {
    /// A class or module.
    Of(u64),
    /// No class: Ruby hides such objects from programs.
    Hidden,
    /// Its class pointer is not a class.
    Unknown,
}

/// A class's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClassName {
    /// The name that `Module#name` returns.
    Named(String),
    /// It has no name; holds the name of its first superclass with one.
    Anonymous(String),
    /// It is unknown.
    Unknown,
}

impl<'a> Classes<'a> {
    /// Reads the locations of the names.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(crate) fn read(texts: &'a Texts<'a>, symbols: Option<&Symbols>) -> Result<Self> {
        let mut classes = Classes { texts, paths: HashMap::new(), attached: HashMap::new() };
        match (texts.facts.class_path, symbols) {
            (ClassPath::Variables, Some(symbols)) => classes.read_variables(symbols)?,
            (ClassPath::At(at), _) => {
                let paths = modules(texts).map(|slot| (slot.address, slot.word(at)));
                classes.paths = paths.filter(|&(_, path)| path != 0).collect();
            }
            (ClassPath::Variables, None) | (ClassPath::Shapes, _) => {}
        }
        Ok(classes)
    }

    /// Returns whether this version's names can be read: at least one class of a Ruby has one.
    pub(crate) fn are_known(&self) -> bool {
        !self.paths.is_empty()
    }

    fn read_variables(&mut self, symbols: &Symbols) -> Result<()> {
        let all: Vec<(u64, u64)> = modules(self.texts).map(|slot| (slot.address, slot.word(24))).collect();
        let memory = self.texts.memory;
        let mut wanted: HashMap<u64, Variable> = HashMap::new();
        for batch in all.chunks(BATCH) {
            let tables = self.gather(batch, 8, 8, |bytes| word(bytes, 0))?;
            let heads = self.gather(&tables, 0, ST_BYTES, |bytes| Some(bytes.to_vec()))?;
            for (class, head) in heads {
                tables::entries(memory, &head, MAX_VARIABLES, |id, value| {
                    let of = || Variable::named(symbols.of_id(self.texts, id).as_deref());
                    match wanted.entry(id).or_insert_with(of) {
                        Variable::Path => {
                            self.paths.insert(class, value);
                        }
                        Variable::TemporaryPath => {
                            self.paths.entry(class).or_insert(value);
                        }
                        Variable::Attached => {
                            self.attached.insert(class, value);
                        }
                        Variable::Other => {}
                    }
                });
            }
        }
        Ok(())
    }

    /// Reads `size` bytes at `offset` from each second address, and keeps the results that could be read and
    /// converted.
    fn gather<T>(
        &self,
        addresses: &[(u64, u64)],
        offset: u64,
        size: usize,
        of: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<(u64, T)>> {
        let there = addresses.iter().filter(|(_, address)| *address != 0);
        let (classes, places): (Vec<u64>, Vec<u64>) =
            there.map(|(class, address)| (*class, address.wrapping_add(offset))).unzip();
        let mut bytes = vec![0; places.len() * size];
        let readable = self.texts.memory.gather(&places, size, &mut bytes)?;
        let read =
            classes.iter().zip(bytes.chunks_exact(size)).zip(readable).filter(|(_, readable)| *readable);
        Ok(read.filter_map(|((&class, bytes), _)| Some((class, of(bytes)?))).collect())
    }

    /// Returns whether a class is the singleton class of one object.
    pub(crate) fn is_singleton(&self, slot: &Slot<'_>) -> bool {
        slot.code() == CLASS && slot.flags & self.texts.facts.singleton != 0
    }

    /// Returns the first class from this one upward that is neither singleton nor an included module
    /// (`rb_class_real`, object.c).
    pub(crate) fn real(&self, class: u64) -> RealClass {
        let mut at = class;
        if at == 0 {
            return RealClass::Hidden;
        }
        for _ in 0..MAX_STEPS {
            let Some(slot) = self.texts.space.object(at) else { break };
            match slot.code() {
                CLASS if self.is_singleton(&slot) => at = slot.word(self.texts.facts.super_class),
                ICLASS => at = slot.word(self.texts.facts.super_class),
                CLASS | MODULE => return RealClass::Of(at),
                _ => break,
            }
        }
        RealClass::Unknown
    }

    /// Returns the object to which a singleton class belongs.
    pub(crate) fn attached(&self, class: u64) -> Option<u64> {
        match self.texts.facts.class_path {
            ClassPath::At(_) => Some(self.texts.space.object(class)?.word(self.texts.facts.attached)),
            ClassPath::Variables | ClassPath::Shapes => self.attached.get(&class).copied(),
        }
    }

    /// Returns the name of a class or module.
    pub(crate) fn name(&self, class: u64) -> ClassName {
        let own = |class: u64| self.texts.string(*self.paths.get(&class)?);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        if let Some(name) = own(class) {
            return ClassName::Named(text(name));
        }
        let Some(slot) = self.texts.space.object(class).filter(|_| self.are_known()) else {
            return ClassName::Unknown;
        };
        let mut at = slot;
        for _ in 0..MAX_STEPS {
            let RealClass::Of(above) = self.real(at.word(self.texts.facts.super_class)) else { break };
            if let Some(name) = own(above) {
                return ClassName::Anonymous(text(name));
            }
            let Some(slot) = self.texts.space.object(above) else { break };
            at = slot;
        }
        ClassName::Anonymous(if slot.code() == MODULE { "Module".to_owned() } else { "Object".to_owned() })
    }
}

/// A hidden instance variable of a class.
enum Variable {
    Path,
    TemporaryPath,
    Attached,
    Other,
}

impl Variable {
    fn named(name: Option<&str>) -> Self {
        match name {
            Some("__classpath__") => Variable::Path,
            Some("__tmp_classpath__") => Variable::TemporaryPath,
            Some("__attached__") => Variable::Attached,
            _ => Variable::Other,
        }
    }
}

/// Returns all classes and modules.
fn modules<'a>(texts: &Texts<'a>) -> impl Iterator<Item = Slot<'a>> + use<'a> {
    let all = texts.space.objects().map(|(_, slot)| slot);
    all.filter(|slot| slot.code() == CLASS || slot.code() == MODULE)
}
