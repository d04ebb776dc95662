//! The answer, by the plan's rule: the variant with the least of one metric among those that are shown not to cost more
//! than the margin. "No difference shown" and "more blocks are needed" are answers, too.

use crate::analysis::{Analysis, Comparison, Finding, VariantAnalysis};
use crate::metric::Metric;
use unbloat_stats::contrast::{Block, contrast, margin_alpha};
use unbloat_stats::looks::FIRST_LOOK;
use unbloat_stats::power::Design;

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Recommendation {
    /// Use this variant.
    Use {
        /// Index into the variants.
        variant: usize,
        /// Variants that pass the rule as well and cannot be told from it.
        ties: Vec<usize>,
    },
    /// Nothing is shown to be better than the control at no cost; the experiment was large enough to see an effect of
    /// this ratio.
    Keep {
        /// What would have been seen with 80 % probability.
        detectable: Option<f64>,
        /// The variant with the least of what is to be small, if one is shown to have less, and what speaks against it.
        smaller: Option<(usize, Objection)>,
        /// Whether some variant might still be smaller by more than the margin: neither a difference nor its absence is shown.
        open: bool,
    },
    /// No block has both the control and a variant that count.
    NoData,
    /// A variant looks better, but the experiment is too small to say so, or that it costs nothing.
    NeedBlocks {
        /// Index of the variant.
        variant: usize,
        /// What is undecided; of several metrics the one that needs most.
        metric: Metric,
        /// Blocks to add, all in all.
        more: More,
    },
}

impl Recommendation {
    /// Returns whether more runs would not change it: a variant is to be used, or none can win any more.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        match self {
            Recommendation::Use { .. } => true,
            Recommendation::Keep { open, .. } => !open,
            Recommendation::NoData | Recommendation::NeedBlocks { .. } => false,
        }
    }
}

/// What speaks against a variant for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objection {
    /// It is shown to be worse in this metric, by more than the margin as far as is known.
    Costs(Metric),
    /// None of its runs yields this metric, though the control's do.
    NotMeasured(Metric),
    /// Its server ended by itself in so many runs.
    Died(usize),
}

/// Blocks that would decide, in rising order of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum More {
    /// About so many more, if noise and estimate stay as they are.
    Blocks(usize),
    /// More than the plan allows.
    BeyondLimit,
    /// No number: as it is estimated, the cost is larger than the margin.
    NoUse,
}

/// What keeps a variant from being recommended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Standing {
    /// Passes the rule.
    Passes,
    /// A metric of the rule is not decided.
    Undecided(Metric, More),
    /// Is shown to be better where it matters, but not without this.
    Rejected(Objection),
    /// Is not shown to be better, nor does it look so.
    NoBetter,
}

/// Applies the rule. `max_blocks` bounds what is asked for.
#[must_use]
pub fn recommend(analysis: &Analysis, max_blocks: usize) -> Recommendation {
    let minimize = analysis.settings.rule.minimize;
    let compared = |v: &VariantAnalysis| v.metrics.get(&minimize).is_some_and(|c| c.contrast.is_some());
    if !analysis.variants.iter().any(compared) {
        return Recommendation::NoData;
    }
    let standings: Vec<Standing> =
        analysis.variants.iter().map(|v| standing(v, analysis, max_blocks)).collect();
    let least = |wanted: fn(&Standing) -> bool| {
        let candidates = (1..analysis.variants.len()).filter(|&i| wanted(&standings[i]));
        candidates.min_by(|&a, &b| ratio(analysis, a).total_cmp(&ratio(analysis, b)))
    };
    if let Some(variant) = least(|s| *s == Standing::Passes) {
        let rivals =
            (1..analysis.variants.len()).filter(|&i| i != variant && standings[i] == Standing::Passes);
        let ties = rivals.filter(|&i| !told_apart(analysis, variant, i, minimize)).collect();
        return Recommendation::Use { variant, ties };
    }
    let undecided = least(|s| matches!(s, Standing::Undecided(..)));
    if let Some((variant, Standing::Undecided(metric, more))) = undecided.map(|i| (i, standings[i])) {
        return Recommendation::NeedBlocks { variant, metric, more };
    }
    let rejected = least(|s| matches!(s, Standing::Rejected(_)));
    let smaller = rejected.and_then(|i| match standings[i] {
        Standing::Rejected(objection) => Some((i, objection)),
        _ => None,
    });
    let aa = analysis.aa.get(&minimize);
    let open =
        (1..standings.len()).any(|i| standings[i] == Standing::NoBetter && might_be_better(analysis, i));
    Recommendation::Keep { detectable: aa.and_then(|aa| aa.minimum_detectable_ratio), smaller, open }
}

/// Returns whether the bounds of what is to be small reach below the margin. Without bounds there are too few blocks to say.
fn might_be_better(analysis: &Analysis, variant: usize) -> bool {
    let (variant, metric) = (&analysis.variants[variant], analysis.settings.rule.minimize);
    let Some(gain) = variant.metrics.get(&metric) else { return false };
    if variant.died > 0 || matches!(gain.verdict, Finding::Worse | Finding::Same) {
        return false;
    }
    let factor = 1.0 + analysis.settings.rule.margin(metric);
    gain.bounds
        .is_none_or(|(low, high)| if metric.less_is_better() { low < 1.0 / factor } else { high > factor })
}

fn standing(variant: &VariantAnalysis, analysis: &Analysis, max_blocks: usize) -> Standing {
    let rule = &analysis.settings.rule;
    let Some(gain) = variant.metrics.get(&rule.minimize) else { return Standing::NoBetter };
    let is_shown = gain.verdict == Finding::Better;
    // It may be better, but by less than the experiment can see: worth more blocks only if it looks better.
    let is_open = gain.verdict == Finding::NotShown && looks_better(gain, analysis);
    if !is_shown && !is_open {
        return Standing::NoBetter;
    }
    let undecided = |metric, of: &Comparison| {
        Standing::Undecided(metric, blocks_needed(analysis, metric, of, max_blocks))
    };
    let mut standings = vec![if is_shown { Standing::Passes } else { undecided(rule.minimize, gain) }];
    if variant.died > 0 {
        standings.push(Standing::Rejected(Objection::Died(variant.died)));
    }
    // Only what the load measures at all can be asked for; what it does not is warned of.
    let asked = rule.not_worse.iter().filter(|m| analysis.variants[0].metrics.contains_key(m));
    standings.extend(asked.map(|&metric| match variant.metrics.get(&metric) {
        None => Standing::Rejected(Objection::NotMeasured(metric)),
        Some(cost) if costs_nothing(cost, metric, analysis) => Standing::Passes,
        Some(cost)
            if cost.verdict == Finding::Worse && factor_worse(cost, metric) > 1.0 + rule.margin(metric) =>
        {
            Standing::Rejected(Objection::Costs(metric))
        }
        Some(cost) => undecided(metric, cost),
    }));
    hardest(standings, is_shown)
}

/// The strongest objection.
fn hardest(standings: Vec<Standing>, is_shown: bool) -> Standing {
    let order = |s: &Standing| match s {
        Standing::Passes => (0, More::Blocks(0)),
        Standing::Undecided(_, more) => (1, *more),
        Standing::Rejected(_) | Standing::NoBetter => (2, More::NoUse),
    };
    // Of equal ones the first.
    match standings.into_iter().rev().max_by_key(order).unwrap_or(Standing::NoBetter) {
        Standing::Rejected(_) if !is_shown => Standing::NoBetter,
        hardest => hardest,
    }
}

/// Shown to be within the margin, or better.
fn costs_nothing(cost: &Comparison, metric: Metric, analysis: &Analysis) -> bool {
    let within = |worst| worst <= 1.0 + analysis.settings.rule.margin(metric);
    matches!(cost.verdict, Finding::Better | Finding::Same) || cost.worst(metric).is_some_and(within)
}

/// The estimate, turned so that above 1 is worse.
fn factor_worse(comparison: &Comparison, metric: Metric) -> f64 {
    let ratio = comparison.contrast.map_or(1.0, |c| c.ratio);
    if metric.less_is_better() { ratio } else { 1.0 / ratio }
}

/// Better by more than the margin, if the estimate is right.
fn looks_better(gain: &Comparison, analysis: &Analysis) -> bool {
    let rule = &analysis.settings.rule;
    factor_worse(gain, rule.minimize) < 1.0 / (1.0 + rule.margin(rule.minimize))
}

/// How much is left of what is to be small, compared with the control.
fn ratio(analysis: &Analysis, variant: usize) -> f64 {
    let metric = analysis.settings.rule.minimize;
    analysis.variants[variant].metrics.get(&metric).map_or(f64::INFINITY, |c| factor_worse(c, metric))
}

fn told_apart(analysis: &Analysis, a: usize, b: usize, metric: Metric) -> bool {
    let values =
        |i: usize| analysis.variants[i].metrics.get(&metric).map(|c| c.values.as_slice()).unwrap_or(&[]);
    let blocks: Vec<Block> = values(a)
        .iter()
        .map(|&(block, variant)| Block {
            controls: values(b).iter().filter(|v| v.0 == block).map(|v| v.1).collect(),
            variant,
        })
        .collect();
    let interval = contrast(&blocks, analysis.settings.alpha(), 1).and_then(|c| c.interval);
    interval.is_some_and(|(low, high)| high < 1.0 || low > 1.0)
}

/// Blocks until the interval that decides is narrow enough, if estimate and spread stay what they are.
fn blocks_needed(analysis: &Analysis, metric: Metric, of: &Comparison, max_blocks: usize) -> More {
    // Before the first look by what that one may spend.
    let alpha = analysis.settings.look_alpha(analysis.blocks.max(FIRST_LOOK));
    let comparisons = analysis.comparisons.max(1);
    let Some(contrast) = of.contrast else { return More::BeyondLimit };
    let fewest = (1..=max_blocks).find(|&blocks| Design { blocks, comparisons, alpha }.can_decide());
    let (half_width, level) = if metric == analysis.settings.rule.minimize {
        (contrast.ratio.ln().abs(), alpha / comparisons as f64)
    } else {
        let margin = 1.0 + analysis.settings.rule.margin(metric);
        let variants = analysis.variants.len().saturating_sub(1);
        (margin.ln() - factor_worse(of, metric).ln(), margin_alpha(alpha, variants))
    };
    let enough = match (contrast.interval, contrast.log_sd) {
        (Some(_), _) if half_width <= 0.0 => return More::NoUse,
        (Some(_), Some(log_sd)) => Design::blocks_for_half_width(log_sd, half_width, level, max_blocks),
        // Too few to estimate anything: the fewest that can decide.
        _ => fewest,
    };
    // One more at least: what was undecided with these blocks may be decided with the next.
    let more = fewest.zip(enough).map(|(a, b)| a.max(b).saturating_sub(contrast.blocks).max(1));
    more.filter(|more| analysis.blocks + more <= max_blocks).map_or(More::BeyondLimit, More::Blocks)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::analysis::analyze;
    use crate::analysis::tests::{names, runs, settings};
    use crate::result::{Exclusion, RunResult};

    fn of(variants: usize, results: &[RunResult]) -> Recommendation {
        recommend(&analyze(&names(variants), results, settings()), 20)
    }

    fn answer(blocks: usize, effects: &[(f64, f64)]) -> Recommendation {
        of(effects.len(), &runs(blocks, effects))
    }

    #[test]
    fn the_smallest_at_no_cost_wins() {
        let answer = answer(8, &[(1.0, 1.0), (0.8, 1.0), (0.6, 1.0), (0.4, 1.5)]);
        assert_eq!(answer, Recommendation::Use { variant: 2, ties: vec![] });
    }

    #[test]
    fn what_cannot_be_told_apart_is_said() {
        let answer = answer(8, &[(1.0, 1.0), (0.6, 1.0), (0.6001, 1.0)]);
        assert!(matches!(answer, Recommendation::Use { ref ties, .. } if ties.len() == 1), "{answer:?}");
    }

    #[test]
    fn identical_variants_recommend_nothing() {
        let answer = answer(8, &[(1.0, 1.0), (1.0, 1.0)]);
        assert!(
            matches!(answer, Recommendation::Keep { detectable: Some(_), smaller: None, open: false }),
            "{answer:?}"
        );
    }

    #[test]
    fn a_slowdown_is_not_bought() {
        // And the smaller one of the two that cost is named, with what it costs.
        let answer = answer(8, &[(1.0, 1.0), (0.7, 1.2), (0.5, 1.2)]);
        let Recommendation::Keep { smaller: Some((2, Objection::Costs(metric))), .. } = answer else {
            panic!("{answer:?}")
        };
        assert!([Metric::P95, Metric::Throughput].contains(&metric));
    }

    #[test]
    fn without_runs_there_is_no_answer() {
        assert_eq!(answer(0, &[(1.0, 1.0), (0.5, 1.0)]), Recommendation::NoData);
    }

    #[test]
    fn too_few_blocks_ask_for_more() {
        let answer = answer(3, &[(1.0, 1.0), (0.5, 1.0)]);
        assert!(
            matches!(answer, Recommendation::NeedBlocks { variant: 1, more: More::Blocks(2), .. }),
            "{answer:?}"
        );
    }

    #[test]
    fn a_server_that_dies_is_not_recommended() {
        let mut results = runs(8, &[(1.0, 1.0), (0.7, 1.0), (0.5, 1.0)]);
        let of_b = results.iter_mut().find(|r| r.slot.variant == 2).unwrap();
        of_b.excluded = Some(Exclusion::Died("SIGSEGV".into()));
        assert_eq!(of(3, &results), Recommendation::Use { variant: 1, ties: vec![] });
        for run in results.iter_mut().filter(|r| r.slot.variant == 1 && r.slot.block < 2) {
            run.excluded = Some(Exclusion::Died("SIGSEGV".into()));
        }
        let answer = of(3, &results);
        let smallest = Some((2, Objection::Died(1)));
        assert!(matches!(answer, Recommendation::Keep { smaller, .. } if smaller == smallest), "{answer:?}");
    }

    /// Runs whose p95 is `cost` times the control's, up and down by `noise` from block to block.
    fn noisy_latency(blocks: usize, cost: f64, noise: f64) -> Vec<RunResult> {
        let mut results = runs(blocks, &[(1.0, 1.0), (0.5, 1.0)]);
        for run in results.iter_mut().filter(|r| r.slot.variant == 1) {
            let factor = cost * if run.slot.block % 2 == 0 { 1.0 + noise } else { 1.0 / (1.0 + noise) };
            run.metrics.entry(Metric::P95).and_modify(|v| *v *= factor);
        }
        results
    }

    fn needed(blocks: usize, cost: f64, noise: f64) -> More {
        match of(2, &noisy_latency(blocks, cost, noise)) {
            Recommendation::NeedBlocks { variant: 1, metric: Metric::P95, more } => more,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_needed_depends_on_the_estimate() {
        // The nearer the estimate is to the margin, the more blocks it takes to tell.
        let (far, near) = (needed(6, 0.99, 0.05), needed(6, 1.0, 0.05));
        assert!(matches!((far, near), (More::Blocks(a), More::Blocks(b)) if a < b), "{far:?} {near:?}");
        assert_eq!(needed(6, 1.02, 0.05), More::BeyondLimit);
        assert_eq!(needed(6, 1.08, 0.10), More::NoUse, "a cost beyond the margin is not argued away");
    }
}
