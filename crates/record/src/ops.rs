//! What goes from the sampler to the file, and the thread that writes it.
//!
//! Writing has a thread of its own, so that a slow disk delays no sample. Everything that has gathered is one
//! transaction; the sampler hands over four times a second, so that a recorder that is killed loses less than the
//! last second.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use unbloat_recording::{
    CategoryBytes, CgroupMemory, Cost, Counter, NewProcess, ProcessEnd, ProcessId, Sample,
};
use unbloat_store::{Batch, Result, Writer};

/// One thing to be written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    Process(ProcessId, NewProcess),
    Command(ProcessId, String),
    Runtime(ProcessId, String),
    Note(ProcessId, String),
    Seen(ProcessId, i64, Option<u64>),
    Ended(ProcessId, ProcessEnd),
    Samples(Vec<Sample>),
    Census(Vec<CategoryBytes>),
    Counters(Vec<Counter>),
    Cgroup(CgroupMemory),
    Clock(i64, i64),
    Cost(Cost),
    Provenance(String, String),
}

impl Op {
    fn write(&self, batch: &Batch<'_>) -> Result<()> {
        match self {
            Op::Process(id, process) => batch.process_as(*id, process),
            Op::Command(id, command) => batch.process_command(*id, command),
            Op::Runtime(id, runtime) => batch.process_runtime(*id, runtime),
            Op::Note(id, note) => batch.process_note(*id, note),
            Op::Seen(id, time_ns, peak) => batch.process_seen(*id, *time_ns, *peak),
            Op::Ended(id, end) => batch.process_ended(*id, end),
            Op::Samples(samples) => samples.iter().try_for_each(|sample| batch.sample(sample)),
            Op::Census(rows) => rows.iter().try_for_each(|row| batch.census(row)),
            Op::Counters(rows) => rows.iter().try_for_each(|row| batch.counter(row)),
            Op::Cgroup(row) => batch.cgroup(row),
            Op::Clock(time_ns, wall_ns) => batch.clock(*time_ns, *wall_ns),
            Op::Cost(cost) => batch.cost(cost),
            Op::Provenance(name, value) => batch.provenance(None, name, value),
        }
    }
}

/// The end that takes what is to be written.
#[derive(Debug)]
pub(crate) struct Out {
    queue: Option<SyncSender<Vec<Op>>>,
    thread: Option<JoinHandle<(Writer, Result<()>)>>,
}

/// Hand-overs that may wait for a slow disk before the sampler waits too (and counts what it misses).
const QUEUE: usize = 64;

impl Out {
    /// Starts the thread.
    pub(crate) fn start(mut writer: Writer, max_bytes: u64) -> std::io::Result<Self> {
        let (queue, ops) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("writer".into()).spawn(move || {
            let written = write(&mut writer, &ops, max_bytes);
            (writer, written)
        })?;
        Ok(Out { queue: Some(queue), thread: Some(thread) })
    }

    /// Hands over. `false`: the writer has failed; [`Out::end`] says why.
    pub(crate) fn send(&self, ops: Vec<Op>) -> bool {
        ops.is_empty() || self.queue.as_ref().is_some_and(|queue| queue.send(ops).is_ok())
    }

    /// Waits until everything is written; gives the file back.
    pub(crate) fn end(mut self) -> Option<(Writer, Result<()>)> {
        drop(self.queue.take());
        self.thread.take()?.join().ok()
    }
}

fn write(writer: &mut Writer, ops: &Receiver<Vec<Op>>, max_bytes: u64) -> Result<()> {
    while let Ok(first) = ops.recv() {
        let mut gathered = vec![first];
        gathered.extend(ops.try_iter());
        writer.batch(|batch| gathered.iter().flatten().try_for_each(|op| op.write(batch)))?;
        writer.keep_below(max_bytes)?;
    }
    Ok(())
}
