//! Cautions about an analysis that its figures alone do not reveal, or only to a close reader.

use crate::analysis::{Analysis, Settings, VariantAnalysis};
use crate::result::{RunResult, most_harness_cpu};
use unbloat_stats::contrast::Contrast;

/// A caution about the whole experiment.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Warning {
    /// Too few blocks for any significance.
    #[error(
        "too few blocks ({blocks}): they cannot show any difference in {comparisons} comparisons (variants × metrics of \
         the rule), however large; without --blocks, or a plan's blocks, they are added until the rule has an answer"
    )]
    TooFewBlocks {
        /// The largest number of blocks that any variant shares with the control.
        blocks: usize,
        /// Number of comparisons that are corrected together.
        comparisons: usize,
    },
    /// Too few blocks of one variant.
    #[error(
        "only {blocks} of {variant}'s blocks count: they cannot show any difference, however large; add blocks"
    )]
    VariantTooFewBlocks {
        /// The variant's name.
        variant: String,
        /// Its blocks that count.
        blocks: usize,
    },
    /// The rule names a metric that the load does not yield.
    #[error(
        "the rule requires that {metric} does not get worse (rule.not-worse), but this load does not \
         measure it: the variants' cost in it is unknown"
    )]
    NotMeasured {
        /// The metric's name.
        metric: &'static str,
    },
    /// The control differs from itself.
    #[error(
        "the control differs from itself in {metric}: its second runs are {ratio:.2}× ({low:.2}–{high:.2}) \
         its first. By chance that happens to at most one metric in twenty; otherwise something other than \
         the variants changed between runs, for example another program on the machine. Do not trust \
         differences of this size"
    )]
    ControlDiffers {
        /// The metric's name.
        metric: &'static str,
        /// Second control ÷ first control.
        ratio: f64,
        /// Lower end of its interval.
        low: f64,
        /// Upper end of its interval.
        high: f64,
    },
    /// Many runs of a variant were excluded.
    #[error(
        "{excluded} of {runs} runs of {variant} are left out; what they have in common may matter more \
        than the rest"
    )]
    ManyExcluded {
        /// The variant's name.
        variant: String,
        /// Excluded runs.
        excluded: usize,
        /// All runs of the variant.
        runs: usize,
    },
    /// Runs that are compared with each other were not made under the same conditions.
    #[error(
        "{what} is not the same in all runs ({values}): the effect of the change is included in the \
        figures"
    )]
    Mixed {
        /// The fact that changed.
        what: String,
        /// Its values in the order of appearance.
        values: String,
    },
    /// A part of the variant's configuration does not show in its processes.
    #[error("{variant}: {what}; this was requested, but nothing proves it")]
    NotProved {
        /// The variant.
        variant: String,
        /// The unproved part.
        what: String,
    },
    /// The harness itself used more of the machine than it may.
    #[error(
        "the harness took {percent:.1} % of the machine's CPU in its worst run; it should stay below 1 %"
    )]
    HarnessHeavy {
        /// Percent of all cores.
        percent: f64,
    },
}

/// Share of the machine's CPU that the harness may use.
const HARNESS_LIMIT: f64 = 0.01;

/// Returns all warnings that apply.
pub(crate) fn warnings(analysis: &Analysis, results: &[RunResult]) -> Vec<Warning> {
    let mut warnings = few_blocks(analysis);
    let Settings { rule, .. } = &analysis.settings;
    if let Some(control) = analysis.variants.first().filter(|control| control.runs > 0) {
        let missing = rule.not_worse.iter().filter(|metric| !control.metrics.contains_key(metric));
        warnings.extend(missing.map(|metric| Warning::NotMeasured { metric: metric.name() }));
    }
    // A caution is not a claim, so every metric of the rule is tested separately; otherwise six blocks could
    // never trigger it.
    for metric in rule.metrics() {
        let Some(Contrast { ratio, interval: Some((low, high)), .. }) =
            analysis.aa.get(&metric).map(|aa| aa.contrast)
        else {
            continue;
        };
        if high < 1.0 || low > 1.0 {
            warnings.push(Warning::ControlDiffers { metric: metric.name(), ratio, low, high });
        }
    }
    for (index, VariantAnalysis { name, runs, .. }) in analysis.variants.iter().enumerate() {
        let left_out = |run: &&RunResult| {
            run.slot.variant == index && run.excluded.is_some() && !run.is_replaced(results)
        };
        let excluded = results.iter().filter(left_out).count();
        let (variant, runs) = (name.clone(), runs + excluded);
        if excluded * 5 > runs {
            warnings.push(Warning::ManyExcluded { variant, excluded, runs });
        }
    }
    let heaviest = most_harness_cpu(results);
    if heaviest > HARNESS_LIMIT {
        warnings.push(Warning::HarnessHeavy { percent: heaviest * 100.0 });
    }
    warnings
}

/// Warns once for all variants, or for each that has fewer blocks than others.
fn few_blocks(analysis: &Analysis) -> Vec<Warning> {
    let Analysis { comparisons, settings, .. } = analysis;
    let contrast = |v: &VariantAnalysis| v.metrics.get(&settings.rule.minimize)?.contrast;
    let compared: Vec<(&VariantAnalysis, Contrast)> =
        analysis.variants.iter().filter_map(|v| Some((v, contrast(v)?))).collect();
    let (able, unable): (Vec<_>, Vec<_>) = compared
        .into_iter()
        .partition(|(_, c)| c.can_decide(*comparisons, settings.look_alpha(analysis.blocks)));
    match unable.iter().map(|(_, c)| c.blocks).max() {
        Some(blocks) if able.is_empty() => vec![Warning::TooFewBlocks { blocks, comparisons: *comparisons }],
        _ => unable
            .into_iter()
            .map(|(v, c)| Warning::VariantTooFewBlocks { variant: v.name.clone(), blocks: c.blocks })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::analysis::tests::{names, runs, settings};
    use crate::analysis::{Finding, analyze};
    use crate::metric::Metric;
    use crate::plan::Rule;
    use crate::result::Exclusion;

    #[test]
    fn few_blocks_are_warned_of_and_show_nothing() {
        let analysis = analyze(&names(2), &runs(3, &[(1.0, 1.0), (0.1, 1.0)]), settings());
        assert_eq!(analysis.variants[1].metrics[&Metric::PssEnd].verdict, Finding::NotShown);
        assert_eq!(analysis.warnings, [Warning::TooFewBlocks { blocks: 3, comparisons: 3 }]);
    }

    #[test]
    fn a_control_that_differs_from_itself_is_warned_of() {
        // Six blocks, the default: fewer sign flips than a correction over metrics could survive.
        for blocks in [5, 6, 8] {
            let mut results = runs(blocks, &[(1.0, 1.0), (1.0, 1.0)]);
            for run in results.iter_mut().filter(|r| r.slot.replica == 1) {
                run.metrics.entry(Metric::PssEnd).and_modify(|v| *v *= 1.5);
            }
            let warnings = analyze(&names(2), &results, settings()).warnings;
            let differs = |w: &Warning| matches!(w, Warning::ControlDiffers { metric: "pss_end", .. });
            assert!(warnings.iter().any(differs), "{blocks} blocks: {warnings:?}");
        }
    }

    #[test]
    fn what_the_rule_asks_for_and_the_load_does_not_yield_is_warned_of() {
        let rule = Rule { not_worse: vec![Metric::P99, Metric::P95, Metric::CpuPerUnit], ..Rule::default() };
        let analysis =
            analyze(&names(2), &runs(6, &[(1.0, 1.0), (0.5, 1.0)]), Settings { rule, ..settings() });
        let named: Vec<_> =
            analysis.warnings.iter().filter(|w| matches!(w, Warning::NotMeasured { .. })).cloned().collect();
        let expected = ["p99", "cpu_per_unit"].map(|metric| Warning::NotMeasured { metric });
        assert_eq!(named, expected);
    }

    #[test]
    fn blocks_that_count_are_counted_and_a_variant_with_many_runs_left_out_is_named() {
        let mut results = runs(7, &[(1.0, 1.0), (0.5, 1.0), (0.5, 1.0)]);
        let of_a = results.iter_mut().filter(|r| r.slot.variant == 1);
        of_a.take(3).for_each(|run| run.excluded = Some(Exclusion::Died("SIGSEGV".into())));
        let first = results.iter_mut().find(|r| r.slot.variant == 0).unwrap();
        first.excluded = Some(Exclusion::Dirty("3 messages lost".into()));
        let analysis = analyze(&names(3), &results, settings());
        // Three of 28 runs in total are not many.
        let many = Warning::ManyExcluded { variant: "a".into(), excluded: 3, runs: 7 };
        let few = Warning::VariantTooFewBlocks { variant: "a".into(), blocks: 4 };
        assert_eq!(analysis.warnings, [few, many]);
        assert_eq!((analysis.variants[1].excluded, analysis.variants[1].died), (3, 3));
        assert_eq!(analysis.aa[&Metric::PssEnd].contrast.blocks, 6, "one block has one control");
    }
}
