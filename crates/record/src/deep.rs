//! What costs time in proportion to a process's size, on a thread of its own: PSS, USS and swap, and the census.
//!
//! One piece of work at a time is asked for, when the budget allows it; what it did cost comes back with the result.

use crate::budget::Work;
use crate::census;
use crate::cpu;
use crate::ops::Op;
use crate::tree::sample;
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use unbloat_process::watch::{ProcFs, Watched, ticks_per_second};
use unbloat_process::{Error, Pid, Rollup};
use unbloat_recording::{ProcessId, Sample};
use unbloat_store::clock::monotonic_ns;

/// Work to be done on all of these processes.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) processes: Vec<(ProcessId, Pid)>,
    /// Whether watched files may stay open.
    pub(crate) keep_open: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) work: Work,
    pub(crate) time_ns: i64,
    pub(crate) ops: Vec<Op>,
    /// CPU that it took.
    pub(crate) cpu_s: f64,
    /// For how long the processes' mmap locks may have been held, in sum.
    pub(crate) held_s: f64,
    /// PSS by process; empty for a census.
    pub(crate) pss: BTreeMap<ProcessId, u64>,
    /// Bytes by category over the tree; empty for PSS.
    pub(crate) census: BTreeMap<String, u64>,
    /// Processes that were inspected.
    pub(crate) inspected: usize,
}

/// The thread.
#[derive(Debug)]
pub(crate) struct Deep {
    jobs: Option<Sender<Job>>,
    results: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
    busy: bool,
}

impl Deep {
    pub(crate) fn start(proc: ProcFs, started_ns: i64) -> std::io::Result<Self> {
        let (jobs, todo) = channel::<Job>();
        let (sender, results) = channel();
        let thread = std::thread::Builder::new().name("deep".into()).spawn(move || {
            let mut worker = Worker {
                proc,
                started_ns,
                ticks_per_second: ticks_per_second(),
                watched: HashMap::new(),
                buffer: Vec::with_capacity(4096),
            };
            while let Ok(job) = todo.recv() {
                if sender.send(worker.run(&job)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Deep { jobs: Some(jobs), results, thread: Some(thread), busy: false })
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    pub(crate) fn begin(&mut self, job: Job) {
        self.busy = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
    }

    /// The result of the work in hand, when it is done.
    pub(crate) fn done(&mut self) -> Option<Done> {
        match self.results.try_recv() {
            Ok(done) => {
                self.busy = false;
                Some(done)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    /// Waits for the work in hand; no more can be asked for. A census of a huge process is not waited for to its end.
    pub(crate) fn end(&mut self, patience: Duration) -> Option<Done> {
        self.jobs = None;
        let last = if self.busy { self.results.recv_timeout(patience).ok() } else { None };
        if let Some(thread) = self.thread.take().filter(|_| last.is_some() || !self.busy) {
            let _ = thread.join();
        }
        last
    }
}

#[derive(Debug)]
struct Worker {
    proc: ProcFs,
    started_ns: i64,
    ticks_per_second: f64,
    watched: HashMap<ProcessId, Watched>,
    buffer: Vec<u8>,
}

impl Worker {
    fn run(&mut self, job: &Job) -> Done {
        let (begun_ns, cpu_s) = (monotonic_ns(), cpu::of_thread());
        let mut done = Done {
            work: job.work,
            time_ns: begun_ns - self.started_ns,
            ops: Vec::new(),
            cpu_s: 0.0,
            held_s: 0.0,
            pss: BTreeMap::new(),
            census: BTreeMap::new(),
            inspected: 0,
        };
        match job.work {
            Work::Pss => self.pss(job, &mut done),
            Work::Census => census::take(job, &mut done),
        }
        done.cpu_s = cpu::of_thread() - cpu_s;
        done
    }

    fn pss(&mut self, job: &Job, done: &mut Done) {
        let wanted: HashMap<ProcessId, Pid> = job.processes.iter().copied().collect();
        self.watched.retain(|id, _| wanted.contains_key(id));
        let mut samples = Vec::with_capacity(job.processes.len());
        for &(id, pid) in &job.processes {
            match self.read(id, pid, job.keep_open, done) {
                Ok(Some((mut sample, rollup))) => {
                    if let Some(rollup) = rollup {
                        done.pss.insert(id, rollup.pss_bytes);
                        sample.rss_bytes = Some(rollup.rss_bytes);
                        sample.pss_bytes = Some(rollup.pss_bytes);
                        sample.uss_bytes = Some(rollup.uss_bytes);
                        sample.swap_bytes = Some(rollup.swap_bytes);
                    }
                    samples.push(sample);
                }
                Ok(None) | Err(Error::Gone { .. }) => {}
                Err(error) => done.ops.push(Op::Note(id, error.to_string())),
            }
        }
        done.ops.push(Op::Samples(samples));
    }

    fn read(
        &mut self,
        id: ProcessId,
        pid: Pid,
        keep_open: bool,
        done: &mut Done,
    ) -> unbloat_process::Result<Option<(Sample, Option<Rollup>)>> {
        let watched = self.watched.entry(id).or_insert_with(|| self.proc.watch(pid, keep_open));
        let stat = watched.stat(&mut self.buffer)?;
        if stat.is_dead() {
            return Ok(None);
        }
        let sample = sample(id, done.time_ns, &stat, self.ticks_per_second);
        let begun = monotonic_ns();
        let rollup = watched.rollup(&mut self.buffer);
        done.held_s += (monotonic_ns() - begun) as f64 / 1e9;
        match rollup {
            Ok(Some(rollup)) => Ok(Some((sample, Some(rollup)))),
            Ok(None) => Ok(None),
            // What may be read of it is kept, what may not is absent.
            Err(error @ Error::NotPermitted { .. }) => {
                done.ops.push(Op::Note(id, error.to_string()));
                Ok(Some((sample, None)))
            }
            Err(error) => Err(error),
        }
    }
}
