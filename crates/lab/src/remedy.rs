//! The one change that would decide an experiment, with its price.

use crate::analysis::Analysis;
use crate::calibration::Calibration;
use crate::metric::Metric;
use crate::plan::Plan;
use crate::recommend::{More, Recommendation};
use crate::result::{Exclusion, RunResult};

/// What would decide an experiment that is not decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Remedy {
    /// The load is a closed loop on a saturated server, whose latency is queueing noise: send at a rate instead.
    OpenLoop,
    /// So many places were disturbed each time they were tried.
    QuieterMachine {
        /// Places of the experiment without a run that counts.
        disturbed: usize,
        /// All places.
        places: usize,
    },
    /// More blocks.
    MoreBlocks {
        /// How many.
        blocks: usize,
        /// What they take.
        minutes: f64,
    },
    /// Longer runs, whose figures vary less.
    LongerRuns {
        /// How long each is to be measured, in seconds.
        run_s: f64,
        /// What an experiment with the plan's blocks then takes.
        minutes: f64,
    },
    /// The cost is probably real: accept it, or do without the variant.
    Margin {
        /// What it costs in.
        metric: Metric,
        /// The margin that the data would support, as a share.
        supported: f64,
    },
}

/// Finds it; `None` for an experiment that is decided, or that has no data.
#[must_use]
pub fn remedy(
    plan: &Plan,
    calibration: Option<&Calibration>,
    results: &[RunResult],
    analysis: &Analysis,
    recommendation: &Recommendation,
) -> Option<Remedy> {
    let cost = Cost::of(plan, results, analysis);
    let more = match recommendation {
        Recommendation::Use { .. } | Recommendation::Keep { open: false, .. } => return None,
        Recommendation::NoData => return disturbed(results),
        Recommendation::Keep { open: true, .. } => {
            let blocks = analysis.blocks.max(1);
            if analysis.blocks + blocks <= plan.design.max_blocks {
                More::Blocks(blocks)
            } else {
                More::BeyondLimit
            }
        }
        Recommendation::NeedBlocks { variant, metric, more: More::NoUse } => {
            let supported = analysis.variants.get(*variant)?.metrics.get(metric)?.worst(*metric)? - 1.0;
            return Some(Remedy::Margin { metric: *metric, supported });
        }
        Recommendation::NeedBlocks { more, .. } => *more,
    };
    if is_closed_loop(plan, calibration) {
        return Some(Remedy::OpenLoop);
    }
    if let Some(remedy) = disturbed(results) {
        return Some(remedy);
    }
    Some(match (more, calibration) {
        (More::Blocks(blocks), _) => Remedy::MoreBlocks { blocks, minutes: cost.minutes(blocks, 0.0) },
        (More::BeyondLimit | More::NoUse, Some(Calibration { run_s, .. })) => {
            Remedy::LongerRuns { run_s: 2.0 * run_s, minutes: cost.minutes(plan.design.blocks, *run_s) }
        }
        (More::BeyondLimit | More::NoUse, None) => {
            let blocks = 2 * analysis.blocks.max(1);
            Remedy::MoreBlocks { blocks, minutes: cost.minutes(blocks, 0.0) }
        }
    })
}

/// A bench driver without a rate: neither the plan's nor one of its options'.
#[must_use]
pub fn is_closed_loop(plan: &Plan, calibration: Option<&Calibration>) -> bool {
    let has_rate = |options: &[String]| options.iter().any(|option| option.starts_with("--rate"));
    calibration.is_none() && plan.load.bench().is_some_and(|(_, bench)| !has_rate(&bench.options))
}

/// From a fifth of all places on that are without a run because of a disturbance.
fn disturbed(results: &[RunResult]) -> Option<Remedy> {
    let left =
        |run: &&RunResult| matches!(run.excluded, Some(Exclusion::Disturbed(_))) && !run.is_replaced(results);
    let disturbed = results.iter().filter(left).count();
    let places = results.iter().filter(|run| run.repeat == 0).count();
    (disturbed > 0 && disturbed * 5 >= places).then_some(Remedy::QuieterMachine { disturbed, places })
}

/// What a run takes.
struct Cost {
    runs_of_a_block: usize,
    each_s: f64,
}

impl Cost {
    fn of(plan: &Plan, results: &[RunResult], analysis: &Analysis) -> Self {
        let made: f64 = results.iter().map(|run| run.wall_s).sum();
        let each_s = match results.len() {
            0 => plan.run_takes(None).as_secs_f64(),
            runs => made / runs as f64,
        };
        Cost { runs_of_a_block: analysis.variants.len() + 1, each_s }
    }

    /// Of so many blocks whose runs are longer by so much.
    fn minutes(&self, blocks: usize, longer_s: f64) -> f64 {
        (blocks * self.runs_of_a_block) as f64 * (self.each_s + longer_s) / 60.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::analysis::tests::runs;
    use crate::experiment::conclude;

    fn plan(load: &str) -> Plan {
        Plan::parse(&format!(
            "title = \"x\"\ncompare = [\"glibc\", \"lean\"]\n[server]\nstart = [\"a\"]\nready = {{ line = \"r\" }}\n[load]\n{load}\n"
        ))
        .unwrap()
    }

    const RATE: Calibration =
        Calibration { sustained_per_s: Some(20.0), utilization: Some(0.5), rate_per_s: 10.0, run_s: 60.0 };

    /// Runs whose p95 goes up and down by `noise` from block to block for the variant.
    fn noisy(blocks: usize, noise: f64, cost: f64) -> Vec<RunResult> {
        let mut results = runs(blocks, &[(1.0, 1.0), (0.5, 1.0)]);
        for run in results.iter_mut().filter(|run| run.slot.variant == 1) {
            let factor = cost * if run.slot.block % 2 == 0 { 1.0 + noise } else { 1.0 / (1.0 + noise) };
            run.metrics.entry(Metric::P95).and_modify(|value| *value *= factor);
        }
        results
    }

    fn of(plan: &Plan, calibration: Option<&Calibration>, results: &[RunResult]) -> Option<Remedy> {
        let (analysis, recommendation) = conclude(plan, &plan.variants().unwrap(), results, 1);
        remedy(plan, calibration, results, &analysis, &recommendation)
    }

    #[test]
    fn a_closed_loop_is_the_first_thing_to_change() {
        let (closed, open) = (plan("driver = \"http\""), plan("driver = \"http\"\nrate = \"auto\""));
        let results = noisy(6, 0.15, 1.0);
        assert_eq!(of(&closed, None, &results), Some(Remedy::OpenLoop));
        // Three runs a block of ten seconds each.
        let Some(Remedy::MoreBlocks { blocks, minutes }) = of(&open, Some(&RATE), &results) else {
            panic!("{:?}", of(&open, Some(&RATE), &results))
        };
        assert!((minutes - blocks as f64 * 0.5).abs() < 1e-9);
        assert!(!is_closed_loop(&plan("driver = \"http\"\noptions = [\"--rate=5\"]"), None));
    }

    #[test]
    fn where_blocks_do_not_suffice_runs_get_longer_and_where_it_costs_the_margin_is_named() {
        let open = plan("driver = \"http\"\nrate = \"auto\"");
        let longer = of(&open, Some(&RATE), &noisy(6, 0.6, 1.0));
        let expected = Remedy::LongerRuns { run_s: 120.0, minutes: 6.0 * 3.0 * 70.0 / 60.0 };
        assert_eq!(longer, Some(expected));
        let costs = of(&open, Some(&RATE), &noisy(6, 0.12, 1.15));
        assert!(
            matches!(costs, Some(Remedy::Margin { metric: Metric::P95, supported }) if supported > 0.15),
            "{costs:?}"
        );
        assert_eq!(of(&open, Some(&RATE), &noisy(6, 0.0, 1.0)), None);
    }

    #[test]
    fn a_machine_that_is_never_quiet_is_named() {
        let open = plan("driver = \"http\"\nrate = \"auto\"");
        let mut results = noisy(6, 0.15, 1.0);
        for run in results.iter_mut().filter(|run| run.slot.block >= 4) {
            run.excluded = Some(Exclusion::Disturbed("loud".into()));
        }
        let remedy = of(&open, Some(&RATE), &results);
        assert_eq!(remedy, Some(Remedy::QuieterMachine { disturbed: 6, places: 18 }));
    }
}
