//! The references of the structures in malloc memory that objects lead to.

use super::build::Builder;
use super::facts::Shape;
use super::jobs::{Job, Kind, Value};
use crate::ruby::names::user;
use crate::ruby::words::{half_word, word};

/// `METHOD_ENTRY_INVALIDATED`: IMEMO_FL_USER5 (method.h).
const INVALIDATED: u64 = user(9);
/// `VM_ENV_FLAG_LOCAL` (vm_core.h): there is no environment above.
const LOCAL: u64 = 2;

impl Builder<'_> {
    /// Collects the references of a structure.
    pub(super) fn read(&mut self, job: &Job, bytes: &[u8]) {
        let from = job.from;
        let at = |at| word(bytes, at).unwrap_or(0);
        let half = |at| u64::from(half_word(bytes, at).unwrap_or(0));
        match job.kind {
            Kind::Words | Kind::Word => self.all(from, bytes),
            Kind::Table { keys, values } => self.entries(from, bytes, keys, values),
            Kind::Entries { keys, values } => {
                for entry in bytes.chunks_exact(24).filter(|entry| word(entry, 0) != Some(u64::MAX)) {
                    let [key, value] = [8, 16].map(|at| word(entry, at).unwrap_or(0));
                    [(keys, key), (values, value)]
                        .iter()
                        .filter(|(counts, _)| *counts)
                        .for_each(|&(_, value)| self.refer(from, value));
                }
            }
            Kind::Pairs => self.pairs(from, bytes),
            Kind::IdTable(values) => {
                let items = at(16);
                let count = half(0).min(self.usable(items, 16 << 16) / 16);
                self.jobs.ask(Kind::Items(values), (items, 16 * count), 16, from);
            }
            Kind::Items(values) => {
                for item in
                    bytes.chunks_exact(16).filter(|item| half_word(item, 0).is_some_and(|key| key != 0))
                {
                    let value = word(item, 8).unwrap_or(0);
                    match values {
                        Value::Reference => self.refer(from, value),
                        Value::Constant => self.ask(Kind::Constant, value, 24, from),
                        Value::CallCaches => self.ask(Kind::CallCaches, value, 24, from),
                        Value::ClassVariable => self.ask(Kind::ClassVariable, value, 32, from),
                    }
                }
            }
            Kind::Constant => self.all(from, bytes.get(8..24).unwrap_or_default()),
            Kind::CallCaches => {
                // capa, len, cme, entries of { ci, cc }
                self.refer(from, at(8));
                let count = (half(4)).min(self.usable(at(16), 0) / 16);
                self.jobs.ask(Kind::Words, (at(16), 16 * count), 8, from);
            }
            Kind::ClassVariable => {
                if self.facts.shape == Shape::Shapes {
                    self.refer(from, at(16));
                }
            }
            Kind::Extension { iclass, origin } => self.extension(from, bytes, iclass, origin),
            Kind::Definition => match at(0) & 15 {
                // iseq, refined: iseqptr and cref, orig_me and owner
                0 | 11 => self.all(from, bytes.get(8..24).unwrap_or_default()),
                2 | 3 => self.refer(from, at(16)),
                4 | 6 => self.refer(from, at(8)),
                _ => {}
            },
            Kind::Environment => {
                // specval at ep[-1], flags at ep[0]; the environment itself follows the flags
                if at(8) & LOCAL == 0 {
                    self.ask(Kind::Word, (at(0) & !3).wrapping_add(8), 8, from);
                }
            }
            Kind::Block => {
                self.refer(from, at(0));
                if half(24) < 2 {
                    self.refer(from, at(16));
                    self.ask(Kind::Word, at(8).wrapping_add(8), 8, from);
                }
                // Binding: pathobj
                self.all(from, bytes.get(32..).unwrap_or_default());
            }
            Kind::Body => self.body(from, bytes),
            Kind::Catch => {
                // Packed: a count, then entries of 32 bytes, with a sequence four bytes after the start of
                // each.
                for entry in bytes.get(4..).unwrap_or_default().chunks_exact(32) {
                    self.refer(from, word(entry, 8).unwrap_or(0));
                }
            }
            Kind::Keyword => {
                let count = half(0).saturating_sub(half(4));
                self.values(from, at(24), count);
            }
            Kind::InlineEntries => {
                for entry in bytes.chunks_exact(16) {
                    self.all(from, entry);
                    let pointer = word(entry, 0).unwrap_or(0);
                    if self.space.find(pointer).is_none() && self.usable(pointer, 0) >= 24 {
                        self.ask(Kind::Word, pointer.wrapping_add(16), 8, from);
                    }
                }
            }
            Kind::Calls => {
                for call in bytes.chunks_exact(16) {
                    self.refer(from, word(call, 0).unwrap_or(0));
                    self.call_cache(from, word(call, 8).unwrap_or(0));
                }
            }
            Kind::GenericVariables => {
                let end = (8 + 8 * half(0) as usize).min(bytes.len());
                self.all(from, bytes.get(8..end).unwrap_or_default());
            }
        }
    }

    /// A call cache is marked only while its class and its method are valid.
    fn call_cache(&mut self, from: u32, cache: u64) {
        let Some(slot) = self.space.object(cache) else { return };
        let method = self.space.object(slot.word(16));
        let valid = slot.class() != 0
            && slot.flags & self.facts.unmarkable == 0
            && method.is_none_or(|method| method.flags & INVALIDATED == 0);
        if valid {
            self.refer(from, cache);
        }
    }

    /// iv_index_tbl, iv_tbl, m_tbl, const_tbl, callable_m_tbl, cc_tbl, cvc_tbl.
    fn extension(&mut self, from: u32, bytes: &[u8], iclass: bool, origin: bool) {
        let at = |i: usize| word(bytes, 8 * i).unwrap_or(0);
        if !iclass {
            self.table(from, at(1), false, true);
            self.id_table(from, at(3), Value::Constant);
        }
        if !iclass || origin {
            self.id_table(from, at(2), Value::Reference);
        }
        if iclass {
            self.id_table(from, at(4), Value::Reference);
        }
        self.id_table(from, at(5), Value::CallCaches);
    }

    fn body(&mut self, from: u32, bytes: &[u8]) {
        let facts = &self.facts.body;
        let at = |at| word(bytes, at).unwrap_or(0);
        let half = |at| u64::from(half_word(bytes, at).unwrap_or(0));
        // A word of the instructions that is an object's address is an operand.
        self.values(from, at(8), half(4));
        if at(16) & 8 != 0 {
            self.ask(Kind::Keyword, at(56), 32, from);
        }
        self.all(from, bytes.get(64..88).unwrap_or_default());
        facts.references.iter().for_each(|&place| self.refer(from, at(place)));
        let catch = at(facts.catch_table);
        let bytes_of_catch = self.usable(catch, 0);
        if catch != 0 && bytes_of_catch >= 4 {
            self.jobs.ask(Kind::Catch, (catch, bytes_of_catch.min(60 << 10)), bytes_of_catch, from);
        }
        let entries: u64 = facts.entry_counts.iter().map(|&count| half(count)).sum();
        let usable = self.usable(at(facts.entries), 0);
        match self.facts.shape {
            Shape::Tables => {
                let bytes = (16 * entries).min(usable);
                self.jobs.ask(Kind::InlineEntries, (at(facts.entries), bytes), 16, from);
            }
            Shape::Shapes => self.values(from, at(facts.entries), 2 * entries),
        }
        if let Some((calls, count)) = facts.calls {
            let bytes = (16 * half(count)).min(self.usable(at(calls), 0));
            self.jobs.ask(Kind::Calls, (at(calls), bytes), 16, from);
        }
    }
}
