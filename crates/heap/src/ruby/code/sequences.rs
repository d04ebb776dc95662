//! Instruction sequences with their files and inline caches.

use super::facts::{BODY, PATH};
use super::{IMEMO, ISEQ};
use crate::closer::Scene;
use crate::ruby::names::text::{ARRAY, STRING, Texts};
use crate::ruby::words::word;
use std::collections::HashMap;
use unbloat_process::Result;
use unbloat_untrusted::Untrusted;

/// Number of bodies per read.
const BATCH: usize = 1024;
/// Bytes of a body to read, enough for every version.
const HEAD_BYTES: usize = 200;
/// Maximum number of distinct files.
const MAX_FILES: usize = 1 << 18;
/// Maximum bytes of a path.
const MAX_PATH_BYTES: usize = 1024;

/// One instruction sequence.
pub(crate) struct Sequence {
    /// The number of its slot.
    pub(crate) number: u32,
    /// Its file, as an index of [`Sequences::paths`].
    pub(crate) file: u32,
    /// The memory of its inline caches: pointers to chunks.
    pub(crate) caches: [u64; 2],
}

/// All instruction sequences, in order of their slots.
#[derive(Default)]
pub(crate) struct Sequences {
    pub(crate) all: Vec<Sequence>,
    /// The files.
    pub(crate) paths: Vec<Untrusted>,
    /// Sequences whose path could not be read.
    pub(crate) without_path: u64,
    index: HashMap<Untrusted, u32>,
}

impl Sequences {
    /// Reads the instruction sequences.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(crate) fn read(scene: &Scene<'_>) -> Result<Self> {
        let mut sequences = Sequences::default();
        let all = scene.space().objects().filter(|(_, s)| s.code() == IMEMO && s.imemo_kind() == ISEQ);
        let all: Vec<(u32, u64)> = all.map(|(number, slot)| (number, slot.word(BODY))).collect();
        // Keyed by path object, which sequences of one file mostly share.
        let mut known: HashMap<u64, Option<u32>> = HashMap::new();
        let mut bytes = vec![0; BATCH * HEAD_BYTES];
        for batch in all.chunks(BATCH) {
            let addresses: Vec<u64> = batch.iter().map(|&(_, body)| body).collect();
            let readable = scene.memory.gather(&addresses, HEAD_BYTES, &mut bytes)?;
            for ((&(number, _), body), _) in
                batch.iter().zip(bytes.chunks_exact(HEAD_BYTES)).zip(readable).filter(|(_, whole)| *whole)
            {
                let object = word(body, PATH).unwrap_or(0);
                let file = *known.entry(object).or_insert_with(|| {
                    let path = path(scene.texts(), object)?;
                    sequences.intern(Untrusted::from_bytes(&path))
                });
                let Some(file) = file else {
                    sequences.without_path += 1;
                    continue;
                };
                let caches = scene.facts.code.caches.unwrap_or([usize::MAX - 8; 2]);
                let caches = caches.map(|at| word(body, at).unwrap_or(0));
                sequences.all.push(Sequence { number, file, caches });
            }
        }
        Ok(sequences)
    }

    /// Returns the file of the sequence in this slot.
    pub(crate) fn file(&self, number: u32) -> Option<u32> {
        let at = self.all.binary_search_by_key(&number, |sequence| sequence.number).ok()?;
        Some(self.all[at].file)
    }

    /// Returns the index of a path.
    pub(crate) fn intern(&mut self, path: Untrusted) -> Option<u32> {
        if let Some(&known) = self.index.get(&path) {
            return Some(known);
        }
        let next = self.paths.len();
        (next < MAX_FILES).then(|| {
            self.paths.push(path.clone());
            self.index.insert(path, next as u32);
            next as u32
        })
    }
}

/// Reads the path of a path object: `[path, realpath]`, or one String for both (iseq.c, `iseqw_s_compile`:
/// `rb_iseq_pathobj_new`).
fn path(texts: &Texts<'_>, object: u64) -> Option<Vec<u8>> {
    match texts.space.object(object)?.code() {
        STRING => texts.string_to(object, MAX_PATH_BYTES),
        ARRAY => {
            let text = |index| texts.string_to(texts.element(object, index)?, MAX_PATH_BYTES);
            // Code evaluated without a file has no real path.
            text(1).or_else(|| text(0))
        }
        _ => None,
    }
}
