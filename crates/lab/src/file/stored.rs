//! Reads an experiment from its recording file.

use super::error::{FileError, Result};
use super::existing::{holds_a_plan, plan_text, shown};
use super::{CALIBRATION, HARNESS_CPU, LOOKS, OTHER_CPU, PLAN, PROOF, REPEAT, REPLICA, WALL};
use crate::calibration::Calibration;
use crate::metric::Metric;
use crate::plan::Plan;
use crate::pressure::Resource;
use crate::result::{Exclusion, RunResult};
use crate::schedule::Slot;
use crate::variant::Variant;
use std::collections::BTreeMap;
use std::path::Path;
use unbloat_recording::provenance::current;
use unbloat_recording::{Kind, Metric as Row, RunId, VariantId};
use unbloat_store::Reader;
use unbloat_store::reader::is_unfinished;

/// An experiment as stored in its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its plan.
    pub plan: Plan,
    /// Its variants as resolved on the machine that made the runs, the control first.
    pub variants: Vec<Variant>,
    /// Finished runs in chronological order, with their IDs in the file.
    pub runs: Vec<(RunId, RunResult)>,
    /// Number of looks at the data, see [`crate::analysis::Settings::looks`]; `None` until it is settled.
    pub looks: Option<usize>,
    /// The open loop of all runs; `None` if there is none, or it is not determined yet.
    pub calibration: Option<Calibration>,
    /// Facts about the machine and the programs at the start of the experiment, by name.
    pub environment: Vec<(String, String)>,
    /// Facts about the machine, this program and the server's software at each run, by name. Absent in files
    /// of earlier versions.
    pub run_facts: BTreeMap<RunId, BTreeMap<String, String>>,
}

impl Stored {
    /// Returns the results of the runs.
    #[must_use]
    pub fn results(&self) -> Vec<RunResult> {
        self.runs.iter().map(|(_, result)| result.clone()).collect()
    }

    /// Reads the experiment at `path`, if it exists.
    ///
    /// # Errors
    /// The file is there and is not one.
    pub fn known(path: &Path) -> Result<Option<Self>> {
        if !path.exists() || is_unfinished(path) || !holds_a_plan(path)? {
            return Ok(None);
        }
        Self::read(path).map(Some)
    }

    /// Reads an experiment.
    ///
    /// # Errors
    /// The file does not contain one.
    pub fn read(path: &Path) -> Result<Self> {
        let reader = Reader::open(path)?;
        if reader.header().kind != Kind::Experiment {
            return Err(FileError::NotAnExperiment { path: shown(path) });
        }
        let text = plan_text(&reader)?;
        let plan = Plan::parse(&text).map_err(|source| FileError::Plan { path: shown(path), source })?;
        let known = reader.variants()?;
        let variants = known.iter().map(|row| serde_json::from_str(&row.settings)).collect();
        let variants: Vec<Variant> = match variants {
            Ok(variants) if !known.is_empty() => variants,
            _ => plan.variants().map_err(|source| FileError::Plan { path: shown(path), source })?,
        };
        let index = |id: Option<VariantId>| known.iter().position(|row| Some(row.id) == id);
        let rows = reader.metrics()?;
        let steps: BTreeMap<_, _> = reader.steps()?.into_iter().map(|step| (step.id, step.name)).collect();
        let (mut runs, mut run_facts) = (Vec::new(), BTreeMap::new());
        for run in reader.runs()? {
            let facts = facts(&reader, Some(run.id))?;
            let fact = |name: &str| facts.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
            // A run that was cut short has none.
            let Some(outcome) = run.outcome else { continue };
            let (Some(variant), Some(block)) = (index(run.variant), run.block) else { continue };
            let number = |name: &str| fact(name).and_then(|text| text.parse().ok()).unwrap_or(0);
            let figures: Vec<&Row> = rows.iter().filter(|row| row.run == Some(run.id)).collect();
            let figure = |name: &str| figures.iter().find(|row| row.name == name).map(|row| row.value);
            let result = RunResult {
                slot: Slot { block: usize::try_from(block).unwrap_or(0), variant, replica: number(REPLICA) },
                repeat: number(REPEAT),
                wall_s: figure(WALL).unwrap_or_default(),
                metrics: Metric::ALL.into_iter().filter_map(|m| Some((m, figure(m.name())?))).collect(),
                steps: figures
                    .iter()
                    .filter_map(|row| Some((steps.get(&row.step?)?.parse().ok()?, row.value)))
                    .collect(),
                proof: facts.iter().filter(|(n, _)| n == PROOF).map(|(_, value)| value.clone()).collect(),
                harness_cpu: figure(HARNESS_CPU).unwrap_or_default(),
                other_cpu: figure(OTHER_CPU),
                stalled: Resource::ALL.map(|resource| figure(resource.figure())),
                excluded: (outcome != "done").then(|| {
                    serde_json::from_str(&outcome).unwrap_or(Exclusion::LoadFailed(outcome.clone()))
                }),
            };
            runs.push((run.id, result));
            let own =
                facts.into_iter().filter(|(name, _)| ![REPLICA, REPEAT, PROOF].contains(&name.as_str()));
            run_facts.insert(run.id, own.collect());
        }
        let facts = facts(&reader, None)?;
        let looks =
            facts.iter().filter(|(name, _)| name == LOOKS).filter_map(|(_, value)| value.parse().ok()).max();
        let calibration = facts.iter().find(|(name, _)| name == CALIBRATION);
        let calibration = calibration.and_then(|(_, text)| serde_json::from_str(text).ok());
        let own = [PLAN, LOOKS, CALIBRATION];
        let environment = facts.into_iter().filter(|(name, _)| !own.contains(&name.as_str())).collect();
        Ok(Stored { plan, variants, runs, looks, calibration, environment, run_facts })
    }
}

/// Returns facts under their current names, so that runs of an earlier version are comparable.
fn facts(reader: &Reader, run: Option<RunId>) -> Result<Vec<(String, String)>> {
    Ok(reader.provenance(run)?.into_iter().map(|(name, value)| current(name, value)).collect())
}
