//! Real runs: a fresh server, its load, its memory, the proof of the variant, and its end.

use crate::calibration::{Calibration, calibrate};
use crate::cpu::{Shares, Used};
use crate::driver::{Driver, DriverError, KeptLauncher, Measured, Pace, Target as _};
use crate::executor::{Executor, Order, RunError};
use crate::file::{ExperimentFile, FileError};
use crate::memory::{Sampler, census, software_of, tree_pss};
use crate::metric::Metric;
use crate::plan::{Plan, Rate};
use crate::pressure::{self, PerResource};
use crate::proof;
use crate::result::{Exclusion, RunResult};
use crate::server::{Ending, Running, Start};
use crate::tune::Executors;
use crate::variant::Variant;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unbloat_policy::Claim;
use unbloat_process::Pid;
use unbloat_recording::Key;

/// Makes runs on real servers; holds what all runs of an experiment share.
#[derive(Debug)]
pub struct ServerExecutor<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The base directory of the plan's relative paths.
    pub directory: PathBuf,
    /// Path of this program, for `unbloat run` and `unbloat bench`.
    pub unbloat: PathBuf,
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
}

impl Executor for ServerExecutor<'_> {
    fn execute(&mut self, file: &mut ExperimentFile, order: &Order) -> Result<RunResult, RunError> {
        let began = Instant::now();
        let mut observed = Observed::default();
        let excluded = self.observe(file, order, &mut observed)?;
        Ok(RunResult {
            slot: order.slot,
            repeat: order.repeat,
            wall_s: began.elapsed().as_secs_f64(),
            metrics: observed.metrics,
            steps: observed.steps,
            proof: observed.proof,
            harness_cpu: observed.harness_cpu,
            other_cpu: observed.other_cpu,
            stalled: observed.stalled,
            excluded,
        })
    }

    fn calibrate(&mut self, control: &Variant) -> Result<Option<Calibration>, RunError> {
        let Some((driver, bench)) = self.plan.load.bench() else { return Ok(None) };
        match bench.rate {
            None | Some(Rate::Closed) => Ok(None),
            Some(Rate::PerSecond(rate)) => Ok(Some(Calibration::given(rate, bench))),
            Some(Rate::Auto) => {
                let fails = |reason| RunError::ControlFails { variant: control.name.clone(), reason };
                let mut server = self.start(control)?.map_err(fails)?;
                let launcher = self.launcher();
                let loads = self.driver(&launcher);
                // The first closed loop warms the server up for the second one.
                let found = calibrate(driver, bench, |pace| {
                    let measured = loads.drive(&mut server, pace);
                    self.go_on()?;
                    measured.map_err(|error| fails(excluded(error)))
                });
                server.stop();
                found.map(Some)
            }
        }
    }
}

impl ServerExecutor<'_> {
    fn launcher(&self) -> KeptLauncher<'_> {
        KeptLauncher { directory: &self.directory, unbloat: &self.unbloat }
    }

    fn driver<'b>(&'b self, launcher: &'b KeptLauncher<'b>) -> Driver<'b, KeptLauncher<'b>> {
        Driver {
            load: &self.plan.load,
            within: self.plan.design.load_within,
            unbloat: &self.unbloat,
            launcher,
            interrupted: self.interrupted,
        }
    }

    /// Starts a variant's server, or returns the reason for exclusion if it does not start as claimed.
    fn start(&self, variant: &Variant) -> Result<Result<Running, Exclusion>, RunError> {
        let start = Start {
            server: &self.plan.server,
            command: variant.start.as_ref().unwrap_or(&self.plan.server.start),
            wrapper: &variant.words(&self.unbloat),
            directory: &self.directory,
            unbloat: &self.unbloat,
            interrupted: self.interrupted,
        };
        let server = match Running::start(&start) {
            Ok(server) => server,
            Err(error) => {
                self.go_on()?;
                return Ok(Err(Exclusion::NotReady(error.to_string())));
            }
        };
        // A missing library then costs only seconds. All claims are proved after the load, when all processes
        // exist.
        let early: Vec<Claim> = variant.claims().into_iter().filter(Claim::holds_at_once).collect();
        if let Err(why) = proof::prove(server.root(), &early) {
            server.stop();
            return Ok(Err(Exclusion::NotAsClaimed(why)));
        }
        Ok(Ok(server))
    }

    /// Makes the actual run; returns the reason for exclusion, if any.
    fn observe(
        &self,
        file: &mut ExperimentFile,
        order: &Order,
        observed: &mut Observed,
    ) -> Result<Option<Exclusion>, RunError> {
        let mut server = match self.start(order.variant)? {
            Ok(server) => server,
            Err(exclusion) => return Ok(Some(exclusion)),
        };
        let sampler = Sampler::start(file.path(), order.id, server.root(), self.plan.design.sample_every)
            .map_err(FileError::Store)?;
        let trouble = self.load(file, order, &mut server, observed)?;
        let peak = sampler.stop().map_err(FileError::Store)?;
        if peak > 0 {
            observed.metrics.insert(Metric::PssPeak, peak as f64);
        }
        file.phase(order.id, "stop")?;
        let ending = server.stop();
        Ok(trouble.or(match ending {
            Ending::Clean => None,
            Ending::Forced(why) => Some(Exclusion::LeftBehind(why)),
        }))
    }

    fn load(
        &self,
        file: &mut ExperimentFile,
        order: &Order,
        server: &mut Running,
        observed: &mut Observed,
    ) -> Result<Option<Exclusion>, RunError> {
        let id = order.id;
        let pace = order.calibration.map_or(Pace::AsWritten, Calibration::pace);
        let launcher = self.launcher();
        let driver = self.driver(&launcher);
        let warm_up = self.plan.warm_up();
        if !warm_up.is_zero() {
            file.phase(id, "warm-up")?;
            let warm = driver.warm_up(server, pace, warm_up);
            self.go_on()?;
            if let Err(error) = warm {
                return Ok(Some(excluded(error)));
            }
        }
        let load_ns = file.phase(id, "load")?;
        let (before, began) = (Used::before(server.root()), Instant::now());
        let measured = driver.drive(server, pace);
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
        let proven = proof::prove(server.root(), &order.variant.claims());
        self.idle(server)?;
        if let Err(error) = server.check() {
            return Ok(Some(Exclusion::Died(error.to_string())));
        }
        observed.pss(Metric::PssIdle, server.root());
        Ok(match proven {
            Err(why) => Some(Exclusion::NotAsClaimed(why)),
            Ok(proof) => {
                observed.proof = proof;
                // A noisy neighbor makes a load late, too, so check for that first and repeat the run.
                self.disturbed(used, order).or_else(|| measured.dirty.map(Exclusion::Dirty))
            }
        })
    }

    /// Returns whether other programs used more of the machine than the plan allows, or tasks waited far
    /// longer than usual.
    fn disturbed(&self, used: Shares, order: &Order) -> Option<Exclusion> {
        let allowed = self.plan.design.max_other_cpu;
        if let Some(others) = used.others.filter(|others| *others > allowed) {
            return Some(Exclusion::Disturbed(format!(
                "other programs took {:.1} % of the machine's CPU while the load ran, and design.max-other-cpu allows {:.1} %",
                others * 100.0,
                allowed * 100.0
            )));
        }
        // A plan that accepts every run does not want this one repeated either.
        if allowed >= 1.0 {
            return None;
        }
        let alike = order.earlier.iter().filter(|run| run.counts_for(order.slot.variant));
        let earlier: Vec<PerResource> = alike.map(|run| run.stalled).collect();
        pressure::jump(used.stalled, &earlier).map(|(resource, share, usual)| {
            Exclusion::Disturbed(format!(
                "tasks waited for {} during {:.0} % of the load, usually during {:.0} % (pressure-stall information)",
                resource.words(),
                share * 100.0,
                usual * 100.0
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

/// Returns the reason for excluding a run without a complete load.
fn excluded(error: DriverError) -> Exclusion {
    match error {
        DriverError::Server(error) => Exclusion::Died(error.to_string()),
        error => Exclusion::LoadFailed(error.to_string()),
    }
}

/// The observations of a run so far.
#[derive(Debug, Default)]
struct Observed {
    metrics: BTreeMap<Metric, f64>,
    steps: Vec<(f64, f64)>,
    proof: Vec<String>,
    harness_cpu: f64,
    other_cpu: Option<f64>,
    stalled: PerResource,
}

impl Observed {
    /// Records the tree's current PSS. 0 means that no process was readable, and is not recorded.
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
        self.stalled = used.stalled;
    }
}

/// Returns the base directory of a plan file's relative paths.
///
/// # Errors
/// It does not exist.
pub fn directory_of(plan_file: &Path, plan: &Plan) -> std::io::Result<PathBuf> {
    let base = plan_file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match &plan.server.directory {
        Some(directory) => base.join(directory).canonicalize(),
        None => base.canonicalize(),
    }
}

/// Makes executors on real servers for the plans of a search.
#[derive(Debug)]
pub struct Servers<'a> {
    /// Directory of the plans' relative paths.
    pub directory: PathBuf,
    /// Path of this program.
    pub unbloat: PathBuf,
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
}

impl Executors for Servers<'_> {
    type Of<'p>
        = ServerExecutor<'p>
    where
        Self: 'p;

    fn of<'p>(&'p self, plan: &'p Plan) -> ServerExecutor<'p> {
        let (directory, unbloat) = (self.directory.clone(), self.unbloat.clone());
        ServerExecutor { plan, directory, unbloat, interrupted: self.interrupted }
    }

    fn ruby(&self, plan: &Plan, control: &Variant) -> Result<Option<String>, RunError> {
        let fails = |reason| RunError::ControlDoesNotStart { variant: control.name.clone(), reason };
        let server = self.of(plan).start(control)?.map_err(fails)?;
        let found = software_of(server.root()).into_iter().find(|(name, _)| *name == Key::Ruby.name());
        server.stop();
        Ok(found.map(|(_, version)| version))
    }
}
