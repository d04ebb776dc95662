//! Samples the memory and CPU of a server's process tree during a run, on a drift-free schedule, into the
//! experiment's recording.
//!
//! The readings are those of `unbloat record` (`unbloat_record::sampler`, `census`). The surrounding logic
//! differs, because a recorder must not miss the start or end of a process, while a run needs the
//! proportional size of a few long-lived servers at one moment, in the same way for every variant.

use crate::software::software;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use unbloat_heap::model::Inspection;
use unbloat_heap::{Options, inspect_all};
use unbloat_process::status::command;
use unbloat_process::tree::Tree;
use unbloat_process::watch::{ProcFs, ticks_per_second};
use unbloat_process::{Pid, Rollup};
use unbloat_recording::{NewProcess, ProcessId, RunId};
use unbloat_store::Writer;

/// Share of one core that sampling may use: half of the 1 % of a two-core machine that the harness is
/// allowed.
const BUDGET: f64 = 0.01;

/// Interval between two scans for members of the tree, each of which reads the status of every process on the
/// machine.
const RESCAN: Duration = Duration::from_secs(2);

/// Samples a tree until it is stopped.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    /// `None` once stopped.
    thread: Option<JoinHandle<Result<u64, unbloat_store::Error>>>,
}

impl Sampler {
    /// Starts to sample the tree below `root` into the recording at `path`.
    ///
    /// # Errors
    /// The recording cannot be joined.
    pub fn start(path: &Path, run: RunId, root: Pid, every: Duration) -> Result<Self, unbloat_store::Error> {
        let writer = Writer::join(path)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sampler = unbloat_record::sampler::Sampler::new(ProcFs::default());
        let mut tree =
            TreeSamples { writer, run, members: Members::of(root), sampler, known: BTreeMap::new() };
        let thread = std::thread::spawn(move || {
            let (mut peak, mut next) = (0, Instant::now());
            while !stopped.load(Ordering::Relaxed) {
                let before = thread_cpu();
                peak = peak.max(tree.sample()?);
                let cost = thread_cpu().saturating_sub(before);
                // Late by more than an interval, or expensive: continue from now instead of catching up.
                next = (next + every).max(Instant::now() + cost.div_f64(BUDGET).saturating_sub(cost));
                while Instant::now() < next && !stopped.load(Ordering::Relaxed) {
                    std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
                }
            }
            Ok(peak)
        });
        Ok(Sampler { stop, thread: Some(thread) })
    }

    /// Stops sampling and returns the largest PSS of the tree that was seen, in bytes.
    ///
    /// # Errors
    /// The recording could not be written.
    pub fn stop(mut self) -> Result<u64, unbloat_store::Error> {
        self.end()
    }

    fn end(&mut self) -> Result<u64, unbloat_store::Error> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(0) };
        thread.thread().unpark();
        thread.join().unwrap_or(Ok(0))
    }
}

/// An abandoned run is no longer sampled.
impl Drop for Sampler {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The processes of one run, and their sampler.
struct TreeSamples {
    writer: Writer,
    run: RunId,
    members: Members,
    sampler: unbloat_record::sampler::Sampler,
    known: BTreeMap<Pid, ProcessId>,
}

/// The members of a tree as of the last scan.
struct Members {
    root: Pid,
    pids: Vec<Pid>,
    looked: Instant,
}

impl Members {
    fn of(root: Pid) -> Self {
        Members { root, pids: members(root), looked: Instant::now() }
    }

    fn now(&mut self) -> &[Pid] {
        if self.looked.elapsed() >= RESCAN {
            *self = Self::of(self.root);
        }
        &self.pids
    }
}

impl TreeSamples {
    /// Samples the tree once and returns its PSS in bytes.
    fn sample(&mut self) -> Result<u64, unbloat_store::Error> {
        let now = self.writer.elapsed_ns();
        let processes = self.processes(now)?;
        let sweep = self.sampler.sweep(&processes, now, true);
        self.writer.batch(|batch| sweep.samples.iter().try_for_each(|sample| batch.sample(sample)))?;
        Ok(sweep.pss_bytes())
    }

    /// Returns the members of the tree with their rows, adding rows for new ones.
    fn processes(&mut self, now: i64) -> Result<Vec<(ProcessId, Pid)>, unbloat_store::Error> {
        let pids = self.members.now().to_vec();
        let (run, known) = (self.run, &mut self.known);
        if pids.iter().any(|pid| !known.contains_key(pid)) {
            self.writer.batch(|batch| {
                for &pid in pids.iter().filter(|pid| !known.contains_key(pid)).collect::<Vec<_>>() {
                    known.insert(pid, batch.process(&newcomer(run, pid, now))?);
                }
                Ok(())
            })?;
        }
        Ok(pids.into_iter().filter_map(|pid| Some((*known.get(&pid)?, pid))).collect())
    }
}

fn newcomer(run: RunId, pid: Pid, first_seen_ns: i64) -> NewProcess {
    NewProcess {
        run: Some(run),
        pid: pid.0,
        command: command(pid).unwrap_or_default(),
        first_seen_ns,
        ..NewProcess::default()
    }
}

/// Returns the CPU time of this thread.
fn thread_cpu() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn members(root: Pid) -> Vec<Pid> {
    Tree::read().map(|tree| tree.below(root)).unwrap_or_default()
}

/// Reads the memory of processes, skipping those that have ended.
fn read(pids: &[Pid]) -> Vec<(Pid, Rollup)> {
    pids.iter().filter_map(|&pid| Some((pid, Rollup::of(pid).ok()?))).collect()
}

/// Returns the current PSS of a tree, in bytes.
#[must_use]
pub fn tree_pss(root: Pid) -> u64 {
    read(&members(root)).iter().map(|(_, memory)| memory.pss_bytes).sum()
}

/// Returns the CPU time of a tree so far, in seconds, including children that its processes have waited for.
#[must_use]
pub fn tree_cpu_s(root: Pid) -> f64 {
    members(root).into_iter().filter_map(cpu_s).sum()
}

/// Returns the CPU time of one process so far, and of the children it has waited for, in seconds.
fn cpu_s(pid: Pid) -> Option<f64> {
    let stat = ProcFs::default().stat(pid).ok()?;
    let ticks = [stat.user_ticks, stat.system_ticks, stat.children_user_ticks, stat.children_system_ticks];
    Some(ticks.into_iter().map(|ticks| ticks as f64).sum::<f64>() / ticks_per_second())
}

/// Takes the census of each process of a tree, writes it to the recording for `run`, and returns the tree's
/// bloat and floor in bytes. Both are proportional, so that a page shared by a master and its workers counts
/// once.
///
/// # Errors
/// The recording cannot be written. A process that cannot be inspected is skipped.
pub fn census(path: &Path, run: RunId, root: Pid) -> Result<Census, unbloat_store::Error> {
    let mut writer = Writer::join(path)?;
    let now = writer.elapsed_ns();
    // A later run may reuse PIDs of an earlier one.
    let known: BTreeMap<i32, ProcessId> = unbloat_store::Reader::open(path)?
        .processes()?
        .into_iter()
        .filter(|process| process.run == Some(run))
        .map(|process| (process.pid, process.id))
        .collect();
    let inspection = inspect_all(&members(root), &Options { proportional: true, ..Options::default() });
    writer.batch(|batch| {
        for report in &inspection.processes {
            let Some(&process) = known.get(&report.pid.0) else { continue };
            let rows = unbloat_record::census::rows(process, now, report);
            rows.iter().try_for_each(|row| batch.census(row))?;
        }
        Ok(())
    })?;
    Ok(Census::of(&inspection))
}

/// Returns the software of a server's tree, without a recording; see [`software`].
#[must_use]
pub fn software_of(root: Pid) -> Vec<(&'static str, String)> {
    software(&inspect_all(&members(root), &Options::default()))
}

/// Sums over a tree. Absent where the allocator's heap was not walked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// cached + trimmable + stranded, proportional.
    pub bloat_bytes: Option<u64>,
    /// PSS − bloat.
    pub floor_bytes: Option<u64>,
    /// The server's software; see [`software`].
    pub software: Vec<(&'static str, String)>,
}

impl Census {
    fn of(inspection: &Inspection) -> Self {
        let software = software(inspection);
        Self { bloat_bytes: inspection.bloat_bytes(), floor_bytes: inspection.floor_bytes(), software }
    }
}
