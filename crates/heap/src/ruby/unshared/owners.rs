//! The class or the code to which each object and chunk belongs.

use super::plain;
use crate::closer::Scene;
use crate::model::{Cause, CauseKind, ClassLabel, CodePart, Origin};
use crate::ruby::by_class;
use crate::ruby::chunks::Chunks;
use crate::ruby::code::{self, Caches, Files, NO_FILE, Origins, Sequences};
use crate::ruby::owners::{Owners, Taker};
use std::collections::HashMap;
use std::path::Path;
use unbloat_process::Result;
use unbloat_untrusted::Untrusted;

/// No owner.
const NOBODY: u32 = u32::MAX;

/// The owners of objects and chunks.
pub(super) struct Owned {
    /// The class of each slot's object, as the place of its label; [`NOBODY`] for a free slot.
    classes: Vec<u32>,
    labels: Vec<ClassLabel>,
    /// The owner of each chunk, as the place of its cause.
    chunks: Vec<u32>,
    causes: Vec<Cause>,
}

impl Owned {
    /// Reads them.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(super) fn read(scene: &Scene<'_>, directory: Option<&Path>) -> Result<Self> {
        let (numbers, labels) = by_class::labels(scene);
        let mut classes = vec![NOBODY; scene.space().len() as usize];
        for (number, label) in numbers {
            if let Some(class) = classes.get_mut(number as usize) {
                *class = label;
            }
        }
        let mut owned = Owned { classes, labels, chunks: Vec::new(), causes: Vec::new() };
        if let Some(chunks) = scene.chunks {
            owned.read_chunks(scene, chunks, directory)?;
        }
        Ok(owned)
    }

    fn read_chunks(&mut self, scene: &Scene<'_>, chunks: &Chunks, directory: Option<&Path>) -> Result<()> {
        let sequences = Sequences::read(scene)?;
        let files = Files::read(scene, &sequences)?;
        let caches = Caches::of(scene);
        let mut index = Index { causes: Vec::new(), known: HashMap::new() };
        let taker = Takes { chunks, owners: vec![NOBODY; chunks.len()] };
        let Some(mut owners) = Owners::of(scene.version, scene.memory, scene.maps, taker) else {
            return Ok(());
        };
        let origins = Origins::new(directory);
        let mut of_file: HashMap<u32, Origin> = HashMap::new();
        let mut origin = |file: u32| {
            let path = || sequences.paths.get(file as usize).map(|path| origins.of(path));
            of_file
                .entry(file)
                .or_insert_with(|| if file == NO_FILE { Origin::Unknown } else { path().unwrap_or_default() })
                .clone()
        };
        // First, so that the rest of an instruction sequence is the sequence itself.
        for sequence in &sequences.all {
            let cause = index.code(&origin(sequence.file), CodePart::InlineCaches);
            sequence.caches.iter().for_each(|&pointer| owners.taker().take(pointer, cause));
        }
        for (number, slot) in scene.space().objects() {
            let cause = match code::part(number, &slot, &sequences, &files, &caches) {
                Some((file, part)) => index.code(&origin(file), part),
                None => index
                    .class(self.classes.get(number as usize).and_then(|&of| self.labels.get(of as usize))),
            };
            owners.visit(slot, cause);
        }
        self.chunks = owners.finish()?.owners;
        self.causes = index.causes;
        Ok(())
    }

    /// Returns the class of the object in a slot.
    pub(super) fn of_slot(&self, number: u32) -> Option<&ClassLabel> {
        self.labels.get(*self.classes.get(number as usize)? as usize)
    }

    /// Returns the cause of a write to a chunk.
    pub(super) fn of_chunk(&self, number: usize) -> Cause {
        let owner = self.chunks.get(number).and_then(|&owner| self.causes.get(owner as usize));
        owner.cloned().unwrap_or_else(|| plain(CauseKind::OtherBlocks))
    }
}

/// Causes by their place.
struct Index {
    causes: Vec<Cause>,
    known: HashMap<Cause, u32>,
}

impl Index {
    fn code(&mut self, origin: &Origin, part: CodePart) -> u32 {
        let name = match origin {
            Origin::Gem { name, version: Some(version) } => {
                Untrusted::new(format!("{} {}", name.raw(), version.raw()))
            }
            Origin::Gem { name, version: None } | Origin::Directory(name) => name.clone(),
            Origin::Application => "the application".into(),
            Origin::StandardLibrary => "the standard library".into(),
            Origin::Ruby => "Ruby itself".into(),
            Origin::Evaluated => "evaluated code".into(),
            Origin::Unknown => "code without a file".into(),
        };
        self.place(Cause { name, part: Some(part), ..plain(CauseKind::Code) })
    }

    fn class(&mut self, label: Option<&ClassLabel>) -> u32 {
        let cause = match label {
            Some(ClassLabel { kind, name }) => {
                Cause { class: Some(*kind), name: name.clone(), ..plain(CauseKind::MallocBlocks) }
            }
            None => plain(CauseKind::OtherBlocks),
        };
        self.place(cause)
    }

    fn place(&mut self, cause: Cause) -> u32 {
        if let Some(&place) = self.known.get(&cause) {
            return place;
        }
        let place = self.causes.len() as u32;
        self.causes.push(cause.clone());
        self.known.insert(cause, place);
        place
    }
}

/// Keeps the first owner of each chunk.
struct Takes<'a> {
    chunks: &'a Chunks,
    owners: Vec<u32>,
}

impl Taker for Takes<'_> {
    fn take(&mut self, pointer: u64, owner: u32) {
        let Some((number, _)) = self.chunks.find(pointer) else { return };
        if let Some(known) = self.owners.get_mut(number).filter(|known| **known == NOBODY) {
            *known = owner;
        }
    }
}
