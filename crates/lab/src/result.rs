//! The result of one run, and the reasons to exclude it.

use crate::metric::Metric;
use crate::pressure::PerResource;
use crate::schedule::Slot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The reason why a run is kept but excluded from the analysis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "why", content = "detail")]
pub enum Exclusion {
    /// The server did not get ready, or not in time.
    #[error("the server did not get ready: {0}")]
    NotReady(String),
    /// The server ended during the run.
    #[error("the server ended during the run: {0}")]
    Died(String),
    /// The state of the server's processes contradicts the variant's claims.
    #[error("the variant was not what it claims: {0}")]
    NotAsClaimed(String),
    /// The load failed.
    #[error("the load failed: {0}")]
    LoadFailed(String),
    /// The load ran, but lost messages, had errors or was late.
    #[error("the load was not clean: {0}")]
    Dirty(String),
    /// Other programs used more of the machine than the plan allows; the run is repeated at its block's end.
    #[error("the run was disturbed: {0}")]
    Disturbed(String),
    /// Something of the run remained after it and had to be removed by force.
    #[error("the run left something behind: {0}")]
    LeftBehind(String),
}

/// One finished run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// Its place in the experiment.
    pub slot: Slot,
    /// Number of earlier runs in this slot that were disturbed and repeated: 0 for the first one.
    pub repeat: usize,
    /// Wall time of the whole run, from the server's start to its end, in seconds.
    pub wall_s: f64,
    /// The measurements; metrics that this load or machine does not yield are absent.
    pub metrics: BTreeMap<Metric, f64>,
    /// p95 latency in seconds at each step of the load, by the step's number of clients.
    pub steps: Vec<(f64, f64)>,
    /// The proof of the variant, in words.
    pub proof: Vec<String>,
    /// Share of the machine's CPU that the harness used while the load ran (0.01 is 1 %), excluding the load
    /// itself.
    pub harness_cpu: f64,
    /// Share of the machine's CPU used by anything other than server, load and harness while the load ran, if
    /// known.
    pub other_cpu: Option<f64>,
    /// Share of the time in which some task waited for CPU, disk or memory while the load ran.
    pub stalled: PerResource,
    /// The reason why it does not count; `None` if it does.
    pub excluded: Option<Exclusion>,
}

impl RunResult {
    /// Returns whether it counts and belongs to the variant with this index.
    #[must_use]
    pub fn counts_for(&self, variant: usize) -> bool {
        self.excluded.is_none() && self.slot.variant == variant
    }
}

/// Returns the largest share of the machine's CPU that the harness used in any run; see
/// [`RunResult::harness_cpu`].
#[must_use]
pub fn most_harness_cpu(results: &[RunResult]) -> f64 {
    results.iter().map(|run| run.harness_cpu).fold(0.0, f64::max)
}

/// Returns the slots of a block whose runs were all disturbed, with their number of runs. They are repeated
/// while they have at most `limit` of them.
#[must_use]
pub fn to_repeat(results: &[RunResult], block: usize, limit: usize) -> Vec<(Slot, usize)> {
    let mut disturbed: BTreeMap<Slot, Option<usize>> = BTreeMap::new();
    for run in results.iter().filter(|run| run.slot.block == block) {
        let runs = disturbed.entry(run.slot).or_insert(Some(0));
        *runs = match &run.excluded {
            Some(Exclusion::Disturbed(_)) => runs.map(|runs| runs + 1),
            _ => None,
        };
    }
    let repeatable = |(slot, runs): (Slot, Option<usize>)| Some((slot, runs.filter(|runs| *runs <= limit)?));
    disturbed.into_iter().filter_map(repeatable).filter(|(_, runs)| *runs > 0).collect()
}

/// Returns the number of runs that were disturbed and repeated.
#[must_use]
pub fn repeated(results: &[RunResult]) -> usize {
    results.iter().filter(|run| run.repeat > 0).count()
}

impl RunResult {
    /// Returns whether it was disturbed and replaced by a later run.
    #[must_use]
    pub fn is_replaced(&self, results: &[RunResult]) -> bool {
        matches!(self.excluded, Some(Exclusion::Disturbed(_)))
            && results.iter().any(|run| run.slot == self.slot && run.repeat > self.repeat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::runs;

    #[test]
    fn disturbed_runs_are_to_be_repeated_up_to_a_limit() {
        let mut results = runs(2, &[(1.0, 1.0), (1.0, 1.0)]);
        let disturbed = || Some(Exclusion::Disturbed("loud".into()));
        results[1].excluded = disturbed();
        results[2].excluded = Some(Exclusion::Dirty("3 lost".into()));
        let slot = results[1].slot;
        assert_eq!(to_repeat(&results, 0, 2), [(slot, 1)]);
        assert_eq!(to_repeat(&results, 1, 2), []);
        let again = |repeat, excluded| RunResult {
            repeat,
            excluded,
            ..runs(1, &[(1.0, 1.0), (1.0, 1.0)])[1].clone()
        };
        results.push(again(1, disturbed()));
        assert_eq!(to_repeat(&results, 0, 2), [(slot, 2)]);
        assert_eq!(to_repeat(&results, 0, 1), [], "twice is the limit");
        results.push(again(2, None));
        assert_eq!(to_repeat(&results, 0, 2), [], "the last one counts");
        assert!(results[1].is_replaced(&results) && !results[2].is_replaced(&results));
        assert_eq!(repeated(&results), 2);
    }
}
