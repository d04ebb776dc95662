//! Collecting, slot by slot, the malloc memory that Ruby objects own.
//!
//! Most of it hangs directly on a slot. Where it hangs on a structure in malloc memory (a hash's table, a class's method
//! table, the body of an instruction sequence), that structure is read, many at a time, and followed by the rules of
//! [`super::owner_rules`], which go a fixed number of steps.

use super::RubyVersion;
use super::owned::Owned;
use super::owner_rules::{Fields, Follow, Rule, Struct};
use super::slots::Slot;
use super::words::{half_word, word};
use std::ops::Range;
use unbloat_process::{Error, Maps, Memory, Result};

/// Structures that are read with one call.
const BATCH: usize = 1024;
/// Structures that wait to be read at most.
const MAX_WAITING: usize = 64 * BATCH;
/// Items of a table that are followed at most; the largest method tables have some thousands.
const MAX_ITEMS: usize = 1 << 16;
/// Bytes of `item_t` (id_table.c): a key of four bytes, padding, and the value.
const ITEM_BYTES: usize = 16;

/// Collects pointers of objects of one version.
pub(super) struct Owners<'a> {
    memory: &'a dyn Memory,
    /// Where malloc memory can be.
    addresses: Range<u64>,
    /// Rules by type code.
    rules: [Vec<Rule>; 32],
    /// Structures that are still to be read, with the types that own them.
    waiting: Vec<(&'static Struct, Vec<(u64, u8)>)>,
    /// How many these are.
    jobs: usize,
    owned: Owned,
    /// Why the process could not be read any more, until [`Owners::finish`] says so.
    failure: Option<Error>,
}

impl<'a> Owners<'a> {
    /// Ready to collect; `None` for a version whose layouts are not known. Read through a view that touches resident
    /// pages only.
    pub(super) fn of(version: RubyVersion, memory: &'a dyn Memory, maps: &Maps) -> Option<Self> {
        let mut rules: [Vec<Rule>; 32] = Default::default();
        for rule in (version.facts()?.owner_rules)() {
            rules[usize::from(rule.code & 0x1f)].push(rule);
        }
        let private = || maps.iter().filter(|m| m.is_private_anonymous());
        let addresses = private().next()?.start..private().next_back()?.end;
        Some(Owners {
            memory,
            addresses,
            rules,
            waiting: Vec::new(),
            jobs: 0,
            owned: Owned::default(),
            failure: None,
        })
    }

    /// Takes what a slot owns.
    pub(super) fn visit(&mut self, slot: Slot<'_>) {
        let code = (slot.flags & 0x1f) as u8;
        for i in 0..self.rules[usize::from(code)].len() {
            let Rule { mask, value, at, follow, .. } = self.rules[usize::from(code)][i];
            if slot.flags & mask != value {
                continue;
            }
            match follow {
                Some(follow) => {
                    if let Some(pointer) = word(slot.bytes, at) {
                        self.follow(pointer, code, follow);
                    }
                }
                None => self.each_word(slot.bytes.get(at..).unwrap_or_default(), code),
            }
        }
        if self.jobs >= MAX_WAITING {
            self.read_waiting();
        }
    }

    /// Reads what is still waiting.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(super) fn finish(mut self) -> Result<Owned> {
        self.read_waiting();
        self.failure.map_or(Ok(self.owned), Err)
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

    fn follow(&mut self, pointer: u64, code: u8, follow: Follow) {
        if !pointer.is_multiple_of(16) || !self.addresses.contains(&pointer) {
            return;
        }
        self.owned.insert(pointer, code);
        if let Follow::Into(what) = follow {
            self.jobs += 1;
            match self.waiting.iter_mut().find(|(waiting, _)| std::ptr::eq(*waiting, what)) {
                Some((_, jobs)) => jobs.push((pointer, code)),
                None => self.waiting.push((what, vec![(pointer, code)])),
            }
        }
    }

    fn each_word(&mut self, bytes: &[u8], code: u8) {
        for i in 0..bytes.len() / 8 {
            if let Some(pointer) = word(bytes, 8 * i) {
                self.follow(pointer, code, Follow::Leaf);
            }
        }
    }

    fn read(&mut self, what: &'static Struct, jobs: &[(u64, u8)]) -> Result<()> {
        let addresses: Vec<u64> = jobs.iter().map(|&(address, _)| address).collect();
        let mut bytes = vec![0; addresses.len() * what.bytes];
        let readable = self.memory.gather(&addresses, what.bytes, &mut bytes)?;
        let read = jobs.iter().zip(bytes.chunks_exact(what.bytes)).zip(readable);
        for ((&(_, code), bytes), _) in read.filter(|(_, readable)| *readable) {
            match &what.fields {
                Fields::Every => self.each_word(bytes, code),
                Fields::At(fields) => {
                    for &(at, follow) in *fields {
                        self.follow(word(bytes, at).unwrap_or(0), code, follow);
                    }
                }
                Fields::IdTable(follow) => self.table(bytes, code, *follow),
            }
        }
        Ok(())
    }

    /// `struct rb_id_table`: `capa` at 0, `items` at 16.
    fn table(&mut self, bytes: &[u8], code: u8, follow: Follow) {
        let (Some(capacity), Some(items)) = (half_word(bytes, 0), word(bytes, 16)) else { return };
        let capacity = capacity as usize;
        if items == 0 || capacity > MAX_ITEMS {
            return;
        }
        self.follow(items, code, Follow::Leaf);
        let mut bytes = vec![0; capacity * ITEM_BYTES];
        if self.memory.read(items, &mut bytes).is_ok() {
            for item in bytes.chunks_exact(ITEM_BYTES) {
                self.follow(word(item, 8).unwrap_or(0), code, follow);
            }
        }
    }
}
