//! The files of classes and methods: the file that set a class's constant, and the file of a method's code.

use super::facts::Constants;
use super::sequences::Sequences;
use super::{IMEMO, MENT};
use crate::closer::Scene;
use crate::ruby::names::classes::{CLASS, Classes, ICLASS, MODULE};
use crate::ruby::names::tables;
use crate::ruby::slots::Slot;
use crate::ruby::words::word;
use std::collections::HashMap;
use unbloat_process::Result;
use unbloat_untrusted::Untrusted;

/// The index of no file.
pub(crate) const NO_FILE: u32 = u32::MAX;
/// Number of structures per read.
const BATCH: usize = 1024;
/// Bytes of `rb_const_entry_t` (constant.h): flag, line, value at 8, file at 16.
const CONSTANT_BYTES: usize = 24;
/// Bytes of a method's definition that are read (method.h): its type in the low four bits, the body from 8 on.
const DEFINITION_BYTES: usize = 16;
/// `VM_METHOD_TYPE_ISEQ` (method.h), the first kind in all versions.
const TYPE_ISEQ: u64 = 0;

/// Files of classes, by the class, and of methods, by the number of their slot.
pub(crate) struct Files {
    classes: HashMap<u64, u32>,
    methods: HashMap<u32, u32>,
}

impl Files {
    /// Reads the files.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(crate) fn read(scene: &Scene<'_>, sequences: &Sequences) -> Result<Self> {
        let by_path: HashMap<&Untrusted, u32> =
            sequences.paths.iter().enumerate().map(|(i, path)| (path, i as u32)).collect();
        let mut files = Files { classes: HashMap::new(), methods: HashMap::new() };
        files.read_classes(scene, &by_path)?;
        files.follow_singletons(scene.classes);
        files.read_methods(scene, sequences)?;
        Ok(files)
    }

    /// Returns the file that named a class, or the module behind an included module, first.
    pub(crate) fn of_class(&self, slot: &Slot<'_>) -> u32 {
        let class = if slot.code() == ICLASS { slot.class() } else { slot.address };
        self.classes.get(&class).copied().unwrap_or(NO_FILE)
    }

    /// The file of the method entry in this slot.
    pub(crate) fn of_method(&self, number: u32) -> u32 {
        self.methods.get(&number).copied().unwrap_or(NO_FILE)
    }

    /// Reads the constants whose values are classes or modules, with the file that set them.
    fn read_classes(&mut self, scene: &Scene<'_>, by_path: &HashMap<&Untrusted, u32>) -> Result<()> {
        let mut paths: HashMap<u64, Option<u32>> = HashMap::new();
        let mut entries: Vec<u64> = Vec::new();
        let modules = scene.space().objects().map(|(_, slot)| slot);
        for slot in modules.filter(|slot| [CLASS, MODULE].contains(&slot.code())) {
            let table = match scene.facts.code.constants {
                Constants::InSlot(at) => slot.word(at),
                Constants::InExtension(at) => {
                    let pointer = slot.word(24).checked_add(at as u64).filter(|_| slot.word(24) != 0);
                    pointer.and_then(|pointer| scene.memory.word(pointer).ok()).unwrap_or(0)
                }
            };
            tables::id_values(scene.memory, table, |_, entry| entries.push(entry));
        }
        let mut bytes = vec![0; BATCH * CONSTANT_BYTES];
        for batch in entries.chunks(BATCH) {
            let readable = scene.memory.gather(batch, CONSTANT_BYTES, &mut bytes)?;
            for (entry, _) in bytes.chunks_exact(CONSTANT_BYTES).zip(readable).filter(|(_, whole)| *whole) {
                let (Some(value), Some(path)) = (word(entry, 8), word(entry, 16)) else { continue };
                let is_module = |slot: Slot<'_>| [CLASS, MODULE].contains(&slot.code());
                if !scene.space().object(value).is_some_and(is_module) {
                    continue;
                }
                let file = *paths.entry(path).or_insert_with(|| {
                    let text = Untrusted::from_bytes(&scene.texts().string_to(path, 1024)?);
                    by_path.get(&text).copied()
                });
                if let Some(file) = file {
                    self.classes.entry(value).or_insert(file);
                }
            }
        }
        Ok(())
    }

    /// A singleton class has the file of the class to which it belongs.
    fn follow_singletons(&mut self, classes: &Classes<'_>) {
        let slots = classes.texts.space.objects().map(|(_, slot)| slot);
        for slot in slots.filter(|slot| classes.is_singleton(slot)) {
            let file = classes.attached(slot.address).and_then(|of| self.classes.get(&of).copied());
            if let Some(file) = file {
                self.classes.entry(slot.address).or_insert(file);
            }
        }
    }

    /// Method entries: `rb_method_entry_t` (method.h) has its definition at 16 and its owner at 32.
    fn read_methods(&mut self, scene: &Scene<'_>, sequences: &Sequences) -> Result<()> {
        let entries = scene.space().objects().filter(|(_, s)| s.code() == IMEMO && s.imemo_kind() == MENT);
        let entries: Vec<(u32, Slot<'_>)> = entries.collect();
        let mut bytes = vec![0; BATCH * DEFINITION_BYTES];
        for batch in entries.chunks(BATCH) {
            let addresses: Vec<u64> = batch.iter().map(|(_, slot)| slot.word(16)).collect();
            let readable = scene.memory.gather(&addresses, DEFINITION_BYTES, &mut bytes)?;
            let read = batch.iter().zip(bytes.chunks_exact(DEFINITION_BYTES)).zip(readable);
            for ((&(number, slot), definition), readable) in read {
                let kind = word(definition, 0).map(|flags| flags & 0xf).filter(|_| readable);
                let code = word(definition, 8).filter(|_| kind == Some(TYPE_ISEQ));
                let of_code = code.and_then(|code| sequences.file(scene.space().find(code)?));
                // Accessors, aliases and methods in C count towards the file of their class.
                let file = of_code.or_else(|| self.classes.get(&slot.word(32)).copied());
                if let Some(file) = file {
                    self.methods.insert(number, file);
                }
            }
        }
        Ok(())
    }
}
