//! Takes the readings whose cost is proportional to a process's size, on a separate thread: PSS, USS and
//! swap, the census, and looks at Rubies.
//!
//! One reading at a time is requested, when the budget allows it. Its cost is returned with the result.

use crate::budget::Work;
use crate::census;
use crate::cpu;
use crate::ops::Op;
use crate::rubies;
use crate::sampler::Sampler;
use crate::steps::Steps;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use unbloat_process::Pid;
use unbloat_process::watch::ProcFs;
use unbloat_recording::{Label, ProcessId};
use unbloat_store::clock::monotonic_ns;

/// A reading of all these processes.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) work: Work,
    pub(crate) processes: Vec<(ProcessId, Pid)>,
    /// The classes whose holders are to be found.
    pub(crate) classes: Vec<Label>,
    /// Watched files may stay open.
    pub(crate) keep_open: bool,
}

/// The result.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) work: Work,
    pub(crate) time_ns: i64,
    pub(crate) ops: Vec<Op>,
    /// Its CPU time.
    pub(crate) cpu_s: f64,
    /// Total time for which the processes' mmap locks may have been held.
    pub(crate) held_s: f64,
    /// PSS by process; empty for a census.
    pub(crate) pss: BTreeMap<ProcessId, u64>,
    /// Bytes by category over the tree; empty for PSS.
    pub(crate) census: BTreeMap<String, u64>,
    /// Number of processes inspected.
    pub(crate) inspected: usize,
    /// The Rubies among the processes that a census inspected.
    pub(crate) rubies: Vec<ProcessId>,
}

impl Reading {
    fn new(work: Work, time_ns: i64) -> Self {
        Reading {
            work,
            time_ns,
            ops: Vec::new(),
            cpu_s: 0.0,
            held_s: 0.0,
            pss: BTreeMap::new(),
            census: BTreeMap::new(),
            inspected: 0,
            rubies: Vec::new(),
        }
    }
}

/// The thread.
#[derive(Debug)]
pub(crate) struct ReadingThread {
    requests: Option<Sender<Request>>,
    results: Receiver<Reading>,
    thread: Option<JoinHandle<()>>,
    busy: bool,
}

impl ReadingThread {
    pub(crate) fn start(proc: ProcFs, started_ns: i64) -> std::io::Result<Self> {
        let (requests, incoming) = channel::<Request>();
        let (sender, results) = channel();
        let thread = std::thread::Builder::new().name("reading".into()).spawn(move || {
            let mut reader = Reader { sampler: Sampler::new(proc), steps: Steps::default(), started_ns };
            while let Ok(request) = incoming.recv() {
                if sender.send(reader.read(&request)).is_err() {
                    return;
                }
            }
        })?;
        Ok(ReadingThread { requests: Some(requests), results, thread: Some(thread), busy: false })
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    pub(crate) fn begin(&mut self, request: Request) {
        self.busy = self.requests.as_ref().is_some_and(|requests| requests.send(request).is_ok());
    }

    /// Returns the reading in progress once it is done.
    pub(crate) fn result(&mut self) -> Option<Reading> {
        match self.results.try_recv() {
            Ok(reading) => {
                self.busy = false;
                Some(reading)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    /// Waits for the reading in progress, but not to the end of a census of a huge process. No more can be
    /// requested.
    pub(crate) fn end(&mut self, patience: Duration) -> Option<Reading> {
        self.requests = None;
        let last = if self.busy { self.results.recv_timeout(patience).ok() } else { None };
        if let Some(thread) = self.thread.take().filter(|_| last.is_some() || !self.busy) {
            let _ = thread.join();
        }
        last
    }
}

#[derive(Debug)]
struct Reader {
    sampler: Sampler,
    steps: Steps,
    started_ns: i64,
}

impl Reader {
    fn read(&mut self, request: &Request) -> Reading {
        let (begun_ns, cpu_s) = (monotonic_ns(), cpu::of_thread());
        let mut reading = Reading::new(request.work, begun_ns - self.started_ns);
        match request.work {
            Work::Pss => self.pss(request, &mut reading),
            Work::Census => census::take(request, &mut self.steps, self.started_ns, &mut reading),
            Work::Classes => rubies::take(request, &mut reading),
            Work::Holders => rubies::holders(request, &mut reading),
        }
        reading.cpu_s = cpu::of_thread() - cpu_s;
        reading
    }

    fn pss(&mut self, request: &Request, reading: &mut Reading) {
        let sweep = self.sampler.sweep(&request.processes, reading.time_ns, request.keep_open);
        reading.pss = sweep.pss();
        reading.held_s = sweep.held_s;
        reading.ops.extend(sweep.notes.into_iter().map(|(id, note)| Op::Note(id, note)));
        reading.ops.push(Op::Samples(sweep.samples));
    }
}
