//! One run: a fresh server, its load, its memory, the proof that it was what it claims, and its end.

use crate::driver::{Driver, DriverError, Measured};
use crate::file::{ExperimentFile, FileError};
use crate::memory::{Sampler, census, tree_cpu_s, tree_pss};
use crate::metric::Metric;
use crate::plan::Plan;
use crate::proof;
use crate::result::{Exclusion, RunResult};
use crate::schedule::Slot;
use crate::server::{Ending, Running, Start};
use crate::variant::{Claim, Variant};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unbloat_process::Pid;
use unbloat_store::RunId;

/// What all runs of an experiment have in common.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its variants, the control first.
    pub variants: &'a [Variant],
    /// The directory that the plan's relative paths are relative to.
    pub directory: PathBuf,
    /// This program's own file, for `unbloat run` and `unbloat bench`.
    pub unbloat: PathBuf,
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
    /// Every run of the first block failed.
    #[error("no run of the first block counts, so the rest is not tried. The first reason: {0}")]
    NothingWorks(String),
    /// The user wants to stop; the run does not count and is made again.
    #[error("interrupted")]
    Interrupted,
}

impl Bench<'_> {
    /// Makes a run of a variant, the `position`th of the slot's block, and writes it to the file.
    ///
    /// # Errors
    /// The file cannot be written, or the user wants to stop. Whatever goes wrong with the server or its load is a
    /// result: a run that is left out, with the reason.
    pub fn run(
        &self,
        file: &mut ExperimentFile,
        variant: &Variant,
        slot: Slot,
        position: usize,
    ) -> Result<RunResult, RunError> {
        let id = file.begin(slot, position)?;
        let began = Instant::now();
        let mut observed = Observed::default();
        let excluded = self.observe(file, id, variant, &mut observed)?;
        let wall_s = began.elapsed().as_secs_f64();
        let result = RunResult {
            slot,
            wall_s,
            metrics: observed.metrics,
            steps: observed.steps,
            proof: observed.proof,
            harness_cpu: observed.harness_cpu,
            excluded,
        };
        file.end(id, &result)?;
        Ok(result)
    }

    /// The run itself; why it does not count, if it does not.
    fn observe(
        &self,
        file: &mut ExperimentFile,
        id: RunId,
        variant: &Variant,
        observed: &mut Observed,
    ) -> Result<Option<Exclusion>, RunError> {
        let start = Start {
            server: &self.plan.server,
            command: variant.start.as_ref().unwrap_or(&self.plan.server.start),
            wrapper: &variant.words(&self.unbloat),
            directory: &self.directory,
            unbloat: &self.unbloat,
        };
        let mut server = match Running::start(&start) {
            Ok(server) => server,
            Err(error) => return Ok(Some(Exclusion::NotReady(error.to_string()))),
        };
        // So that a missing library costs seconds; all claims are proved after the load, when all processes are there.
        let early: Vec<Claim> = variant.claims().into_iter().filter(Claim::holds_at_once).collect();
        if let Err(why) = proof::prove(server.root(), &early) {
            server.stop();
            return Ok(Some(Exclusion::NotAsClaimed(why)));
        }
        let sampler = Sampler::start(file.path(), id, server.root(), self.plan.design.sample_every)
            .map_err(FileError::Store)?;
        let trouble = self.load(file, id, variant, &mut server, observed)?;
        let peak = sampler.stop().map_err(FileError::Store)?;
        if peak > 0 {
            observed.metrics.insert(Metric::PssPeak, peak as f64);
        }
        file.phase(id, "stop")?;
        let ending = server.stop();
        Ok(trouble.or(match ending {
            Ending::Clean => None,
            Ending::Forced(why) => Some(Exclusion::LeftBehind(why)),
        }))
    }

    fn load(
        &self,
        file: &mut ExperimentFile,
        id: RunId,
        variant: &Variant,
        server: &mut Running,
        observed: &mut Observed,
    ) -> Result<Option<Exclusion>, RunError> {
        file.phase(id, "load")?;
        let driver = Driver {
            load: &self.plan.load,
            within: self.plan.design.load_within,
            directory: &self.directory,
            unbloat: &self.unbloat,
            interrupted: self.interrupted,
        };
        let before = Used::before(server.root());
        let measured = driver.drive(server);
        let after = Used::after(server.root());
        self.go_on()?;
        let measured = match measured {
            Ok(measured) => measured,
            Err(DriverError::Server(error)) => return Ok(Some(Exclusion::Died(error.to_string()))),
            Err(error) => return Ok(Some(Exclusion::LoadFailed(error.to_string()))),
        };
        file.phase(id, "idle")?;
        observed.after_load(server, &measured, before, after);
        let census = census(file.path(), id, server.root()).map_err(FileError::Store)?;
        let sums = [(Metric::Bloat, census.bloat_bytes), (Metric::Floor, census.floor_bytes)];
        let known = sums.into_iter().filter_map(|(metric, bytes)| Some((metric, bytes? as f64)));
        observed.metrics.extend(known.filter(|(_, bytes)| *bytes > 0.0));
        let proven = proof::prove(server.root(), &variant.claims());
        self.idle(server)?;
        if let Err(error) = server.check() {
            return Ok(Some(Exclusion::Died(error.to_string())));
        }
        observed.pss(Metric::PssIdle, server.root());
        Ok(match proven {
            Err(why) => Some(Exclusion::NotAsClaimed(why)),
            Ok(proof) => {
                observed.proof = proof;
                measured.dirty.map(Exclusion::Dirty)
            }
        })
    }

    fn idle(&self, server: &mut Running) -> Result<(), RunError> {
        let until = Instant::now() + self.plan.design.idle_tail;
        while Instant::now() < until && server.check().is_ok() {
            self.go_on()?;
            std::thread::sleep(
                Duration::from_millis(100).min(until.saturating_duration_since(Instant::now())),
            );
        }
        Ok(())
    }

    fn go_on(&self) -> Result<(), RunError> {
        if self.interrupted.load(Ordering::Relaxed) { Err(RunError::Interrupted) } else { Ok(()) }
    }
}

/// What is known of a run so far.
#[derive(Debug, Default)]
struct Observed {
    metrics: BTreeMap<Metric, f64>,
    steps: Vec<(f64, f64)>,
    proof: Vec<String>,
    harness_cpu: f64,
}

impl Observed {
    /// The PSS of the tree now. 0 is that of nobody who could be read, and no measurement.
    fn pss(&mut self, metric: Metric, root: Pid) {
        let bytes = tree_pss(root);
        if bytes > 0 {
            self.metrics.insert(metric, bytes as f64);
        }
    }

    fn after_load(&mut self, server: &Running, measured: &Measured, before: Used, after: Used) {
        self.pss(Metric::PssEnd, server.root());
        self.metrics.extend(measured.metrics());
        self.steps.clone_from(&measured.steps);
        if let Some(units) = measured.units.filter(|units| *units > 0.0 && after.server_s > before.server_s) {
            self.metrics.insert(Metric::CpuPerUnit, (after.server_s - before.server_s) / units);
        }
        let cores = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
        let wall_s = (after.at - before.at).as_secs_f64();
        self.harness_cpu = (after.harness_s - before.harness_s) / wall_s / cores;
    }
}

/// CPU seconds used up to a moment.
#[derive(Debug, Clone, Copy)]
struct Used {
    at: Instant,
    server_s: f64,
    harness_s: f64,
}

impl Used {
    /// Just before a load: looking at the server is not part of what the harness takes while it runs.
    fn before(server: Pid) -> Self {
        let server_s = tree_cpu_s(server);
        Used { at: Instant::now(), server_s, harness_s: own_cpu_s() }
    }

    /// Just after it.
    fn after(server: Pid) -> Self {
        let (at, harness_s) = (Instant::now(), own_cpu_s());
        Used { at, server_s: tree_cpu_s(server), harness_s }
    }
}

/// CPU that this process has used so far, in seconds.
fn own_cpu_s() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike as _;
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or(0.0, |usage| (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
}

/// Where relative paths of a plan's file start.
///
/// # Errors
/// It is not there.
pub fn directory_of(plan_file: &Path, plan: &Plan) -> std::io::Result<PathBuf> {
    let base = plan_file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match &plan.server.directory {
        Some(directory) => base.join(directory).canonicalize(),
        None => base.canonicalize(),
    }
}
