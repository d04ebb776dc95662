//! Loaded code by file: instruction sequences, inline caches, methods, the tables of classes.
//!
//! | module | concept |
//! |---|---|
//! | `facts` | layout of instruction sequences, by version |
//! | `sequences` | instruction sequences and their files |
//! | `files` | the files of classes and methods |
//! | `origin` | origin of a path: gem, standard library, application |
//!
//! Memory is counted in cells, a cell for each pair of a file and a [`CodePart`]. Inline caches are claimed
//! first, so that the rest of an instruction sequence is the sequence itself.

pub(crate) mod facts;
pub(crate) mod files;
pub(crate) mod origin;
pub(crate) mod sequences;

use super::chunks::Claims;
use super::names::classes::{CLASS, ICLASS, MODULE};
use super::owners::{Owners, Taker as _};
use super::slots::Slot;
use crate::closer::Scene;
use crate::model::{Code, CodeFile, CodePart, Held};
use crate::sharing::SharedPages;
pub(super) use files::{Files, NO_FILE};
pub(super) use origin::Origins;
pub(super) use sequences::Sequences;
use std::collections::HashMap;
use std::path::Path;
use unbloat_process::Result;
use unbloat_untrusted::Untrusted;

const IMEMO: u8 = 0x1a;
/// Kinds of internal objects (`enum imemo_type`): cref, ment, iseq, the same in all versions.
const CREF: u8 = 1;
const MENT: u8 = 6;
const ISEQ: u8 = 7;

/// Counts the memory of loaded code.
///
/// `shared` are the pages that the process still shares with its parent; `directory` is its working
/// directory, which contains the application's files.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(crate) fn count(
    scene: &Scene<'_>,
    directory: Option<&Path>,
    shared: Option<&SharedPages>,
) -> Result<Code> {
    let sequences = Sequences::read(scene)?;
    let files = Files::read(scene, &sequences)?;
    let caches = Caches::of(scene);
    let mut cells = Cells::new(shared);
    let claims = scene.chunks.map(|chunks| Claims::new(chunks, shared));
    let mut owners = claims.and_then(|claims| Owners::of(scene.version, scene.memory, scene.maps, claims));
    if let Some(owners) = &mut owners {
        for sequence in &sequences.all {
            let cell = cells.index(sequence.file, CodePart::InlineCaches);
            sequence.caches.iter().for_each(|&pointer| owners.taker().take(pointer, cell));
        }
    }
    for (number, slot) in scene.space().objects() {
        let Some((file, part)) = part(number, &slot, &sequences, &files, &caches) else { continue };
        let cell = cells.add(file, part, &slot);
        if let Some(owners) = &mut owners {
            owners.visit(slot, cell);
        }
    }
    let claims = owners.map(Owners::finish).transpose()?;
    let origins = Origins::new(directory);
    Ok(cells.finish(claims.as_ref(), &sequences, |file| {
        let path = sequences.paths.get(file as usize)?;
        Some((path.clone(), origins.of(path)))
    }))
}

/// Names of the kinds of internal objects that are caches in this version: `callinfo`, `callcache`,
/// `constcache`, `cvar_entry`.
pub(super) struct Caches([bool; 16]);

impl Caches {
    pub(super) fn of(scene: &Scene<'_>) -> Self {
        let names = ["callinfo", "callcache", "constcache", "cvar_entry"];
        Caches(std::array::from_fn(|kind| names.contains(&scene.facts.imemos[kind])))
    }
}

/// Returns the file and the part towards which an object counts; `None` if it is not code.
pub(super) fn part(
    number: u32,
    slot: &Slot<'_>,
    sequences: &Sequences,
    files: &Files,
    caches: &Caches,
) -> Option<(u32, CodePart)> {
    match (slot.code(), slot.imemo_kind()) {
        (CLASS | MODULE | ICLASS, _) => Some((files.of_class(slot), CodePart::Tables)),
        (IMEMO, ISEQ) => Some((sequences.file(number)?, CodePart::Sequences)),
        (IMEMO, MENT) => Some((files.of_method(number), CodePart::Methods)),
        (IMEMO, CREF) => Some((NO_FILE, CodePart::Methods)),
        (IMEMO, kind) if caches.0[usize::from(kind)] => Some((NO_FILE, CodePart::InlineCaches)),
        _ => None,
    }
}

struct Cells<'a> {
    shared: Option<&'a SharedPages>,
    index: HashMap<(u32, CodePart), u32>,
    all: Vec<Cell>,
}

struct Cell {
    file: u32,
    part: CodePart,
    held: Held,
    shared_bytes: u64,
}

impl<'a> Cells<'a> {
    fn new(shared: Option<&'a SharedPages>) -> Self {
        Cells { shared, index: HashMap::new(), all: Vec::new() }
    }

    fn index(&mut self, file: u32, part: CodePart) -> u32 {
        let next = self.all.len() as u32;
        let index = *self.index.entry((file, part)).or_insert(next);
        if index == next {
            self.all.push(Cell { file, part, held: Held::default(), shared_bytes: 0 });
        }
        index
    }

    fn add(&mut self, file: u32, part: CodePart, slot: &Slot<'_>) -> u32 {
        let index = self.index(file, part);
        let slot_bytes = slot.bytes.len() as u64;
        let shared = self.shared.map_or(0, |shared| shared.within(slot.address, slot_bytes));
        if let Some(cell) = self.all.get_mut(index as usize) {
            cell.held += Held { objects: 1, slot_bytes, malloc_bytes: None };
            cell.shared_bytes += shared;
        }
        index
    }

    fn finish(
        mut self,
        claims: Option<&Claims<'_>>,
        sequences: &Sequences,
        file: impl Fn(u32) -> Option<(Untrusted, crate::model::Origin)>,
    ) -> Code {
        for (i, cell) in self.all.iter_mut().enumerate() {
            let of = |sums: &Vec<u64>| sums.get(i).copied().unwrap_or(0);
            cell.held.malloc_bytes = claims.map(|claims| of(&claims.bytes));
            cell.shared_bytes += claims.map_or(0, |claims| of(&claims.shared_bytes));
        }
        let mut files: HashMap<u32, CodeFile> = HashMap::new();
        for cell in self.all {
            let row = files.entry(cell.file).or_insert_with(|| {
                let (path, origin) = match file(cell.file) {
                    Some((path, origin)) => (Some(path), origin),
                    None => (None, crate::model::Origin::Unknown),
                };
                CodeFile { path, origin, ..CodeFile::default() }
            });
            row.parts.add(cell.part, cell.held);
            if self.shared.is_some() {
                *row.shared_bytes.get_or_insert(0) += cell.shared_bytes;
            }
        }
        let mut files: Vec<CodeFile> = files.into_values().collect();
        files.sort_by(|a, b| b.parts.bytes().cmp(&a.parts.bytes()).then_with(|| a.path.cmp(&b.path)));
        Code { files, sequences_without_path: sequences.without_path }
    }
}
