//! The answer, by the plan's rule: the variant with the least of one metric among those that are shown not to cost more
//! than the margin. "No difference shown" and "more blocks are needed" are answers, too.

use crate::analysis::{Analysis, Comparison, VariantAnalysis, Verdict};
use crate::metric::Metric;
use crate::plan::Rule;
use unbloat_stats::contrast::{Block, contrast};
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
    },
    /// No block has both the control and a variant that count.
    NoData,
    /// A variant looks better, but the experiment is too small to say so, or that it costs nothing.
    NeedBlocks {
        /// Index of the variant.
        variant: usize,
        /// What is undecided.
        metric: Metric,
        /// Blocks to add, all in all; `None`: more than the plan allows.
        more: Option<usize>,
    },
}

/// What keeps a variant from being recommended, the strongest objection first.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Standing {
    /// Passes the rule.
    Passes,
    /// A metric of the rule is not decided; with its spread over blocks.
    Undecided(Metric, Option<f64>),
    /// Fails for certain.
    Fails,
}

/// Applies the rule. `max_blocks` bounds what is asked for.
#[must_use]
pub fn recommend(analysis: &Analysis, rule: &Rule, max_blocks: usize) -> Recommendation {
    let compared = |v: &VariantAnalysis| v.metrics.get(&rule.minimize).is_some_and(|c| c.contrast.is_some());
    if !analysis.variants.iter().any(compared) {
        return Recommendation::NoData;
    }
    let standings: Vec<Standing> = analysis.variants.iter().map(|v| standing(v, analysis, rule)).collect();
    let least = |wanted: fn(&Standing) -> bool| {
        let candidates = (1..analysis.variants.len()).filter(|&i| wanted(&standings[i]));
        candidates.min_by(|&a, &b| ratio(analysis, a, rule).total_cmp(&ratio(analysis, b, rule)))
    };
    if let Some(variant) = least(|s| *s == Standing::Passes) {
        let rivals =
            (1..analysis.variants.len()).filter(|&i| i != variant && standings[i] == Standing::Passes);
        let ties = rivals.filter(|&i| !told_apart(analysis, variant, i, rule.minimize)).collect();
        return Recommendation::Use { variant, ties };
    }
    let undecided = least(|s| matches!(s, Standing::Undecided(..)));
    if let Some((variant, Standing::Undecided(metric, log_sd))) = undecided.map(|i| (i, standings[i])) {
        let more = blocks_needed(analysis, rule, log_sd, max_blocks);
        return Recommendation::NeedBlocks { variant, metric, more };
    }
    let aa = analysis.aa.get(&rule.minimize);
    Recommendation::Keep { detectable: aa.and_then(|aa| aa.minimum_detectable_ratio) }
}

fn standing(variant: &VariantAnalysis, analysis: &Analysis, rule: &Rule) -> Standing {
    let Some(gain) = variant.metrics.get(&rule.minimize) else { return Standing::Fails };
    let spread = |c: &Comparison| c.contrast.and_then(|c| c.log_sd);
    // Only what the load measures at all can be asked for.
    let asked = rule.not_worse.iter().filter(|m| analysis.variants[0].metrics.contains_key(m));
    let costs: Vec<Standing> = asked
        .map(|&metric| match variant.metrics.get(&metric) {
            None => Standing::Fails,
            Some(cost) => match (cost.verdict, cost.worst(metric)) {
                (Verdict::Better | Verdict::Same, _) => Standing::Passes,
                (_, Some(worst)) if worst <= 1.0 + rule.margin => Standing::Passes,
                (Verdict::Worse, _) => Standing::Fails,
                _ => Standing::Undecided(metric, spread(cost)),
            },
        })
        .collect();
    if costs.contains(&Standing::Fails) {
        return Standing::Fails;
    }
    let undecided = costs.into_iter().find(|s| *s != Standing::Passes);
    match gain.verdict {
        Verdict::Better => undecided.unwrap_or(Standing::Passes),
        // It may be better, but by less than the experiment can see: worth more blocks only if it looks better.
        Verdict::NotShown if looks_better(gain, rule) => Standing::Undecided(rule.minimize, spread(gain)),
        _ => Standing::Fails,
    }
}

/// Better by more than the margin, if the estimate is right.
fn looks_better(gain: &Comparison, rule: &Rule) -> bool {
    let factor = 1.0 + rule.margin;
    gain.contrast.is_some_and(|c| match rule.minimize.less_is_better() {
        true => c.ratio < 1.0 / factor,
        false => c.ratio > factor,
    })
}

/// How much is left of what is to be small, compared with the control.
fn ratio(analysis: &Analysis, variant: usize, rule: &Rule) -> f64 {
    let contrast = analysis.variants[variant].metrics.get(&rule.minimize).and_then(|c| c.contrast);
    let ratio = contrast.map_or(f64::INFINITY, |c| c.ratio);
    if rule.minimize.less_is_better() { ratio } else { 1.0 / ratio }
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

fn blocks_needed(analysis: &Analysis, rule: &Rule, log_sd: Option<f64>, max_blocks: usize) -> Option<usize> {
    let (variants, alpha) = (analysis.variants.len().saturating_sub(1), analysis.settings.alpha());
    let fewest = (1..=max_blocks).find(|&blocks| Design { blocks, variants, alpha }.can_decide())?;
    let for_margin = match log_sd {
        Some(log_sd) => Design::blocks_for_margin(log_sd, 1.0 + rule.margin, alpha, max_blocks)?,
        None => fewest,
    };
    // One more at least: what was undecided with these blocks may be decided with the next.
    Some(fewest.max(for_margin).saturating_sub(analysis.blocks).max(1))
        .filter(|more| analysis.blocks + more <= max_blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyze;
    use crate::analysis::tests::{SETTINGS, names, runs};

    fn answer(blocks: usize, effects: &[(f64, f64)]) -> Recommendation {
        let analysis = analyze(&names(effects.len()), &runs(blocks, effects), SETTINGS);
        recommend(&analysis, &Rule::default(), 20)
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
        assert!(matches!(answer, Recommendation::Keep { detectable: Some(_) }), "{answer:?}");
    }

    #[test]
    fn a_slowdown_is_not_bought() {
        assert!(matches!(answer(8, &[(1.0, 1.0), (0.5, 1.2)]), Recommendation::Keep { .. }));
    }

    #[test]
    fn without_runs_there_is_no_answer() {
        assert_eq!(answer(0, &[(1.0, 1.0), (0.5, 1.0)]), Recommendation::NoData);
    }

    #[test]
    fn too_few_blocks_ask_for_more() {
        let answer = answer(3, &[(1.0, 1.0), (0.5, 1.0)]);
        assert!(matches!(answer, Recommendation::NeedBlocks { variant: 1, more: Some(2), .. }), "{answer:?}");
    }
}
