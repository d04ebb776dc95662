//! One run: a fresh server, its load, its memory, the proof that it was what it claims, and its end.

use crate::cpu::{Shares, Used};
use crate::driver::{Driver, DriverError, Measured};
use crate::file::{ExperimentFile, FileError};
use crate::memory::{Sampler, census, tree_pss};
use crate::metric::Metric;
use crate::plan::Plan;
use crate::proof;
use crate::result::{Exclusion, RunResult};
use crate::schedule::Slot;
use crate::server::{Ending, Running, Start};
use crate::variant::Variant;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unbloat_policy::Claim;
use unbloat_process::Pid;
use unbloat_recording::RunId;

/// What all runs of an experiment have in common.
#[derive(Debug)]
pub struct TestBed<'a> {
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
    /// No run of a block counts.
    #[error("no run of block {block} counts, so the rest is not tried. The first reason: {reason}\n{next}")]
    NothingWorks {
        /// The block, from 1.
        block: usize,
        /// Why its first run does not count.
        reason: Exclusion,
        /// What to do.
        next: String,
    },
    /// The user wants to stop; the run does not count and is made again.
    #[error("interrupted")]
    Interrupted,
}

impl TestBed<'_> {
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
            other_cpu: observed.other_cpu,
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
            interrupted: self.interrupted,
        };
        let mut server = match Running::start(&start) {
            Ok(server) => server,
            Err(error) => {
                self.go_on()?;
                return Ok(Some(Exclusion::NotReady(error.to_string())));
            }
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
        let driver = Driver {
            load: &self.plan.load,
            within: self.plan.design.load_within,
            directory: &self.directory,
            unbloat: &self.unbloat,
            interrupted: self.interrupted,
        };
        let warm_up = self.plan.design.warm_up;
        if !warm_up.is_zero() {
            file.phase(id, "warm-up")?;
            let warm = driver.warm_up(server, warm_up);
            self.go_on()?;
            if let Err(error) = warm {
                return Ok(Some(excluded(error)));
            }
        }
        let load_ns = file.phase(id, "load")?;
        let (before, began) = (Used::before(server.root()), Instant::now());
        let measured = driver.drive(server);
        let wall_s = began.elapsed().as_secs_f64();
        let used = Used::after(server.root()).since(&before, wall_s);
        self.go_on()?;
        let measured = match measured {
            Ok(measured) => measured,
            Err(error) => return Ok(Some(excluded(error))),
        };
        let idle_ns = file.phase(id, "idle")?;
        observed.after_load(server, &measured, used);
        file.steps(id, load_ns, idle_ns, &measured.steps)?;
        let census = census(file.path(), id, server.root()).map_err(FileError::Store)?;
        file.facts(id, &census.software)?;
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
                measured.dirty.map(Exclusion::Dirty).or_else(|| self.disturbed(used.others))
            }
        })
    }

    /// Whether others used more of the machine than the plan allows.
    fn disturbed(&self, others: Option<f64>) -> Option<Exclusion> {
        let (others, allowed) = (others?, self.plan.design.max_other_cpu?);
        (others > allowed).then(|| {
            Exclusion::Disturbed(format!(
                "other programs took {:.1} % of the machine's CPU while the load ran, and design.max-other-cpu allows {:.1} %",
                others * 100.0,
                allowed * 100.0
            ))
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

/// Why a run without a whole load does not count.
fn excluded(error: DriverError) -> Exclusion {
    match error {
        DriverError::Server(error) => Exclusion::Died(error.to_string()),
        error => Exclusion::LoadFailed(error.to_string()),
    }
}

/// What is known of a run so far.
#[derive(Debug, Default)]
struct Observed {
    metrics: BTreeMap<Metric, f64>,
    steps: Vec<(f64, f64)>,
    proof: Vec<String>,
    harness_cpu: f64,
    other_cpu: Option<f64>,
}

impl Observed {
    /// The PSS of the tree now. 0 is that of nobody who could be read, and no measurement.
    fn pss(&mut self, metric: Metric, root: Pid) {
        let bytes = tree_pss(root);
        if bytes > 0 {
            self.metrics.insert(metric, bytes as f64);
        }
    }

    fn after_load(&mut self, server: &Running, measured: &Measured, used: Shares) {
        self.pss(Metric::PssEnd, server.root());
        self.metrics.extend(measured.metrics());
        self.steps = measured.steps.iter().map(|step| (step.clients, step.p95_s)).collect();
        if let Some(units) = measured.units.filter(|units| *units > 0.0 && used.server_s > 0.0) {
            self.metrics.insert(Metric::CpuPerUnit, used.server_s / units);
        }
        self.harness_cpu = used.harness;
        self.other_cpu = used.others;
    }
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
