//! The one change that would decide an experiment, with its price.

use crate::analysis::Analysis;
use crate::budget::{last_of, takes};
use crate::calibration::Calibration;
use crate::metric::Metric;
use crate::plan::Plan;
use crate::recommend::{Answer, MOST_BLOCKS, Recommendation, open_metrics};
use crate::result::{Exclusion, RunResult};
use unbloat_stats::contrast::Summary;
use unbloat_stats::effort::noise_that_decides;

/// A change that would decide an undecided experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Remedy {
    /// The load is a closed loop on a saturated server, whose latency is queueing noise: use a rate instead.
    OpenLoop,
    /// This many places were disturbed every time.
    QuieterMachine {
        /// Number of places of the experiment without a run that counts.
        disturbed: usize,
        /// Number of all places.
        places: usize,
    },
    /// More blocks.
    MoreBlocks {
        /// Number of blocks.
        blocks: usize,
        /// Their duration.
        minutes: f64,
        /// The looks of this recording were planned for as many; otherwise a new recording takes all of them.
        goes_on: bool,
    },
    /// Longer runs, whose figures vary less.
    LongerRuns {
        /// Measured time of each, in seconds.
        run_s: f64,
        /// Duration of an experiment of ten blocks.
        minutes: f64,
    },
    /// The cost is at its margin: accept it, or do without the variant.
    Margin {
        /// The metric of the cost.
        metric: Metric,
        /// The margin that the data would support, as a share.
        supported: f64,
    },
}

/// Number of blocks of an experiment with longer runs.
const BLOCKS_OF_LONGER_RUNS: usize = 10;

/// A factor beyond which longer runs measure something else: a server that has run for an hour.
const LONGEST_RUNS: f64 = 20.0;

/// Finds the remedy; `None` for an experiment that is decided or has no data.
#[must_use]
pub fn remedy(
    plan: &Plan,
    calibration: Option<&Calibration>,
    results: &[RunResult],
    analysis: &Analysis,
    recommendation: &Recommendation,
) -> Option<Remedy> {
    let (variant, metric) = match recommendation.answer {
        Answer::Use { .. } | Answer::Keep => return None,
        Answer::NoData => return disturbed(results),
        Answer::Undecided { variant, metric } => (variant, metric),
    };
    if is_closed_loop(plan, calibration) {
        return Some(Remedy::OpenLoop);
    }
    if let Some(remedy) = disturbed(results) {
        return Some(remedy);
    }
    let cost = Cost { plan, calibration, results, runs_of_a_block: analysis.variants.len() + 1 };
    let needed = open_metrics(&analysis.demands, variant, analysis.settings.seed);
    let needed = needed.iter().map(|(_, blocks)| *blocks).max().unwrap_or(usize::MAX);
    let more = (needed <= MOST_BLOCKS).then(|| cost.more_blocks(analysis, needed));
    let longer = cost.longer_runs(analysis, variant, metric);
    match (more, longer) {
        (Some((more, price)), Some((_, longer))) if price <= longer => Some(more),
        (_, Some((longer, _))) => Some(longer),
        (Some((more, _)), None) => Some(more),
        (None, None) => {
            let supported = analysis.variants.get(variant)?.metrics.get(&metric)?.worst(metric)? - 1.0;
            Some(Remedy::Margin { metric, supported })
        }
    }
}

/// Returns whether the load is a bench driver without a rate, neither the plan's nor that of an option.
#[must_use]
pub fn is_closed_loop(plan: &Plan, calibration: Option<&Calibration>) -> bool {
    let has_rate = |options: &[String]| options.iter().any(|option| option.starts_with("--rate"));
    calibration.is_none() && plan.load.bench().is_some_and(|(_, bench)| !has_rate(&bench.options))
}

/// Returns the disturbance if at least a fifth of all places have no run because of one.
fn disturbed(results: &[RunResult]) -> Option<Remedy> {
    let left =
        |run: &&RunResult| matches!(run.excluded, Some(Exclusion::Disturbed(_))) && !run.is_replaced(results);
    let disturbed = results.iter().filter(left).count();
    let places = results.iter().filter(|run| run.repeat == 0).count();
    (disturbed > 0 && disturbed * 5 >= places).then_some(Remedy::QuieterMachine { disturbed, places })
}

/// The price of runs.
struct Cost<'a> {
    plan: &'a Plan,
    calibration: Option<&'a Calibration>,
    results: &'a [RunResult],
    runs_of_a_block: usize,
}

impl Cost<'_> {
    /// Returns the minutes of this many blocks whose runs are longer by this much.
    fn minutes(&self, blocks: usize, longer_s: f64) -> f64 {
        let runs = (blocks * self.runs_of_a_block) as f64;
        (takes(self.plan, self.calibration, self.results, runs).as_secs_f64() + runs * longer_s) / 60.0
    }

    /// Returns the remedy of continuing up to this many blocks, or of repeating all of them in a new
    /// recording if the looks of this one were planned for fewer.
    fn more_blocks(&self, analysis: &Analysis, needed: usize) -> (Remedy, f64) {
        let looks = analysis.settings.look_count();
        let goes_on = last_of(looks).is_some_and(|last| needed <= last);
        let blocks = if goes_on { needed.saturating_sub(analysis.blocks).max(1) } else { needed };
        let minutes = self.minutes(blocks, 0.0);
        (Remedy::MoreBlocks { blocks, minutes, goes_on }, minutes)
    }

    /// Returns the remedy of longer runs, which are assumed to lower the noise by the root of the factor, as
    /// they do for noise within a run.
    fn longer_runs(&self, analysis: &Analysis, variant: usize, metric: Metric) -> Option<(Remedy, f64)> {
        let run_s = self.calibration?.run_s;
        let demand = analysis.demands.demand(variant, metric)?;
        let summary = Summary::of(&demand.blocks)?;
        let rule = &analysis.demands.rule;
        let allowed = noise_that_decides(rule, demand.requirement, summary.log_mean, BLOCKS_OF_LONGER_RUNS);
        let factor = (summary.log_sd / allowed).powi(2).max(1.0);
        let longer_s = run_s * (factor - 1.0);
        let minutes = self.minutes(BLOCKS_OF_LONGER_RUNS, longer_s);
        let remedy = Remedy::LongerRuns { run_s: (run_s * factor).ceil(), minutes };
        (factor <= LONGEST_RUNS).then_some((remedy, minutes))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::analysis::conclude_plan;
    use crate::analysis::tests::runs;

    fn plan(load: &str) -> Plan {
        Plan::parse(&format!(
            "title = \"x\"\ncompare = [\"glibc\", \"lean\"]\n[server]\nstart = [\"a\"]\nready = {{ line = \"r\" }}\n[load]\n{load}\n"
        ))
        .unwrap()
    }

    const OPEN: &str = "driver = \"http\"\nrate = \"auto\"";

    const RATE: Calibration =
        Calibration { sustained_per_s: Some(20.0), utilization: Some(0.5), rate_per_s: 10.0, run_s: 60.0 };

    /// Creates runs of ten seconds whose p95 varies by `noise` from block to block for the variant.
    fn noisy(blocks: usize, noise: f64, cost: f64) -> Vec<RunResult> {
        let mut results = runs(blocks, &[(1.0, 1.0), (0.5, 1.0)]);
        for run in results.iter_mut().filter(|run| run.slot.variant == 1) {
            let factor = cost * if run.slot.block % 2 == 0 { 1.0 + noise } else { 1.0 / (1.0 + noise) };
            run.metrics.entry(Metric::P95).and_modify(|value| *value *= factor);
        }
        results
    }

    fn of(
        load: &str,
        calibration: Option<&Calibration>,
        results: &[RunResult],
        looks: usize,
    ) -> Option<Remedy> {
        let plan = plan(load);
        let (analysis, recommendation) = conclude_plan(&plan, &plan.variants().unwrap(), results, looks);
        remedy(&plan, calibration, results, &analysis, &recommendation)
    }

    #[test]
    fn a_closed_loop_is_the_first_thing_to_change() {
        let results = noisy(6, 0.15, 1.0);
        assert_eq!(of("driver = \"http\"", None, &results, 1), Some(Remedy::OpenLoop));
        assert!(!is_closed_loop(&plan("driver = \"http\"\noptions = [\"--rate=5\"]"), None));
    }

    #[test]
    fn more_blocks_go_on_where_looks_were_planned_for_them() {
        let results = noisy(6, 0.12, 1.0);
        let Some(Remedy::MoreBlocks { blocks, minutes, goes_on: true }) = of(OPEN, Some(&RATE), &results, 25)
        else {
            panic!("{:?}", of(OPEN, Some(&RATE), &results, 25))
        };
        // Three runs a block of ten seconds each.
        assert!((minutes - blocks as f64 * 0.5).abs() < 1e-9 && blocks > 1, "{blocks} {minutes}");
        let Some(Remedy::MoreBlocks { blocks: all, goes_on: false, .. }) = of(OPEN, Some(&RATE), &results, 1)
        else {
            panic!("{:?}", of(OPEN, Some(&RATE), &results, 1))
        };
        assert!(all > 6, "a fixed number is looked at once: {all} blocks in another recording");
    }

    /// Most of these runs is not load, so longer runs cost less than more runs.
    #[test]
    fn where_servers_take_long_to_start_runs_get_longer() {
        let mut results = noisy(6, 0.3, 1.02);
        results.iter_mut().for_each(|run| run.wall_s = 100.0);
        let short = Calibration { run_s: 10.0, ..RATE };
        let longer = of(OPEN, Some(&short), &results, 1);
        let Some(Remedy::LongerRuns { run_s, minutes }) = longer else { panic!("{longer:?}") };
        assert!(run_s > 50.0, "{run_s}");
        let expected = 30.0 * (100.0 + run_s - 10.0) / 60.0;
        assert!((minutes - expected).abs() < 1.0, "{minutes} {expected}");
    }

    #[test]
    fn at_the_margin_it_is_named_and_what_is_decided_needs_nothing() {
        let costs = of(OPEN, Some(&RATE), &noisy(6, 0.12, 1.0995), 1);
        assert!(
            matches!(costs, Some(Remedy::Margin { metric: Metric::P95, supported }) if supported > 0.1),
            "{costs:?}"
        );
        assert_eq!(of(OPEN, Some(&RATE), &noisy(6, 0.0, 1.0), 1), None);
    }

    #[test]
    fn a_machine_that_is_never_quiet_is_named() {
        let mut results = noisy(6, 0.15, 1.0);
        for run in results.iter_mut().filter(|run| run.slot.block >= 4) {
            run.excluded = Some(Exclusion::Disturbed("loud".into()));
        }
        let remedy = of(OPEN, Some(&RATE), &results, 1);
        assert_eq!(remedy, Some(Remedy::QuieterMachine { disturbed: 6, places: 18 }));
    }
}
