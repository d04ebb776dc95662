//! The operations that the sampler has written to the file.

use unbloat_recording::{
    CategoryBytes, CgroupMemory, ClassBytes, ClassHolder, CodeBytes, Cost, Counter, NewProcess, ProcessEnd,
    ProcessId, Sample,
};
use unbloat_store::{Batch, Result};
use unbloat_untrusted::Untrusted;

/// An operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    Process(ProcessId, NewProcess),
    Command(ProcessId, Untrusted),
    Runtime(ProcessId, String),
    Note(ProcessId, String),
    Seen(ProcessId, i64, Option<u64>),
    Ended(ProcessId, ProcessEnd),
    Samples(Vec<Sample>),
    Census(Vec<CategoryBytes>),
    Counters(Vec<Counter>),
    Classes(Vec<ClassBytes>),
    Code(Vec<CodeBytes>),
    Holders(Vec<ClassHolder>),
    Cgroup(CgroupMemory),
    Clock(i64, i64),
    Cost(Cost),
    Mark(i64, String),
    Provenance(String, String),
}

/// The importance of an operation while it waits for a locked file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Readings: dropping some only makes the recording coarser.
    Dispensable(usize),
    /// Other rows refer to it.
    Needed,
}

impl Op {
    /// Returns the number of rows it writes, and whether a recording makes sense without them.
    pub(crate) fn rows(&self) -> Rows {
        match self {
            Op::Samples(samples) => Rows::Dispensable(samples.len()),
            Op::Census(rows) => Rows::Dispensable(rows.len()),
            Op::Counters(rows) => Rows::Dispensable(rows.len()),
            Op::Classes(rows) => Rows::Dispensable(rows.len()),
            Op::Code(rows) => Rows::Dispensable(rows.len()),
            Op::Holders(rows) => Rows::Dispensable(rows.len()),
            Op::Cgroup(_) | Op::Cost(_) | Op::Seen(..) => Rows::Dispensable(1),
            Op::Process(..)
            | Op::Command(..)
            | Op::Runtime(..)
            | Op::Note(..)
            | Op::Ended(..)
            | Op::Clock(..)
            | Op::Mark(..)
            | Op::Provenance(..) => Rows::Needed,
        }
    }

    pub(crate) fn write(&self, batch: &Batch<'_>) -> Result<()> {
        match self {
            Op::Process(id, process) => batch.process_as(*id, process),
            Op::Command(id, command) => batch.process_command(*id, command.raw()),
            Op::Runtime(id, runtime) => batch.process_runtime(*id, runtime),
            Op::Note(id, note) => batch.process_note(*id, note),
            Op::Seen(id, time_ns, peak) => batch.process_seen(*id, *time_ns, *peak),
            Op::Ended(id, end) => batch.process_ended(*id, end),
            Op::Samples(samples) => samples.iter().try_for_each(|sample| batch.sample(sample)),
            Op::Census(rows) => rows.iter().try_for_each(|row| batch.census(row)),
            Op::Counters(rows) => rows.iter().try_for_each(|row| batch.counter(row)),
            Op::Classes(rows) => rows.iter().try_for_each(|row| batch.class_bytes(row)),
            Op::Code(rows) => rows.iter().try_for_each(|row| batch.code_bytes(row)),
            Op::Holders(rows) => rows.iter().try_for_each(|row| batch.holder(row)),
            Op::Cgroup(row) => batch.cgroup(row),
            Op::Clock(time_ns, wall_ns) => batch.clock(*time_ns, *wall_ns),
            Op::Cost(cost) => batch.cost(cost),
            Op::Mark(time_ns, name) => batch.mark(*time_ns, name, None),
            Op::Provenance(name, value) => batch.provenance(None, name, value),
        }
    }
}
