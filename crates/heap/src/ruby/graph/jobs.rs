//! A queue of structures in malloc memory to read.
//!
//! They are read in order of address, a block of memory at a time, so that each block is read once a round.
//! The structures to which a structure leads are read in the next round. The kinds form no cycle, and all
//! bytes come out of one budget, so the rounds end whatever the memory contains.

use unbloat_process::{Memory, Residency, Result};

/// Bytes per read.
const BLOCK_BYTES: u64 = 256 << 10;
/// Maximum bytes of a job; longer ones are cut into pieces.
const PIECE_BYTES: u64 = 64 << 10;

/// The kind of the data at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Words that may be references.
    Words,
    /// `struct st_table`, whose keys and values count.
    Table { keys: bool, values: bool },
    /// Its entries.
    Entries { keys: bool, values: bool },
    /// Pairs of a small hash.
    Pairs,
    /// `struct rb_id_table` with values of this kind.
    IdTable(Value),
    /// Its items.
    Items(Value),
    /// `rb_const_entry_t`.
    Constant,
    /// `struct rb_class_cc_entries`.
    CallCaches,
    /// `struct rb_cvar_class_tbl_entry`.
    ClassVariable,
    /// `struct rb_classext_struct` up to 3.1 of a class or module, of an included module.
    Extension { iclass: bool, origin: bool },
    /// `rb_method_definition_t`.
    Definition,
    /// An environment's values, then its parent environment.
    Environment,
    /// `rb_block_t` of a Proc, and of a Binding.
    Block,
    /// `rb_iseq_constant_body`.
    Body,
    /// `struct iseq_catch_table`.
    Catch,
    /// `struct rb_iseq_param_keyword`.
    Keyword,
    /// `is_entries` up to 3.1.
    InlineEntries,
    /// `struct rb_call_data`.
    Calls,
    /// A word at an address that is a reference.
    Word,
    /// `{ u32 n; VALUE[n] }`.
    GenericVariables,
}

/// The kind of the values of an ID table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Reference,
    Constant,
    CallCaches,
    ClassVariable,
}

/// A structure to read on behalf of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) address: u64,
    pub(super) bytes: u32,
    pub(super) from: u32,
    pub(super) kind: Kind,
}

/// The waiting jobs.
#[derive(Debug)]
pub(super) struct Jobs {
    waiting: Vec<Job>,
    /// Bytes that may still be requested.
    budget: u64,
    /// Number of structures that could not be read or exceeded the budget.
    pub(super) unread: u64,
    /// Number of structures that were read.
    pub(super) read: u64,
}

impl Jobs {
    pub(super) fn new(budget: u64) -> Self {
        Jobs { waiting: Vec::new(), budget, unread: 0, read: 0 }
    }

    /// Requests `bytes` at an address. Pieces are cut at multiples of `unit`.
    pub(super) fn ask(&mut self, kind: Kind, (address, bytes): (u64, u64), unit: u64, from: u32) {
        if address == 0 || bytes == 0 || !address.is_multiple_of(8) {
            return;
        }
        if bytes > self.budget || address.checked_add(bytes).is_none() {
            self.unread += 1;
            return;
        }
        self.budget -= bytes;
        let piece = PIECE_BYTES / unit.max(1) * unit.max(1);
        let mut at = 0;
        while at < bytes {
            let len = (bytes - at).min(piece.max(unit));
            self.waiting.push(Job { address: address + at, bytes: len as u32, from, kind });
            at += len;
        }
    }

    /// Returns the jobs of one round, in order of address; none if all are done.
    pub(super) fn round(&mut self) -> Vec<Job> {
        let mut jobs = std::mem::take(&mut self.waiting);
        jobs.sort_unstable_by_key(|job| job.address);
        jobs
    }
}

/// Reads block by block.
pub(crate) struct Blocks<'a> {
    memory: &'a dyn Memory,
    start: u64,
    residency: Option<Residency>,
    block: Vec<u8>,
    apart: Vec<u8>,
}

impl<'a> Blocks<'a> {
    pub(crate) fn new(memory: &'a dyn Memory) -> Self {
        Blocks { memory, start: 0, residency: None, block: vec![0; BLOCK_BYTES as usize], apart: Vec::new() }
    }

    /// Returns the bytes of a range, or `None` if they are not all resident.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(crate) fn bytes(&mut self, address: u64, len: u32) -> Result<Option<&[u8]>> {
        let start = address / BLOCK_BYTES * BLOCK_BYTES;
        let Some(end) = address.checked_add(u64::from(len)).filter(|_| start < u64::MAX - BLOCK_BYTES) else {
            return Ok(None);
        };
        if end > start + BLOCK_BYTES {
            self.apart.resize(len as usize, 0);
            let read = self.memory.read(address, &mut self.apart);
            return Ok(read.is_ok().then_some(&self.apart[..]));
        }
        if self.residency.is_none() || self.start != start {
            let residency = self.memory.residency(start, BLOCK_BYTES)?;
            self.memory.read_resident(&residency, &mut self.block)?;
            (self.start, self.residency) = (start, Some(residency));
        }
        let whole = self.residency.as_ref().is_some_and(|residency| {
            // Pieces end on adjacent pages at most every few KiB, so checking every 512 bytes misses none.
            (address..end).step_by(512).chain([end - 1]).all(|at| residency.is_resident(at))
        });
        let from = (address - start) as usize;
        Ok(self.block.get(from..from + len as usize).filter(|_| whole))
    }
}
