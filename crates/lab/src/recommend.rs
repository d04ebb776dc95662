//! The answer by the plan's rule (`unbloat_stats::decision`): the variant with the least of one metric among
//! those shown not to cost more than the margin; the control, if none is worthwhile; or none yet.

use crate::demands::{Bar, Demands, values};
use crate::metric::Metric;
use crate::result::RunResult;
use unbloat_stats::contrast::{Block, Summary, contrast};
use unbloat_stats::decision::{self, Finding, Standing as Stand};
use unbloat_stats::effort::blocks_that_decide;
use unbloat_stats::forecast::Forecast;
use unbloat_stats::power::ALPHA;
use unbloat_stats::race::{Look, ratios};

/// The answer and its derivation.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// The answer.
    pub answer: Answer,
    /// Standing of each variant but the control, in the plan's order.
    pub standings: Vec<Standing>,
    /// Expectations of the remaining blocks, if the experiment may go on.
    pub forecast: Option<Forecast>,
}

/// The conclusion from an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Use this variant.
    Use {
        /// Index into the variants, the control being 0.
        variant: usize,
        /// Variants that also pass the rule and cannot be distinguished from it.
        ties: Vec<usize>,
    },
    /// Every variant is shown to gain too little or to cost too much: keep the control.
    Keep,
    /// Not decided: the open variant that looks smallest, and its requirement that takes most to decide.
    Undecided {
        /// Index of the variant.
        variant: usize,
        /// The undecided metric.
        metric: Metric,
    },
    /// No block has counted runs of both the control and a variant.
    NoData,
}

/// Standing of a variant under the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is shown to take less, within the allowed costs.
    Passes,
    /// It cannot be recommended.
    RuledOut(Objection),
    /// Undecided in this metric.
    Open(Metric),
    /// Undecided in this metric, and without further runs, because it can hardly pass.
    Dropped(Metric),
}

/// A certain reason against a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objection {
    /// It gains less than is worthwhile.
    GainsTooLittle,
    /// It costs more than the margin in this metric.
    Costs(Metric),
    /// A reason that is independent of its figures.
    Barred(Bar),
}

impl Recommendation {
    /// Returns whether more runs would not change it: a variant is to be used, or none can win.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        matches!(self.answer, Answer::Use { .. } | Answer::Keep)
    }
}

/// Draws the conclusion from a look at the runs.
#[must_use]
pub fn recommend(demands: &Demands, look: Look, results: &[RunResult], seed: u64) -> Recommendation {
    let standing = |(index, stand): (usize, &Stand)| standing(demands, index, *stand);
    let standings: Vec<Standing> = look.standings.iter().enumerate().map(standing).collect();
    let answer = match look.answer {
        _ if !has_data(demands) => Answer::NoData,
        decision::Answer::Use(index) => usable(demands, &standings, index + 1, results),
        decision::Answer::Keep => Answer::Keep,
        // A passing variant is an answer, although the experiment would continue for a possibly smaller one.
        decision::Answer::GoOn | decision::Answer::Undecided => match smallest_passing(demands, &standings) {
            Some(variant) => usable(demands, &standings, variant, results),
            None => undecided(demands, &standings, seed),
        },
    };
    Recommendation { answer, standings, forecast: look.forecast }
}

fn usable(demands: &Demands, standings: &[Standing], variant: usize, results: &[RunResult]) -> Answer {
    let is_rival = |&other: &usize| other != variant && standings[other - 1] == Standing::Passes;
    let is_tie = |&other: &usize| !told_apart(results, [variant, other], demands.metrics[0]);
    Answer::Use { variant, ties: (1..=standings.len()).filter(is_rival).filter(is_tie).collect() }
}

fn smallest_passing(demands: &Demands, standings: &[Standing]) -> Option<usize> {
    let ratios = ratios(&demands.variants);
    let passing = (0..standings.len()).filter(|&index| standings[index] == Standing::Passes);
    passing.min_by(|&a, &b| ratios[a].total_cmp(&ratios[b])).map(|index| index + 1)
}

fn has_data(demands: &Demands) -> bool {
    demands
        .variants
        .iter()
        .filter_map(|demands| demands.first())
        .any(|gain| Summary::of(&gain.blocks).is_some())
}

fn standing(demands: &Demands, index: usize, stand: Stand) -> Standing {
    let metric = |requirement: usize| demands.metrics[requirement];
    match (stand, demands.barred[index]) {
        (_, Some(bar)) => Standing::RuledOut(Objection::Barred(bar)),
        (Stand::Passes, None) => Standing::Passes,
        (Stand::RuledOut(0) | Stand::Barred, None) => Standing::RuledOut(Objection::GainsTooLittle),
        (Stand::RuledOut(cost), None) => Standing::RuledOut(Objection::Costs(metric(cost))),
        (Stand::Open(open), None) => Standing::Open(metric(open)),
        (Stand::Futile(open), None) => Standing::Dropped(metric(open)),
    }
}

/// Returns the open variant that looks smallest, with its open requirement that takes most blocks to decide.
fn undecided(demands: &Demands, standings: &[Standing], seed: u64) -> Answer {
    let ratios = ratios(&demands.variants);
    let open =
        standings.iter().zip(&ratios).enumerate().filter_map(|(index, (standing, ratio))| match standing {
            Standing::Open(metric) | Standing::Dropped(metric) => Some((index, *metric, *ratio)),
            Standing::Passes | Standing::RuledOut(_) => None,
        });
    let Some((index, first, _)) = open.min_by(|a, b| a.2.total_cmp(&b.2)) else { return Answer::Keep };
    let hardest = open_metrics(demands, index + 1, seed).into_iter().max_by_key(|(_, effort)| *effort);
    Answer::Undecided { variant: index + 1, metric: hardest.map_or(first, |(metric, _)| metric) }
}

/// Returns the metrics in which a variant is open, each with the blocks that would decide it; the largest
/// number means none.
#[must_use]
pub fn open_metrics(demands: &Demands, variant: usize, seed: u64) -> Vec<(Metric, usize)> {
    let Some(asked) = variant.checked_sub(1).and_then(|index| demands.variants.get(index)) else {
        return Vec::new();
    };
    let findings = demands.rule.findings(&demands.variants, variant - 1, seed);
    let effort = |index: usize| {
        let summary = Summary::of(&asked[index].blocks)?;
        blocks_that_decide(&demands.rule, asked[index].requirement, &summary, MOST_BLOCKS)
    };
    let open = findings.iter().enumerate().filter(|(_, finding)| **finding == Finding::Open);
    open.map(|(index, _)| (demands.metrics[index], effort(index).unwrap_or(usize::MAX))).collect()
}

/// The number of blocks beyond which continuing makes no sense.
pub const MOST_BLOCKS: usize = 200;

fn told_apart(results: &[RunResult], [a, b]: [usize; 2], metric: Metric) -> bool {
    let (values, others) = (values(results, a, metric), values(results, b, metric));
    let of_block = |block| others.iter().filter(|other| other.0 == block).map(|other| other.2).collect();
    let blocks: Vec<Block> =
        values.iter().map(|&(block, _, variant)| Block { controls: of_block(block), variant }).collect();
    let interval = contrast(&blocks, ALPHA, 1).and_then(|contrast| contrast.interval);
    interval.is_some_and(|(low, high)| high < 1.0 || low > 1.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::analysis::tests::{names, runs, settings};
    use crate::analysis::{Settings, conclude};
    use crate::result::Exclusion;
    use unbloat_stats::looks::Looks;

    fn of(variants: usize, results: &[RunResult]) -> Recommendation {
        conclude(&names(variants), results, settings()).1
    }

    fn answer(blocks: usize, effects: &[(f64, f64)]) -> Answer {
        of(effects.len(), &runs(blocks, effects)).answer
    }

    #[test]
    fn the_smallest_at_no_cost_wins() {
        let answer = answer(8, &[(1.0, 1.0), (0.8, 1.0), (0.6, 1.0), (0.4, 1.5)]);
        assert_eq!(answer, Answer::Use { variant: 2, ties: vec![] });
    }

    #[test]
    fn what_cannot_be_told_apart_is_said() {
        let answer = answer(8, &[(1.0, 1.0), (0.6, 1.0), (0.6001, 1.0)]);
        assert!(matches!(answer, Answer::Use { ref ties, .. } if ties.len() == 1), "{answer:?}");
    }

    #[test]
    fn identical_variants_leave_the_control() {
        let found = of(2, &runs(8, &[(1.0, 1.0), (1.0, 1.0)]));
        assert_eq!(found.answer, Answer::Keep);
        assert_eq!(found.standings, [Standing::RuledOut(Objection::GainsTooLittle)]);
    }

    #[test]
    fn a_slowdown_is_not_bought() {
        let found = of(3, &runs(8, &[(1.0, 1.0), (0.7, 1.2), (0.5, 1.2)]));
        assert_eq!(found.answer, Answer::Keep);
        for standing in found.standings {
            let Standing::RuledOut(Objection::Costs(metric)) = standing else { panic!("{standing:?}") };
            assert!([Metric::P95, Metric::Throughput].contains(&metric));
        }
    }

    #[test]
    fn without_runs_there_is_no_answer() {
        assert_eq!(answer(0, &[(1.0, 1.0), (0.5, 1.0)]), Answer::NoData);
    }

    #[test]
    fn too_few_blocks_decide_nothing() {
        let answer = answer(3, &[(1.0, 1.0), (0.5, 1.0)]);
        assert!(matches!(answer, Answer::Undecided { variant: 1, .. }), "{answer:?}");
    }

    #[test]
    fn a_server_that_dies_is_not_recommended() {
        let mut results = runs(8, &[(1.0, 1.0), (0.7, 1.0), (0.5, 1.0)]);
        let of_b = results.iter_mut().find(|r| r.slot.variant == 2).unwrap();
        of_b.excluded = Some(Exclusion::Died("SIGSEGV".into()));
        assert_eq!(of(3, &results).answer, Answer::Use { variant: 1, ties: vec![] });
        for run in results.iter_mut().filter(|r| r.slot.variant == 1 && r.slot.block < 2) {
            run.excluded = Some(Exclusion::Died("SIGSEGV".into()));
        }
        let found = of(3, &results);
        let died = |runs| Standing::RuledOut(Objection::Barred(Bar::Died(runs)));
        assert_eq!((found.answer, found.standings), (Answer::Keep, vec![died(2), died(1)]));
    }

    #[test]
    fn a_variant_that_yields_less_than_the_control_is_not_recommended() {
        let mut results = runs(8, &[(1.0, 1.0), (0.5, 1.0)]);
        for run in results.iter_mut().filter(|run| run.slot.variant == 1) {
            run.metrics.remove(&Metric::P95);
        }
        let bar = Bar::NotMeasured(Metric::P95);
        assert_eq!(of(2, &results).standings, [Standing::RuledOut(Objection::Barred(bar))]);
    }

    /// Creates runs whose p95 is `cost` times the control's, varying by `noise` from block to block.
    fn noisy_latency(blocks: usize, cost: f64, noise: f64) -> Vec<RunResult> {
        let mut results = runs(blocks, &[(1.0, 1.0), (0.5, 1.0)]);
        for run in results.iter_mut().filter(|r| r.slot.variant == 1) {
            let factor = cost * if run.slot.block % 2 == 0 { 1.0 + noise } else { 1.0 / (1.0 + noise) };
            run.metrics.entry(Metric::P95).and_modify(|v| *v *= factor);
        }
        results
    }

    #[test]
    fn one_that_passes_is_an_answer_although_another_may_be_smaller() {
        let mut results = runs(8, &[(1.0, 1.0), (0.8, 1.0), (0.5, 1.0)]);
        for run in results.iter_mut().filter(|run| run.slot.variant == 2) {
            let factor = if run.slot.block % 2 == 0 { 1.06 } else { 0.95 };
            run.metrics.entry(Metric::P95).and_modify(|value| *value *= factor);
        }
        let found = of(3, &results);
        assert_eq!(found.standings, [Standing::Passes, Standing::Open(Metric::P95)]);
        assert_eq!(found.answer, Answer::Use { variant: 1, ties: vec![] });
    }

    #[test]
    fn what_is_open_is_named_with_what_it_takes() {
        let needed = |cost: f64, noise: f64| {
            let results = noisy_latency(6, cost, noise);
            let found = of(2, &results);
            assert_eq!(found.answer, Answer::Undecided { variant: 1, metric: Metric::P95 }, "{cost} {noise}");
            open_metrics(&Demands::of(2, &results, &settings()), 1, 1)[0].1
        };
        // The nearer the estimate is to the margin, the more blocks it takes to decide.
        let (far, near) = (needed(0.99, 0.05), needed(1.0, 0.05));
        assert!(far < near && near < MOST_BLOCKS, "{far} {near}");
        assert_eq!(needed(1.0299, 0.05), usize::MAX);
        assert!(needed(1.12, 0.10) < MOST_BLOCKS, "a cost beyond the margin is ruled out by more blocks");
    }

    #[test]
    fn what_can_hardly_pass_is_dropped_in_a_sequential_experiment_only() {
        let results = noisy_latency(18, 1.03, 0.08);
        let looks = Looks::every_block(20, 3, ALPHA);
        let found = conclude(&names(2), &results, Settings { looks, ..settings() }).1;
        assert_eq!(found.standings, [Standing::Dropped(Metric::P95)]);
        assert!(!found.is_decided() && found.forecast.is_some());
        assert_eq!(of(2, &results).standings, [Standing::Open(Metric::P95)]);
    }
}
