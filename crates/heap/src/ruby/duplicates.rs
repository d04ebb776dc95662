//! Strings with equal contents.
//!
//! The contents are hashed while they are read, in order of address, and forgotten: what is kept is a hash and a slot
//! number for each string. The hash has a secret key, so that a program cannot make up strings that collide. If there are too many
//! strings, one in two contents is dropped, then one in four …, and the sums are scaled.

use super::graph::holder::Holders;
use super::graph::jobs::Blocks;
use super::names::text::{Bytes, STRING, place};
use super::of_class::{encoding, memory_of, start_of_text};
use super::slots::Slot;
use crate::closer::Scene;
use crate::model::{DuplicateText, Duplicates, Encoding, Held};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use unbloat_process::Result;

/// Maximum number of strings to keep: 512 MiB, less than half of their slots.
const MAX_STRINGS: usize = 32 << 20;
/// One content in two to the power of this is kept at the least.
const MAX_SAMPLING: u32 = 32;
/// Maximum bytes of a string to read; longer ones count as unread.
const MAX_TEXT_BYTES: u64 = 64 << 20;
/// Maximum bytes of all strings, beyond four times the memory allocated by malloc: strings may share memory.
const BUDGET_BYTES: u64 = 256 << 20;
/// Bytes per piece of a text.
const PIECE_BYTES: u64 = 64 << 10;
/// Maximum number of texts in a report.
const LARGEST: usize = 20;

/// A string, by the hash of its contents and encoding and by the number of its slot.
type Text = (u64, u32);

/// Finds them. `malloc` returns the malloc bytes that the object in a slot owns; `holders` are the holders of
/// objects, if they shall be told; with `contents`, the starts of texts are.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(crate) fn find(
    scene: &Scene<'_>,
    malloc: impl Fn(u32) -> Option<u64>,
    mut holders: Option<&mut Holders<'_>>,
    contents: bool,
) -> Result<Duplicates> {
    let mut texts = Texts::read(scene)?;
    texts.all.sort_unstable();
    let memory = |number: u32| {
        let slot = scene.space().slot(number);
        slot.map_or(Held::default(), |slot| memory_of(&slot, malloc(number)))
    };
    let mut found = Duplicates { unread: texts.unread, one_in: 1 << texts.sampling, ..Duplicates::default() };
    let mut by_holder: HashMap<u32, Held> = HashMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for strings in texts.all.chunk_by(|a, b| a.0 == b.0) {
        let group = Group::of(strings, &memory);
        found.compared += group.all;
        if strings.len() < 2 {
            continue;
        }
        found.contents += 1;
        found.copies += group.copies;
        if let Some(holders) = &mut holders {
            for number in group.copies() {
                *by_holder.entry(holders.of(number)).or_default() += memory(number);
            }
        }
        groups.push(group);
    }
    groups.sort_unstable_by_key(|group| (Reverse(group.copies.bytes()), group.kept));
    for group in groups.iter().take(LARGEST) {
        found.largest.extend(group.describe(scene, &memory, holders.as_deref_mut(), contents));
    }
    let scale = |held: &mut Held| {
        *held = Held {
            objects: held.objects << texts.sampling,
            slot_bytes: held.slot_bytes << texts.sampling,
            malloc_bytes: held.malloc_bytes.map(|bytes| bytes << texts.sampling),
        }
    };
    found.contents <<= texts.sampling;
    scale(&mut found.compared);
    scale(&mut found.copies);
    by_holder.values_mut().for_each(scale);
    found.holders = holders.map(|holders| holders.largest(by_holder));
    Ok(found)
}

/// Returns the text within a slot; `None` if the length is wrong.
fn inside<'a>(slot: &Slot<'a>, at: usize, length: u64) -> Option<&'a [u8]> {
    slot.bytes.get(at..at.checked_add(usize::try_from(length).ok()?)?)
}

/// Strings with equal contents.
struct Group<'a> {
    strings: &'a [Text],
    all: Held,
    /// The string with most memory, which is no copy.
    kept: u32,
    copies: Held,
}

impl<'a> Group<'a> {
    fn of(strings: &'a [Text], memory: &impl Fn(u32) -> Held) -> Self {
        let (mut all, mut copies) = (Held::default(), Held::default());
        let mut kept = (0, u32::MAX);
        for &(_, number) in strings {
            let held = memory(number);
            all += held;
            if kept.1 == u32::MAX || held.bytes() > kept.0 {
                kept = (held.bytes(), number);
            }
        }
        let copied = strings.iter().filter(|(_, number)| *number != kept.1);
        copied.for_each(|&(_, number)| copies += memory(number));
        Group { strings, all, kept: kept.1, copies }
    }

    fn copies(&self) -> impl Iterator<Item = u32> {
        self.strings.iter().map(|&(_, number)| number).filter(|&number| number != self.kept)
    }

    fn describe(
        &self,
        scene: &Scene<'_>,
        memory: &impl Fn(u32) -> Held,
        holders: Option<&mut Holders<'_>>,
        contents: bool,
    ) -> Option<DuplicateText> {
        let slot = scene.space().slot(self.kept)?;
        let mut by_holder: HashMap<u32, Held> = HashMap::new();
        let holders = holders.map(|holders| {
            for &(_, number) in self.strings {
                *by_holder.entry(holders.of(number)).or_default() += memory(number);
            }
            holders.largest(std::mem::take(&mut by_holder))
        });
        Some(DuplicateText {
            length: place(&slot, &scene.facts.names).1,
            encoding: encoding(&slot),
            copies: self.copies,
            contents: Some(slot.address).filter(|_| contents).and_then(|at| start_of_text(scene, at)),
            holders: holders.unwrap_or_default(),
        })
    }
}

/// The texts of all strings.
struct Texts {
    key: RandomState,
    all: Vec<Text>,
    unread: u64,
    /// One in `1 << sampling` contents is kept.
    sampling: u32,
}

impl Texts {
    fn read(scene: &Scene<'_>) -> Result<Self> {
        let mut texts = Texts { key: RandomState::new(), all: Vec::new(), unread: 0, sampling: 0 };
        let mut apart: Vec<(u64, u64, u32)> = Vec::new();
        let live: u64 = scene.chunks.map_or(0, super::chunks::Chunks::total);
        let mut budget = live.saturating_mul(4).saturating_add(BUDGET_BYTES);
        for (number, slot) in scene.space().objects().filter(|(_, slot)| slot.code() == STRING) {
            let (at, length) = place(&slot, &scene.facts.names);
            match at {
                Bytes::InSlot(at) => match inside(&slot, at, length) {
                    Some(bytes) => {
                        let mut hasher = texts.hasher(encoding(&slot));
                        hasher.write(bytes);
                        texts.keep(hasher.finish(), number);
                    }
                    None => texts.unread += 1,
                },
                Bytes::At(_) if length > MAX_TEXT_BYTES || length > budget => texts.unread += 1,
                Bytes::At(address) => {
                    budget -= length;
                    apart.push((address, length, number));
                }
            }
        }
        apart.sort_unstable();
        let mut blocks = Blocks::new(scene.memory);
        for (address, length, number) in apart {
            let Some(slot) = scene.space().slot(number) else { continue };
            texts.read_apart(scene, &mut blocks, (address, length), (number, encoding(&slot)))?;
        }
        Ok(texts)
    }

    /// Reads a text outside of its slot, from memory or from a mapped file.
    fn read_apart(
        &mut self,
        scene: &Scene<'_>,
        blocks: &mut Blocks<'_>,
        (address, length): (u64, u64),
        (number, encoding): (u32, Encoding),
    ) -> Result<()> {
        let mut hasher = self.hasher(encoding);
        let mut at = 0;
        while at < length {
            let bytes = (length - at).min(PIECE_BYTES);
            let Some(from) = address.checked_add(at) else { break };
            if let Some(piece) = blocks.bytes(from, bytes as u32)? {
                hasher.write(piece);
            } else if let Some(piece) = scene.texts().bytes(from, bytes as usize) {
                hasher.write(&piece);
            } else {
                break;
            }
            at += bytes;
        }
        if at < length {
            self.unread += 1;
        } else {
            self.keep(hasher.finish(), number);
        }
        Ok(())
    }

    fn hasher(&self, Encoding(encoding): Encoding) -> std::hash::DefaultHasher {
        let mut hasher = self.key.build_hasher();
        hasher.write_u8(encoding);
        hasher
    }

    fn keep(&mut self, hash: u64, number: u32) {
        if !self.is_sampled(hash) {
            return;
        }
        self.all.push((hash, number));
        if self.all.len() > MAX_STRINGS && self.sampling < MAX_SAMPLING {
            self.sampling += 1;
            let sampling = self.sampling;
            self.all.retain(|&(hash, _)| hash.trailing_zeros() >= sampling);
        }
    }

    fn is_sampled(&self, hash: u64) -> bool {
        self.sampling == 0 || hash.trailing_zeros() >= self.sampling
    }
}
