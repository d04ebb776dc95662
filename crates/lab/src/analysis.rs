//! From runs to contrasts: per metric, every variant against the control, paired by block.

use crate::metric::Metric;
use crate::result::RunResult;
use std::collections::BTreeMap;
use unbloat_stats::contrast::{Block, Contrast, contrast};
use unbloat_stats::holm;
use unbloat_stats::median::median;
use unbloat_stats::power::{ALPHA, Design};

/// What can be said of one variant and one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// This is the control.
    Control,
    /// Shown to differ from the control, for the better.
    Better,
    /// Shown to differ from the control, for the worse.
    Worse,
    /// Shown to lie within the plan's margin of the control, on both sides.
    Same,
    /// Neither a difference nor its absence is shown.
    NotShown,
}

impl Verdict {
    /// The word in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Control => "control",
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Same => "same",
            Verdict::NotShown => "not_shown",
        }
    }
}

/// One variant, one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Median over the variant's runs.
    pub median: f64,
    /// The runs' values with their blocks, for the charts.
    pub values: Vec<(usize, f64)>,
    /// Against the control; `None` for the control itself and when no block has both.
    pub contrast: Option<Contrast>,
    /// The p value after Holm's correction over the variants.
    pub p_adjusted: Option<f64>,
    /// What can be said.
    pub verdict: Verdict,
}

impl Comparison {
    /// The end of the interval on the side that costs: how much worse it may be, as a factor of at least 0.
    /// 1.02 for a latency whose ratio reaches up to 1.02, as for a throughput whose ratio reaches down to 1/1.02.
    #[must_use]
    pub fn worst(&self, metric: Metric) -> Option<f64> {
        let (low, high) = self.contrast?.interval?;
        Some(if metric.less_is_better() { high } else { 1.0 / low })
    }
}

/// One variant.
#[derive(Debug, Clone, PartialEq)]
pub struct VariantAnalysis {
    /// Its name.
    pub name: String,
    /// Runs that count.
    pub runs: usize,
    /// Runs that were made but left out.
    pub excluded: usize,
    /// Metrics that its runs yielded.
    pub metrics: BTreeMap<Metric, Comparison>,
}

/// The control against itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Aa {
    /// Second control ÷ first control.
    pub contrast: Contrast,
    /// The ratio that this experiment shows with 80 % probability; `None`: no effect, however large.
    pub minimum_detectable_ratio: Option<f64>,
}

/// A caution about the whole experiment.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Warning {
    /// Too few blocks for any significance.
    #[error(
        "too few blocks ({blocks}): they cannot show any difference between {variants} variants and the control, however large; \
         add blocks (--until-decided does)"
    )]
    TooFewBlocks {
        /// Complete blocks.
        blocks: usize,
        /// Variants other than the control.
        variants: usize,
    },
    /// The control differs from itself.
    #[error(
        "the control differs from itself in {metric} (p = {p:.3}): something other than the variants changed between \
         runs, for example another program on the machine. Do not trust differences of this size"
    )]
    ControlDiffers {
        /// The metric's name.
        metric: &'static str,
        /// The A/A p value.
        p: f64,
    },
    /// Many runs are left out.
    #[error(
        "{excluded} of {runs} runs are left out; what they have in common may matter more than what is left"
    )]
    ManyExcluded {
        /// Runs left out.
        excluded: usize,
        /// All runs.
        runs: usize,
    },
    /// The harness itself took more of the machine than it may.
    #[error(
        "the harness took {percent:.1} % of the machine's CPU in its worst run; it should stay below 1 %"
    )]
    HarnessHeavy {
        /// Percent of all cores.
        percent: f64,
    },
}

/// The whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// The variants in the plan's order; the first is the control.
    pub variants: Vec<VariantAnalysis>,
    /// The control against itself, per metric.
    pub aa: BTreeMap<Metric, Aa>,
    /// Blocks that were started.
    pub blocks: usize,
    /// Cautions.
    pub warnings: Vec<Warning>,
    /// How it was analyzed.
    pub settings: Settings,
}

/// Share of the machine's CPU that the harness may take.
const HARNESS_LIMIT: f64 = 0.01;

/// How to analyze.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The plan's margin: 0.03 is 3 %.
    pub margin: f64,
    /// Makes the resampling repeatable.
    pub seed: u64,
    /// How often the data are looked at before the experiment ends. Each look takes its share of the chance of a
    /// mistake (Bonferroni), because an experiment that goes on until something shows would else always find something.
    pub looks: usize,
}

impl Settings {
    /// The chance of a mistake that one look may take.
    #[must_use]
    pub fn alpha(self) -> f64 {
        ALPHA / self.looks.max(1) as f64
    }
}

/// Analyzes runs. `names` are the variants', the control's first.
#[must_use]
pub fn analyze(names: &[String], results: &[RunResult], settings: Settings) -> Analysis {
    let table = Table { results, settings };
    let mut variants: Vec<_> = names.iter().enumerate().map(|(i, name)| table.variant(i, name)).collect();
    for metric in Metric::ALL {
        compare(&table, metric, &mut variants);
    }
    let blocks = results.iter().map(|r| r.slot.block + 1).max().unwrap_or(0);
    let design = Design { blocks, variants: names.len().saturating_sub(1), alpha: settings.alpha() };
    let aa: BTreeMap<_, _> =
        Metric::ALL.into_iter().filter_map(|m| Some((m, table.aa(m, design)?))).collect();
    let warnings = warnings(results, design, &aa);
    Analysis { variants, aa, blocks, warnings, settings }
}

struct Table<'a> {
    results: &'a [RunResult],
    settings: Settings,
}

impl Table<'_> {
    fn counting(&self, variant: usize) -> impl Iterator<Item = &RunResult> {
        self.results.iter().filter(move |r| r.counts_for(variant))
    }

    fn variant(&self, index: usize, name: &str) -> VariantAnalysis {
        let all = self.results.iter().filter(|r| r.slot.variant == index).count();
        let runs = self.counting(index).count();
        VariantAnalysis { name: name.to_owned(), runs, excluded: all - runs, metrics: BTreeMap::new() }
    }

    /// Values of one variant and metric with their blocks and replicas.
    fn values(&self, variant: usize, metric: Metric) -> Vec<(usize, usize, f64)> {
        let value = |r: &RunResult| Some((r.slot.block, r.slot.replica, *r.metrics.get(&metric)?));
        self.counting(variant).filter_map(value).collect()
    }

    fn contrast(&self, variant: usize, metric: Metric) -> Option<Contrast> {
        let controls = self.values(0, metric);
        let blocks = self.values(variant, metric).into_iter().map(|(block, _, value)| Block {
            controls: controls.iter().filter(|c| c.0 == block).map(|c| c.2).collect(),
            variant: value,
        });
        contrast(&blocks.collect::<Vec<_>>(), self.settings.alpha(), self.settings.seed)
    }

    fn aa(&self, metric: Metric, design: Design) -> Option<Aa> {
        let (second, first): (Vec<_>, Vec<_>) = self.values(0, metric).into_iter().partition(|c| c.1 == 1);
        let blocks = second.into_iter().map(|(block, _, value)| Block {
            controls: first.iter().filter(|c| c.0 == block).map(|c| c.2).collect(),
            variant: value,
        });
        let contrast = contrast(&blocks.collect::<Vec<_>>(), self.settings.alpha(), self.settings.seed)?;
        let minimum_detectable_ratio =
            contrast.log_sd.and_then(|log_sd| design.minimum_detectable_ratio(log_sd));
        Some(Aa { contrast, minimum_detectable_ratio })
    }
}

fn compare(table: &Table, metric: Metric, variants: &mut [VariantAnalysis]) {
    let contrasts: Vec<Option<Contrast>> =
        (0..variants.len()).map(|i| (i > 0).then(|| table.contrast(i, metric)).flatten()).collect();
    let p: Vec<f64> = contrasts.iter().flatten().map(|c| c.p).collect();
    let mut adjusted = holm::adjust(&p).into_iter();
    for (index, variant) in variants.iter_mut().enumerate() {
        let contrast = contrasts[index];
        let p_adjusted = contrast.and_then(|_| adjusted.next());
        let values: Vec<_> = table.values(index, metric).into_iter().map(|(b, _, v)| (b, v)).collect();
        let Some(median) = median(&values.iter().map(|v| v.1).collect::<Vec<_>>()) else { continue };
        let verdict = match (index, contrast, p_adjusted) {
            (0, ..) => Verdict::Control,
            (_, Some(contrast), Some(p)) => judge(metric, &contrast, p, table.settings),
            _ => Verdict::NotShown,
        };
        variant.metrics.insert(metric, Comparison { median, values, contrast, p_adjusted, verdict });
    }
}

/// A difference needs both a small p after correction and an interval without 1; sameness an interval within the
/// margin. A difference that is shown but lies within the margin is still a difference.
fn judge(metric: Metric, contrast: &Contrast, p_adjusted: f64, settings: Settings) -> Verdict {
    let margin = settings.margin;
    let Some((low, high)) = contrast.interval else { return Verdict::NotShown };
    let smaller = high < 1.0;
    if p_adjusted <= settings.alpha() && (smaller || low > 1.0) {
        return if smaller == metric.less_is_better() { Verdict::Better } else { Verdict::Worse };
    }
    let within = low >= 1.0 / (1.0 + margin) && high <= 1.0 + margin;
    if within { Verdict::Same } else { Verdict::NotShown }
}

fn warnings(results: &[RunResult], design: Design, aa: &BTreeMap<Metric, Aa>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !results.is_empty() && !design.can_decide() {
        warnings.push(Warning::TooFewBlocks { blocks: design.blocks, variants: design.variants });
    }
    let p: Vec<f64> = aa.values().map(|aa| aa.contrast.p).collect();
    for (metric, p) in aa.keys().zip(holm::adjust(&p)).filter(|(_, p)| *p <= ALPHA) {
        warnings.push(Warning::ControlDiffers { metric: metric.name(), p });
    }
    let excluded = results.iter().filter(|r| r.excluded.is_some()).count();
    if excluded * 5 > results.len() {
        warnings.push(Warning::ManyExcluded { excluded, runs: results.len() });
    }
    let heaviest = results.iter().map(|r| r.harness_cpu).fold(0.0, f64::max);
    if heaviest > HARNESS_LIMIT {
        warnings.push(Warning::HarnessHeavy { percent: heaviest * 100.0 });
    }
    warnings
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::result::Exclusion;
    use crate::schedule::Slot;

    /// Runs with the given effect per variant on PSS and p95; the noise is a fixed pattern of about 1 %.
    pub(crate) fn runs(blocks: usize, effects: &[(f64, f64)]) -> Vec<RunResult> {
        let mut results = Vec::new();
        for block in 0..blocks {
            let slots = (0..effects.len()).map(|v| (v, 0)).chain([(0, 1)]);
            for (variant, replica) in slots {
                let phase = (block * 7 + variant * 3 + replica * 5) as f64;
                let noise = |f: f64| 1.0 + 0.01 * (phase * f).sin();
                let (memory, latency) = effects[variant];
                results.push(RunResult {
                    slot: Slot { block, variant, replica },
                    wall_s: 10.0,
                    metrics: [
                        (Metric::PssEnd, 3e8 * memory * noise(1.3)),
                        (Metric::P95, 0.1 * latency * noise(2.1)),
                        (Metric::Throughput, 100.0 / latency * noise(0.7)),
                    ]
                    .into(),
                    steps: vec![(100.0, latency)],
                    proof: vec![],
                    harness_cpu: 0.001,
                    excluded: None,
                });
            }
        }
        results
    }

    pub(crate) const SETTINGS: Settings = Settings { margin: 0.03, seed: 1, looks: 1 };

    pub(crate) fn names(n: usize) -> Vec<String> {
        ["control", "a", "b", "c"].iter().take(n).map(ToString::to_string).collect()
    }

    #[test]
    fn a_difference_is_found_and_sameness_is_shown() {
        let analysis = analyze(&names(3), &runs(8, &[(1.0, 1.0), (0.6, 1.0), (1.0, 1.3)]), SETTINGS);
        let verdict = |v: usize, m| analysis.variants[v].metrics[&m].verdict;
        assert_eq!(verdict(0, Metric::PssEnd), Verdict::Control);
        assert_eq!(verdict(1, Metric::PssEnd), Verdict::Better);
        assert_eq!(verdict(1, Metric::P95), Verdict::Same);
        assert_eq!(verdict(2, Metric::P95), Verdict::Worse);
        assert_eq!(verdict(2, Metric::Throughput), Verdict::Worse);
        assert!(analysis.warnings.is_empty(), "{:?}", analysis.warnings);
        let mde = analysis.aa[&Metric::PssEnd].minimum_detectable_ratio.unwrap();
        assert!(mde > 1.0 && mde < 1.05, "{mde}");
    }

    #[test]
    fn few_blocks_are_warned_of_and_show_nothing() {
        let analysis = analyze(&names(2), &runs(3, &[(1.0, 1.0), (0.1, 1.0)]), SETTINGS);
        assert_eq!(analysis.variants[1].metrics[&Metric::PssEnd].verdict, Verdict::NotShown);
        assert_eq!(analysis.warnings, [Warning::TooFewBlocks { blocks: 3, variants: 1 }]);
    }

    #[test]
    fn excluded_runs_are_counted_and_left_out() {
        let mut results = runs(6, &[(1.0, 1.0), (0.5, 1.0)]);
        let bad = results.iter_mut().find(|r| r.slot.variant == 1).unwrap();
        bad.metrics.insert(Metric::PssEnd, 1e15);
        bad.excluded = Some(Exclusion::Dirty("3 messages lost".into()));
        let analysis = analyze(&names(2), &results, SETTINGS);
        assert_eq!((analysis.variants[1].runs, analysis.variants[1].excluded), (5, 1));
        assert_eq!(analysis.variants[1].metrics[&Metric::PssEnd].values.len(), 5);
    }

    #[test]
    fn a_control_that_differs_from_itself_is_warned_of() {
        let mut results = runs(8, &[(1.0, 1.0), (1.0, 1.0)]);
        for run in results.iter_mut().filter(|r| r.slot.replica == 1) {
            run.metrics.entry(Metric::PssEnd).and_modify(|v| *v *= 1.5);
        }
        let analysis = analyze(&names(2), &results, SETTINGS);
        assert!(matches!(analysis.warnings[..], [Warning::ControlDiffers { metric: "pss_end", .. }]));
    }
}
