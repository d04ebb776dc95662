//! From runs to contrasts: per metric, every variant against the control, paired by block.
//!
//! Claims are made about the metrics of the plan's rule only, and all of them, variants × metrics, share one chance of a
//! mistake (Holm). The others are shown with their intervals, for whoever explores; nothing is claimed of them.

use crate::metric::Metric;
use crate::plan::{Plan, Rule};
use crate::result::{Exclusion, RunResult};
use crate::warning::{Warning, warnings};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use unbloat_stats::contrast::{Block, Contrast, bounds, contrast, margin_alpha};
use unbloat_stats::holm;
use unbloat_stats::looks::{FIRST_LOOK, Looks};
use unbloat_stats::median::median;
use unbloat_stats::power::{ALPHA, Design};

/// What can be said of one variant and one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
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
    /// The rule does not look at this metric: nothing is claimed.
    Exploratory,
}

impl Finding {
    /// The word in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Finding::Control => "control",
            Finding::Better => "better",
            Finding::Worse => "worse",
            Finding::Same => "same",
            Finding::NotShown => "not_shown",
            Finding::Exploratory => "exploratory",
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
    /// The p value after Holm's correction: over variants × metrics of the rule, or, of a metric that the rule does not
    /// look at, over the variants.
    pub p_adjusted: Option<f64>,
    /// What is held against the rule's margin, corrected over the variants: see [`bounds`] and [`margin_alpha`]. `None`
    /// where the rule does not look, or with too few blocks.
    pub bounds: Option<(f64, f64)>,
    /// What can be said.
    pub verdict: Finding,
}

impl Comparison {
    /// How much worse it may be, as a factor of at least 0, by the bounds on the side that costs.
    /// 1.02 for a latency whose ratio reaches up to 1.02, as for a throughput whose ratio reaches down to 1/1.02.
    #[must_use]
    pub fn worst(&self, metric: Metric) -> Option<f64> {
        let (low, high) = self.bounds?;
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
    /// Those of them whose server ended during the run.
    pub died: usize,
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

/// The whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// The variants in the plan's order; the first is the control.
    pub variants: Vec<VariantAnalysis>,
    /// The control against itself, per metric.
    pub aa: BTreeMap<Metric, Aa>,
    /// Blocks that were started.
    pub blocks: usize,
    /// Comparisons that were corrected together: variants × metrics of the rule, as far as there are runs for them.
    pub comparisons: usize,
    /// What to be careful about.
    pub warnings: Vec<Warning>,
    /// How it was analyzed.
    pub settings: Settings,
}

/// How to analyze.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What is claimed, and by which margin.
    pub rule: Rule,
    /// Makes the resampling repeatable.
    pub seed: u64,
    /// When the data are looked at before the experiment ends. Each look takes its share of the chance of a mistake, because an
    /// experiment that goes on until something shows would else always find something.
    pub looks: Looks,
}

impl Settings {
    /// The settings of a plan whose data are looked at so often: once at the end, or after each block.
    #[must_use]
    pub fn of(plan: &Plan, variants: usize, looks: usize) -> Self {
        let comparisons = variants.saturating_sub(1) * plan.rule.metrics().len();
        let looks = match looks {
            0 | 1 => Looks::Once,
            _ => Looks::every_block(plan.design.max_blocks.max(plan.design.blocks), comparisons, ALPHA),
        };
        Settings { rule: plan.rule.clone(), seed: plan.design.seed, looks }
    }

    /// The chance that an interval that is shown misses.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        ALPHA * self.looks.interval_share()
    }

    /// The chance of a mistake that the look after so many blocks may take; 0 before the first look.
    #[must_use]
    pub fn look_alpha(&self, blocks: usize) -> f64 {
        ALPHA * self.looks.share(blocks)
    }

    /// How often the data are looked at.
    #[must_use]
    pub fn look_count(&self) -> usize {
        self.looks.last().map_or(1, |last| last + 1 - FIRST_LOOK)
    }
}

/// Analyzes runs. `names` are the variants', the control's first.
#[must_use]
pub fn analyze(names: &[String], results: &[RunResult], settings: Settings) -> Analysis {
    let blocks = results.iter().map(|r| r.slot.block + 1).max().unwrap_or(0);
    let table = Table {
        results,
        settings: &settings,
        variants: names.len(),
        look_alpha: settings.look_alpha(blocks),
    };
    let variants: Vec<_> = names.iter().enumerate().map(|(i, name)| table.variant(i, name)).collect();
    let mut analysis = Analysis {
        variants,
        aa: BTreeMap::new(),
        blocks,
        comparisons: 0,
        warnings: Vec::new(),
        settings: settings.clone(),
    };
    analysis.comparisons = claim(&table, &mut analysis.variants);
    explore(&mut analysis.variants);
    let aa = |metric| Some((metric, table.aa(metric, analysis.comparisons)?));
    analysis.aa = Metric::ALL.into_iter().filter_map(aa).collect();
    analysis.warnings = warnings(&analysis, results);
    analysis
}

struct Table<'a> {
    results: &'a [RunResult],
    settings: &'a Settings,
    /// With the control.
    variants: usize,
    /// What this look may spend.
    look_alpha: f64,
}

impl Table<'_> {
    fn counting(&self, variant: usize) -> impl Iterator<Item = &RunResult> {
        self.results.iter().filter(move |r| r.counts_for(variant))
    }

    fn variant(&self, index: usize, name: &str) -> VariantAnalysis {
        let all = || self.results.iter().filter(|r| r.slot.variant == index);
        let died = all().filter(|r| matches!(r.excluded, Some(Exclusion::Died(_)))).count();
        let runs = self.counting(index).count();
        let compared = |metric| Some((metric, self.comparison(index, metric)?));
        let metrics = Metric::ALL.into_iter().filter_map(compared).collect();
        VariantAnalysis { name: name.to_owned(), runs, excluded: all().count() - runs, died, metrics }
    }

    /// The figures, before anything is claimed.
    fn comparison(&self, variant: usize, metric: Metric) -> Option<Comparison> {
        let values: Vec<_> = self.values(variant, metric).into_iter().map(|(b, _, v)| (b, v)).collect();
        let median = median(&values.iter().map(|v| v.1).collect::<Vec<_>>())?;
        let contrast = (variant > 0).then(|| self.contrast(&self.blocks(variant, metric))).flatten();
        let verdict = if variant == 0 { Finding::Control } else { Finding::Exploratory };
        Some(Comparison { median, values, contrast, p_adjusted: None, bounds: None, verdict })
    }

    /// Values of one variant and metric with their blocks and replicas.
    fn values(&self, variant: usize, metric: Metric) -> Vec<(usize, usize, f64)> {
        let value = |r: &RunResult| Some((r.slot.block, r.slot.replica, *r.metrics.get(&metric)?));
        self.counting(variant).filter_map(value).collect()
    }

    fn blocks(&self, variant: usize, metric: Metric) -> Vec<Block> {
        paired(&self.values(variant, metric), &self.values(0, metric))
    }

    fn contrast(&self, blocks: &[Block]) -> Option<Contrast> {
        contrast(blocks, self.settings.alpha(), self.settings.seed)
    }

    fn bounds(&self, variant: usize, metric: Metric) -> Option<(f64, f64)> {
        if self.look_alpha <= 0.0 {
            return None;
        }
        let alpha = margin_alpha(self.look_alpha, self.variants - 1);
        bounds(&self.blocks(variant, metric), alpha, self.settings.seed)
    }

    fn aa(&self, metric: Metric, comparisons: usize) -> Option<Aa> {
        let (second, first): (Vec<_>, Vec<_>) = self.values(0, metric).into_iter().partition(|c| c.1 == 1);
        let contrast = self.contrast(&paired(&second, &first))?;
        let design = Design { blocks: contrast.blocks, comparisons, alpha: self.look_alpha };
        let minimum_detectable_ratio =
            contrast.log_sd.and_then(|log_sd| design.minimum_detectable_ratio(log_sd));
        Some(Aa { contrast, minimum_detectable_ratio })
    }
}

fn paired(values: &[(usize, usize, f64)], controls: &[(usize, usize, f64)]) -> Vec<Block> {
    let of_block = |block| controls.iter().filter(|c| c.0 == block).map(|c| c.2).collect();
    values.iter().map(|&(block, _, variant)| Block { controls: of_block(block), variant }).collect()
}

/// Gives the rule's metrics their verdicts. How many comparisons there are.
fn claim(table: &Table, variants: &mut [VariantAnalysis]) -> usize {
    let metrics = table.settings.rule.metrics();
    let family: Vec<(usize, Metric, Contrast)> = (1..variants.len())
        .flat_map(|variant| metrics.iter().map(move |&metric| (variant, metric)))
        .filter_map(|(variant, metric)| {
            Some((variant, metric, variants[variant].metrics.get(&metric)?.contrast?))
        })
        .collect();
    let p: Vec<f64> = family.iter().map(|(.., contrast)| contrast.p).collect();
    for ((variant, metric, contrast), p) in family.iter().zip(holm::adjust(&p)) {
        let p = as_single_look(p, table.look_alpha);
        let bounds = table.bounds(*variant, *metric);
        let verdict = judge(*metric, contrast, p, bounds, table.settings);
        if let Some(comparison) = variants[*variant].metrics.get_mut(metric) {
            comparison.p_adjusted = Some(p);
            comparison.bounds = bounds;
            comparison.verdict = verdict;
        }
    }
    // Without a block that has both, there is nothing to say of a metric of the rule.
    let of_rule = variants.iter_mut().flat_map(|v| v.metrics.iter_mut()).filter(|(m, _)| metrics.contains(m));
    of_rule
        .filter(|(_, c)| c.verdict == Finding::Exploratory)
        .for_each(|(_, c)| c.verdict = Finding::NotShown);
    family.len()
}

/// The p value of a look, as if it were the only one.
fn as_single_look(p: f64, look_alpha: f64) -> f64 {
    if look_alpha > 0.0 { (p * ALPHA / look_alpha).min(1.0) } else { 1.0 }
}

/// Corrects the p values of the other metrics, each metric by itself.
fn explore(variants: &mut [VariantAnalysis]) {
    for metric in Metric::ALL {
        let of_metric = variants.iter_mut().filter_map(|v| v.metrics.get_mut(&metric));
        let mut compared: Vec<(&mut Comparison, f64)> = of_metric
            .filter(|c| c.verdict == Finding::Exploratory)
            .filter_map(|c| c.contrast.map(|contrast| (c, contrast.p)))
            .collect();
        let p: Vec<f64> = compared.iter().map(|(_, p)| *p).collect();
        for ((comparison, _), p) in compared.iter_mut().zip(holm::adjust(&p)) {
            comparison.p_adjusted = Some(p);
        }
    }
}

/// A difference needs both a small p after correction and an interval without 1; sameness bounds within the margin. A
/// difference that is shown but lies within the margin is still a difference.
fn judge(
    metric: Metric,
    contrast: &Contrast,
    p_adjusted: f64,
    bounds: Option<(f64, f64)>,
    settings: &Settings,
) -> Finding {
    let factor = 1.0 + settings.rule.margin(metric);
    match (contrast.shown(p_adjusted, ALPHA), bounds) {
        (Some(shown), _) if (shown == Ordering::Less) == metric.less_is_better() => Finding::Better,
        (Some(_), _) => Finding::Worse,
        (None, Some((low, high))) if low >= 1.0 / factor && high <= factor => Finding::Same,
        (None, _) => Finding::NotShown,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::plan::Margins;
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
                    repeat: 0,
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
                    other_cpu: Some(0.02),
                    stalled: [None; 3],
                    excluded: None,
                });
            }
        }
        results
    }

    pub(crate) fn settings() -> Settings {
        let rule = Rule {
            not_worse: vec![Metric::P95, Metric::Throughput],
            margin: Margins::All(0.03),
            ..Rule::default()
        };
        Settings { rule, seed: 1, looks: Looks::Once }
    }

    pub(crate) fn names(n: usize) -> Vec<String> {
        ["control", "a", "b", "c"].iter().take(n).map(ToString::to_string).collect()
    }

    #[test]
    fn a_difference_is_found_and_sameness_is_shown() {
        let analysis = analyze(&names(3), &runs(8, &[(1.0, 1.0), (0.6, 1.0), (1.0, 1.3)]), settings());
        let verdict = |v: usize, m| analysis.variants[v].metrics[&m].verdict;
        assert_eq!(verdict(0, Metric::PssEnd), Finding::Control);
        assert_eq!(verdict(1, Metric::PssEnd), Finding::Better);
        assert_eq!(verdict(1, Metric::P95), Finding::Same);
        assert_eq!(verdict(2, Metric::P95), Finding::Worse);
        assert_eq!(verdict(2, Metric::Throughput), Finding::Worse);
        assert!(analysis.warnings.is_empty(), "{:?}", analysis.warnings);
        let mde = analysis.aa[&Metric::PssEnd].minimum_detectable_ratio.unwrap();
        assert!(mde > 1.0 && mde < 1.05, "{mde}");
    }

    #[test]
    fn a_look_before_its_time_claims_nothing_and_an_early_one_pays_more() {
        let effects = [(1.0, 1.0), (0.6, 1.0)];
        let sequential = || Settings { looks: Looks::every_block(20, 3, ALPHA), ..settings() };
        let of = |blocks: usize, settings| analyze(&names(2), &runs(blocks, &effects), settings);
        let early = of(5, sequential());
        let memory = &early.variants[1].metrics[&Metric::PssEnd];
        assert_eq!((memory.verdict, memory.bounds, memory.p_adjusted), (Finding::NotShown, None, Some(1.0)));
        let (fixed, looked) = (of(8, settings()), of(8, sequential()));
        let of = |analysis: &Analysis| analysis.variants[1].metrics[&Metric::PssEnd].clone();
        let (fixed, looked) = (of(&fixed), of(&looked));
        assert_eq!((fixed.verdict, looked.verdict), (Finding::Better, Finding::Better));
        assert!(looked.p_adjusted > fixed.p_adjusted);
        assert!(looked.bounds.unwrap().1 > fixed.bounds.unwrap().1);
        assert_eq!((sequential().look_count(), settings().look_count()), (15, 1));
    }

    #[test]
    fn excluded_runs_are_counted_and_left_out() {
        let mut results = runs(6, &[(1.0, 1.0), (0.5, 1.0)]);
        let bad = results.iter_mut().find(|r| r.slot.variant == 1).unwrap();
        bad.metrics.insert(Metric::PssEnd, 1e15);
        bad.excluded = Some(Exclusion::Dirty("3 messages lost".into()));
        let analysis = analyze(&names(2), &results, settings());
        assert_eq!((analysis.variants[1].runs, analysis.variants[1].excluded), (5, 1));
        assert_eq!(analysis.variants[1].metrics[&Metric::PssEnd].values.len(), 5);
    }

    #[test]
    fn only_the_metrics_of_the_rule_are_claimed_and_all_of_them_share_one_correction() {
        let mut results = runs(6, &[(1.0, 1.0), (0.6, 1.0), (0.5, 1.0)]);
        for run in &mut results {
            run.metrics.insert(Metric::PssIdle, run.metrics[&Metric::PssEnd]);
        }
        let analysis = analyze(&names(3), &results, settings());
        assert_eq!(analysis.comparisons, 6);
        let of = |metric| &analysis.variants[2].metrics[&metric];
        let smallest = 1.0 / 729.0;
        assert_eq!(of(Metric::PssEnd).p_adjusted, Some(6.0 * smallest));
        assert_eq!(of(Metric::PssEnd).verdict, Finding::Better);
        // The same figures, of which nothing is claimed.
        assert_eq!(of(Metric::PssIdle).p_adjusted, Some(2.0 * smallest));
        assert_eq!((of(Metric::PssIdle).verdict, of(Metric::PssIdle).bounds), (Finding::Exploratory, None));
        assert!(of(Metric::PssIdle).contrast.is_some_and(|c| c.interval.is_some()));
    }

    #[test]
    fn the_bounds_that_are_held_against_the_margin_widen_with_the_variants() {
        let same = (1.0, 1.0);
        let worst = |variants: usize| {
            let analysis = analyze(&names(variants), &runs(6, &[same; 4][..variants]), settings());
            let cost = &analysis.variants[1].metrics[&Metric::P95];
            (cost.worst(Metric::P95).unwrap(), cost.contrast.unwrap().interval.unwrap().1)
        };
        let (two, four) = (worst(3), worst(4));
        // The same runs and variant: what the others are does not matter, only how many.
        assert_eq!(two.1, four.1, "the interval that is shown");
        assert!(two.0 >= two.1 && four.0 > two.0, "{two:?} {four:?}");
    }
}
