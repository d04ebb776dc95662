//! Collects, slot by slot, the malloc memory that Ruby objects own.
//!
//! Most of it is referenced directly from a slot. Where it is referenced from a structure in malloc memory (a
//! hash's table, a class's method table, the body of an instruction sequence), that structure is read, many
//! at a time, and followed by the rules of [`super::owner_rules`], which take a fixed number of steps.

use super::RubyVersion;
use super::owner_rules::{Fields, Follow, Rule, Struct};
use super::slots::Slot;
use super::words::{half_word, word};
use std::ops::Range;
use unbloat_process::{Error, Maps, Memory, Result};

/// Structures read per call.
const BATCH: usize = 1024;
/// Maximum number of structures waiting to be read.
const MAX_WAITING: usize = 64 * BATCH;
/// Maximum number of table items followed; the largest method tables have a few thousand.
const MAX_ITEMS: usize = 1 << 16;
/// Size of an `item_t` (id_table.c): a key of four bytes, padding, and the value.
const ITEM_BYTES: usize = 16;

/// Whoever takes the pointers that are collected.
pub(super) trait Taker {
    /// Takes a pointer to what may be a chunk of malloc's, and its owner as [`Owners::visit`] was told.
    fn take(&mut self, pointer: u64, owner: u32);
}

/// Collects the pointers held by objects of one version.
pub(super) struct Owners<'a, T> {
    memory: &'a dyn Memory,
    /// Addresses where malloc memory can be.
    addresses: Range<u64>,
    /// Rules by type code.
    rules: [Vec<Rule>; 32],
    /// Structures still to be read, with their owners.
    waiting: Vec<(&'static Struct, Vec<(u64, u32)>)>,
    /// The number of these structures.
    jobs: usize,
    taker: T,
    /// The error that ended reading, kept for [`Owners::finish`].
    failure: Option<Error>,
}

impl<'a, T: Taker> Owners<'a, T> {
    /// Creates a collector; `None` for a version whose layouts are unknown. Use a view that touches resident
    /// pages only.
    pub(super) fn of(version: RubyVersion, memory: &'a dyn Memory, maps: &Maps, taker: T) -> Option<Self> {
        let mut rules: [Vec<Rule>; 32] = Default::default();
        for rule in (version.facts()?.owner_rules)() {
            rules[usize::from(rule.code & 0x1f)].push(rule);
        }
        let private = || maps.iter().filter(|m| m.is_private_anonymous());
        let addresses = private().next()?.start..private().next_back()?.end;
        Some(Owners { memory, addresses, rules, waiting: Vec::new(), jobs: 0, taker, failure: None })
    }

    /// Collects the pointers held by a slot for `owner`: a type, a class or the slot itself, as the caller counts.
    pub(super) fn visit(&mut self, slot: Slot<'_>, owner: u32) {
        let code = (slot.flags & 0x1f) as u8;
        for i in 0..self.rules[usize::from(code)].len() {
            let Rule { mask, value, at, follow, .. } = self.rules[usize::from(code)][i];
            if slot.flags & mask != value {
                continue;
            }
            match follow {
                Some(follow) => {
                    if let Some(pointer) = word(slot.bytes, at) {
                        self.follow(pointer, owner, follow);
                    }
                }
                None => self.each_word(slot.bytes.get(at..).unwrap_or_default(), owner),
            }
        }
        if self.jobs >= MAX_WAITING {
            self.read_waiting();
        }
    }

    /// Lends out whoever takes the pointers.
    pub(super) fn taker(&mut self) -> &mut T {
        &mut self.taker
    }

    /// Reads the structures that are still waiting.
    ///
    /// # Errors
    /// The process is gone or access to it is denied.
    pub(super) fn finish(mut self) -> Result<T> {
        self.read_waiting();
        self.failure.map_or(Ok(self.taker), Err)
    }

    fn read_waiting(&mut self) {
        while let Some((what, jobs)) = self.waiting.pop() {
            self.jobs -= jobs.len();
            for batch in jobs.chunks(BATCH) {
                if self.failure.is_none() {
                    self.failure = self.read(what, batch).err();
                }
            }
        }
    }

    fn follow(&mut self, pointer: u64, owner: u32, follow: Follow) {
        if !pointer.is_multiple_of(16) || !self.addresses.contains(&pointer) {
            return;
        }
        self.taker.take(pointer, owner);
        if let Follow::Into(what) = follow {
            self.jobs += 1;
            match self.waiting.iter_mut().find(|(waiting, _)| std::ptr::eq(*waiting, what)) {
                Some((_, jobs)) => jobs.push((pointer, owner)),
                None => self.waiting.push((what, vec![(pointer, owner)])),
            }
        }
    }

    fn each_word(&mut self, bytes: &[u8], owner: u32) {
        for i in 0..bytes.len() / 8 {
            if let Some(pointer) = word(bytes, 8 * i) {
                self.follow(pointer, owner, Follow::Leaf);
            }
        }
    }

    fn read(&mut self, what: &'static Struct, jobs: &[(u64, u32)]) -> Result<()> {
        let addresses: Vec<u64> = jobs.iter().map(|&(address, _)| address).collect();
        let mut bytes = vec![0; addresses.len() * what.bytes];
        let readable = self.memory.gather(&addresses, what.bytes, &mut bytes)?;
        let read = jobs.iter().zip(bytes.chunks_exact(what.bytes)).zip(readable);
        for ((&(_, owner), bytes), _) in read.filter(|(_, readable)| *readable) {
            match &what.fields {
                Fields::Every => self.each_word(bytes, owner),
                Fields::At(fields) => {
                    for &(at, follow) in *fields {
                        self.follow(word(bytes, at).unwrap_or(0), owner, follow);
                    }
                }
                Fields::IdTable(follow) => self.table(bytes, owner, *follow),
            }
        }
        Ok(())
    }

    /// Follows a `struct rb_id_table`: `capa` at 0, `items` at 16.
    fn table(&mut self, bytes: &[u8], owner: u32, follow: Follow) {
        let (Some(capacity), Some(items)) = (half_word(bytes, 0), word(bytes, 16)) else { return };
        let capacity = capacity as usize;
        if items == 0 || capacity > MAX_ITEMS {
            return;
        }
        self.follow(items, owner, Follow::Leaf);
        let mut bytes = vec![0; capacity * ITEM_BYTES];
        if self.memory.read(items, &mut bytes).is_ok() {
            for item in bytes.chunks_exact(ITEM_BYTES) {
                self.follow(word(item, 8).unwrap_or(0), owner, follow);
            }
        }
    }
}
