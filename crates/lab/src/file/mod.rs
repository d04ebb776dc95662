//! The experiment in its recording file: its plan, its runs and their results.
//!
//! A run is in the file from its start on; without an outcome it was cut short and does not count. So an
//! experiment can be killed at any moment, and every run with an outcome is complete.

mod error;
mod existing;
mod stored;

pub use error::FileError;
pub use existing::written_plan;
pub use stored::Stored;

use crate::calibration::Calibration;
use crate::driver::LoadStep;
use crate::machine;
use crate::plan::Plan;
use crate::pressure::Resource;
use crate::result::RunResult;
use crate::schedule::Slot;
use crate::variant::Variant;
use error::Result;
use existing::{check_same, discard_unfinished, holds_a_plan};
use std::collections::BTreeMap;
use std::path::Path;
use unbloat_recording::{Key, Kind, Metric as Row, RunId, VariantId};
use unbloat_store::reader::is_unfinished;
use unbloat_store::{Writer, begin};

/// Names of facts in the table `provenance`.
const PLAN: &str = Key::Plan.name();
const LOOKS: &str = Key::Looks.name();
const REPLICA: &str = Key::Replica.name();
const REPEAT: &str = Key::Repeat.name();
const CALIBRATION: &str = Key::Calibration.name();
const PROOF: &str = Key::Proof.name();

/// Names of figures in the table `metric`, in addition to those of
/// [`Metric::name`](crate::metric::Metric::name).
const HARNESS_CPU: &str = "harness_cpu";
const OTHER_CPU: &str = "other_cpu";
const STEP_P95: &str = "step_p95";
const WALL: &str = "wall";

/// An experiment's file, open for writing.
#[derive(Debug)]
pub struct ExperimentFile {
    writer: Writer,
    variants: Vec<VariantId>,
    looks: Option<usize>,
}

impl ExperimentFile {
    /// Creates the file, or opens an existing one with the same plan, keeping its runs.
    ///
    /// # Errors
    /// The file holds something else or another plan, or cannot be written.
    pub fn open(path: &Path, plan: &Plan, plan_text: &str, all: &[Variant]) -> Result<(Self, Stored)> {
        discard_unfinished(path)?;
        let is_there = path.exists() && holds_a_plan(path)?;
        if is_there {
            check_same(path, plan_text)?;
        }
        let mut writer = match path.exists() {
            true => Writer::resume(path)?,
            false => Writer::create(path, &begin(Kind::Experiment))?,
        };
        let stored = if is_there {
            Stored::read(path)?
        } else {
            writer.batch(|batch| {
                batch.provenance(None, PLAN, plan_text)?;
                machine::facts().iter().try_for_each(|(name, value)| batch.provenance(None, name, value))
            })?;
            let (plan, variants) = (plan.clone(), all.to_vec());
            let (runs, environment, run_facts) = (Vec::new(), Vec::new(), BTreeMap::new());
            Stored { plan, variants, runs, looks: None, calibration: None, environment, run_facts }
        };
        let settings: Vec<String> = all.iter().map(json).collect::<Result<_>>()?;
        let variants = writer.batch(|batch| {
            all.iter().zip(&settings).map(|(v, settings)| batch.variant(&v.name, settings)).collect()
        })?;
        Ok((ExperimentFile { writer, variants, looks: stored.looks }, stored))
    }

    /// Returns the contents of the file at `path` for an experiment with this plan; `None` if there is no
    /// such file yet, or it has no plan.
    ///
    /// # Errors
    /// The file holds something else or another plan.
    pub fn peek(path: &Path, plan_text: &str) -> Result<Option<Stored>> {
        if !path.exists() || is_unfinished(path) || !holds_a_plan(path)? {
            return Ok(None);
        }
        check_same(path, plan_text)?;
        Stored::read(path).map(Some)
    }

    /// The file's name.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.writer.path()
    }

    /// Returns nanoseconds since the recording began.
    #[must_use]
    pub fn now_ns(&self) -> i64 {
        self.writer.elapsed_ns()
    }

    /// Number of looks at the data; `None` until it is settled.
    #[must_use]
    pub fn looks(&self) -> Option<usize> {
        self.looks
    }

    /// Stores the number of looks at the data. Several looks cannot be taken back, so the largest number counts.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn looked(&mut self, looks: usize) -> Result<()> {
        let looks = self.looks.map_or(looks, |before| before.max(looks));
        if self.looks == Some(looks) {
            return Ok(());
        }
        self.looks = Some(looks);
        Ok(self.writer.batch(|batch| batch.provenance(None, LOOKS, &looks.to_string()))?)
    }

    /// Stores the open loop of all runs.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn calibrated(&mut self, calibration: &Calibration) -> Result<()> {
        let text = json(calibration)?;
        Ok(self.writer.batch(|batch| batch.provenance(None, CALIBRATION, &text))?)
    }

    /// Starts a run, the `position`th of its block; `repeat` earlier runs of its slot were disturbed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(&mut self, slot: Slot, position: usize, repeat: usize) -> Result<RunId> {
        let (now, variant) = (self.now_ns(), self.variants.get(slot.variant).copied());
        let run = self.writer.batch(|batch| {
            let block = batch.block(number(slot.block))?;
            let run = batch.run(variant, Some((block, number(position))), now)?;
            batch.provenance(Some(run), REPLICA, &slot.replica.to_string())?;
            if repeat > 0 {
                batch.provenance(Some(run), REPEAT, &repeat.to_string())?;
            }
            Ok(run)
        })?;
        self.facts(run, &machine::facts())?;
        Ok(run)
    }

    /// Stores facts about the origin of a run's figures.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn facts(&mut self, run: RunId, facts: &[(&str, String)]) -> Result<()> {
        Ok(self.writer.batch(|batch| {
            facts.iter().try_for_each(|(name, value)| batch.provenance(Some(run), name, value))
        })?)
    }

    /// Marks a phase of a run (`warm-up`, `load`, `idle`, `stop`) and returns its time, in nanoseconds since
    /// the recording began.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn phase(&mut self, run: RunId, name: &str) -> Result<i64> {
        let now = self.now_ns();
        self.writer.batch(|batch| batch.mark(now, name, Some(run)))?;
        Ok(now)
    }

    /// Stores the steps of a load that lasted from `began_ns` to `ended_ns`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn steps(&mut self, run: RunId, began_ns: i64, ended_ns: i64, steps: &[LoadStep]) -> Result<()> {
        let starts: Vec<i64> = steps.iter().map(|step| began_ns + (step.start_s * 1e9) as i64).collect();
        let ends = starts.iter().copied().skip(1).chain([ended_ns]);
        Ok(self.writer.batch(|batch| {
            for ((load, start), end) in steps.iter().zip(&starts).zip(ends) {
                let step = batch.step(Some(run), &load.clients.to_string(), *start, "{}")?;
                batch.step_ended(step, end)?;
                let (name, unit) = (STEP_P95.into(), "s".into());
                batch.metric(&Row { run: Some(run), step: Some(step), name, value: load.p95_s, unit })?;
            }
            Ok(())
        })?)
    }

    /// Ends a run. Its steps must have been stored already: see [`ExperimentFile::steps`].
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&mut self, run: RunId, result: &RunResult) -> Result<()> {
        let now = self.now_ns();
        let outcome = match &result.excluded {
            None => "done".to_owned(),
            Some(exclusion) => json(exclusion)?,
        };
        Ok(self.writer.batch(|batch| {
            let figures =
                result.metrics.iter().map(|(metric, value)| (metric.name(), *value, metric.unit().name()));
            let own = [(HARNESS_CPU, result.harness_cpu, "share"), (WALL, result.wall_s, "s")];
            let others = result.other_cpu.map(|share| (OTHER_CPU, share, "share"));
            let stalls = Resource::ALL.into_iter().zip(result.stalled);
            let stalls = stalls.filter_map(|(resource, share)| Some((resource.figure(), share?, "share")));
            for (name, value, unit) in figures.chain(own).chain(others).chain(stalls) {
                let row = Row { run: Some(run), step: None, name: name.into(), value, unit: unit.into() };
                batch.metric(&row)?;
            }
            result.proof.iter().try_for_each(|proof| batch.provenance(Some(run), PROOF, proof))?;
            batch.run_ended(run, now, &outcome)
        })?)
    }

    /// Ends the experiment.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self, reason: &str) -> Result<()> {
        let now = self.now_ns();
        Ok(self.writer.finish(now, reason, None)?)
    }
}

/// Serializes a value for a column of the file.
fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(FileError::Text)
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::analysis::tests::runs;
    use crate::result::Exclusion;

    const PLAN: &str = r#"
title = "two"
compare = ["glibc", "arenas=2"]
[server]
start = ["true"]
ready = { line = "ready" }
[load]
driver = "own"
"#;

    #[test]
    fn what_was_written_is_read_back_and_a_run_without_end_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.unbloat");
        let plan = Plan::parse(PLAN).unwrap();
        let mut results = runs(2, &[(1.0, 1.0), (0.5, 1.0)]);
        results[1].excluded = Some(Exclusion::Dirty("3 lost".into()));
        results[2].proof = vec!["libjemalloc.so.2 is mapped".into()];
        (results[3].repeat, results[3].stalled) = (2, [Some(0.25), None, Some(0.0)]);
        let calibration = Calibration {
            sustained_per_s: Some(24.0),
            utilization: Some(0.5),
            rate_per_s: 12.0,
            run_s: 50.0,
        };
        let (mut file, stored) = ExperimentFile::open(&path, &plan, PLAN, &plan.variants().unwrap()).unwrap();
        assert!(stored.runs.is_empty() && stored.calibration.is_none());
        file.calibrated(&calibration).unwrap();
        for (position, result) in results.iter().enumerate() {
            let run = file.begin(result.slot, position, result.repeat).unwrap();
            let began_ns = file.phase(run, "load").unwrap();
            let steps =
                result.steps.iter().map(|&(clients, p95_s)| LoadStep { clients, start_s: 1e-6, p95_s });
            let steps: Vec<_> = steps.collect();
            file.steps(run, began_ns, began_ns + 1_000_000_000, &steps).unwrap();
            file.phase(run, "idle").unwrap();
            file.facts(run, &[("ruby", "3.1.2".into())]).unwrap();
            file.end(run, result).unwrap();
        }
        file.begin(results[0].slot, 9, 0).unwrap();
        drop(file);
        let stored = Stored::read(&path).unwrap();
        assert_eq!((stored.results(), stored.calibration), (results.clone(), Some(calibration)));
        assert_eq!(stored.software(1, "ruby"), ["3.1.2"]);
        assert_eq!(stored.mixed(), []);
        let traces = crate::trace::traces(&path, &stored).unwrap();
        assert_eq!(traces[0].steps, [(1e-6, 100.0)]);
    }

    /// Killed between creating the file and writing the first row.
    #[test]
    fn a_file_whose_making_was_cut_short_is_made_anew_and_any_other_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let plan = Plan::parse(PLAN).unwrap();
        let open = |path: &Path| ExperimentFile::open(path, &plan, PLAN, &plan.variants().unwrap());
        let empty = directory.path().join("empty.unbloat");
        std::fs::write(&empty, "").unwrap();
        open(&empty).unwrap();
        assert_eq!(Stored::read(&empty).unwrap().plan, plan);
        assert!(!is_unfinished(&empty));
        let text = directory.path().join("notes");
        std::fs::write(&text, "something else").unwrap();
        assert!(open(&text).is_err());
        assert_eq!(std::fs::read_to_string(&text).unwrap(), "something else");
    }

    #[test]
    fn another_plan_is_refused_with_the_line_that_differs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.unbloat");
        let plan = Plan::parse(PLAN).unwrap();
        ExperimentFile::open(&path, &plan, PLAN, &plan.variants().unwrap())
            .unwrap()
            .0
            .finish("done")
            .unwrap();
        let other = PLAN.replace("\"two\"", "\"three\"");
        let error = ExperimentFile::open(&path, &plan, &other, &[]).unwrap_err().to_string();
        assert!(error.contains("three"), "{error}");
    }
}
