//! What one run yielded, and whether it counts.

use crate::metric::Metric;
use crate::schedule::Slot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why a run is kept but left out of the analysis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "why", content = "detail")]
pub enum Exclusion {
    /// The server did not start, or not in time.
    #[error("the server did not get ready: {0}")]
    NotReady(String),
    /// The server ended during the run.
    #[error("the server ended during the run: {0}")]
    Died(String),
    /// What was live in the server's processes is not what the variant claims.
    #[error("the variant was not what it claims: {0}")]
    NotAsClaimed(String),
    /// The load failed.
    #[error("the load failed: {0}")]
    LoadFailed(String),
    /// The load ran, but lost messages, had errors or was late.
    #[error("the load was not clean: {0}")]
    Dirty(String),
    /// Others used more of the machine than the plan allows.
    #[error("the run was disturbed: {0}")]
    Disturbed(String),
    /// Something of the run was still there after it, and had to be removed by force.
    #[error("the run left something behind: {0}")]
    LeftBehind(String),
}

/// One finished run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// Its place in the experiment.
    pub slot: Slot,
    /// Wall time of the whole run, start of the server to its end, in seconds.
    pub wall_s: f64,
    /// What was measured; a metric that this load or machine does not yield is absent.
    pub metrics: BTreeMap<Metric, f64>,
    /// p95 latency in seconds at each step of the load, by the step's number of clients.
    pub steps: Vec<(f64, f64)>,
    /// What proves the variant, in words.
    pub proof: Vec<String>,
    /// Share of the machine's CPU that the harness took while the load ran (0.01 is 1 %); the load's own is not in it.
    pub harness_cpu: f64,
    /// Share of the machine's CPU that went to anything but server, load and harness while the load ran; where it is known.
    pub other_cpu: Option<f64>,
    /// Why it does not count; `None`: it counts.
    pub excluded: Option<Exclusion>,
}

impl RunResult {
    /// Whether it counts, and is a run of the variant with this index.
    #[must_use]
    pub fn counts_for(&self, variant: usize) -> bool {
        self.excluded.is_none() && self.slot.variant == variant
    }
}

/// The largest share of the machine's CPU that the harness took in any of the runs; see [`RunResult::harness_cpu`].
#[must_use]
pub fn most_harness_cpu(results: &[RunResult]) -> f64 {
    results.iter().map(|run| run.harness_cpu).fold(0.0, f64::max)
}
