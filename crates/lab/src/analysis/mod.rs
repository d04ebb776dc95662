//! Turns runs into contrasts: per metric, every variant against the control, paired by block.
//!
//! Claims are made only about the metrics of the plan's rule, and all of them, variants × metrics, share one
//! error probability (Holm). Other metrics are shown with their intervals for exploration; nothing is claimed
//! about them.

use crate::demands::{Demands, paired, values};
use crate::metric::Metric;
use crate::plan::{Plan, Rule};
use crate::recommend::{Recommendation, recommend};
use crate::result::{Exclusion, RunResult};
use crate::variant::Variant;
use crate::warning::{Warning, warnings};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use unbloat_stats::contrast::{Block, Contrast, Summary, bounds, contrast, is_above, is_below};
use unbloat_stats::decision::Demand;
use unbloat_stats::holm;
use unbloat_stats::looks::{FIRST_LOOK, Looks};
use unbloat_stats::median::median;
use unbloat_stats::power::{ALPHA, Design};
use unbloat_stats::race::{Look, Race};

/// The conclusion about one variant and one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// The variant is the control.
    Control,
    /// Shown to differ from the control for the better.
    Better,
    /// Shown to differ from the control for the worse.
    Worse,
    /// Shown to lie within the plan's margin of the control, on both sides.
    Same,
    /// Neither a difference nor its absence has been shown.
    NotShown,
    /// Not a metric of the rule, so nothing is claimed.
    Exploratory,
}

impl Finding {
    /// The word used in JSON.
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
    /// The runs' values with their blocks, for charts.
    pub values: Vec<(usize, f64)>,
    /// Contrast to the control; `None` for the control itself and if no block has both.
    pub contrast: Option<Contrast>,
    /// The p value after Holm's correction: over variants × metrics for the rule's metrics, over the variants
    /// for any other metric.
    pub p_adjusted: Option<f64>,
    /// The interval to compare with the rule's margin, corrected over the variants: see [`bounds`]. `None` for
    /// metrics outside the rule, or with too few blocks.
    pub bounds: Option<(f64, f64)>,
    /// The conclusion.
    pub verdict: Finding,
}

impl Comparison {
    /// Returns how much worse the variant may be, as a factor of at least 0, by the bound on the costly side.
    /// 1.02 for a latency whose ratio reaches up to 1.02, and for a throughput whose ratio reaches down to
    /// 1/1.02.
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
    /// Runs that were excluded.
    pub excluded: usize,
    /// Excluded runs whose server ended during the run.
    pub died: usize,
    /// The metrics that its runs yielded.
    pub metrics: BTreeMap<Metric, Comparison>,
}

/// The control against itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Aa {
    /// Second control ÷ first control.
    pub contrast: Contrast,
    /// The ratio that this experiment detects with 80 % probability; `None` if it detects no effect, however
    /// large.
    pub minimum_detectable_ratio: Option<f64>,
}

/// The complete analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// The variants in the plan's order, the control first.
    pub variants: Vec<VariantAnalysis>,
    /// The control against itself, per metric.
    pub aa: BTreeMap<Metric, Aa>,
    /// Number of blocks started.
    pub blocks: usize,
    /// Number of comparisons corrected together: variants × metrics of the rule, as far as they have runs.
    pub comparisons: usize,
    /// Cautions about the results.
    pub warnings: Vec<Warning>,
    /// The requirements of the rule, with the blocks on which they are tested.
    pub demands: Demands,
    /// The settings of the analysis.
    pub settings: Settings,
}

/// Settings of an analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The metrics of the claims, and their margins.
    pub rule: Rule,
    /// Seed of relabelings that are drawn.
    pub seed: u64,
    /// The looks at the data before the experiment ends. Each look takes its share of the error probability,
    /// because an experiment that goes on until something shows would always find something.
    pub looks: Looks,
}

impl Settings {
    /// Returns the settings of a plan with this number of looks: one at the end, or one after each block.
    #[must_use]
    pub fn of(plan: &Plan, variants: usize, looks: usize) -> Self {
        let comparisons = variants.saturating_sub(1) * plan.rule.metrics().len();
        let looks = match looks {
            0 | 1 => Looks::Once,
            looks => Looks::every_block(FIRST_LOOK + looks - 1, comparisons, ALPHA),
        };
        Settings { rule: plan.rule.clone(), seed: plan.design.seed, looks }
    }

    /// Returns the error probability available to the look after this number of blocks; 0 before the first
    /// look.
    #[must_use]
    pub fn look_alpha(&self, blocks: usize) -> f64 {
        ALPHA * self.looks.share(blocks)
    }

    /// Returns the number of looks at the data.
    #[must_use]
    pub fn look_count(&self) -> usize {
        self.looks.last().map_or(1, |last| last + 1 - FIRST_LOOK)
    }
}

/// Analyzes the runs of a plan and draws the conclusion. `looks`: number of looks at the data.
#[must_use]
pub fn conclude_plan(
    plan: &Plan,
    variants: &[Variant],
    results: &[RunResult],
    looks: usize,
) -> (Analysis, Recommendation) {
    let names: Vec<String> = variants.iter().map(|v| v.name.clone()).collect();
    conclude(&names, results, Settings::of(plan, names.len(), looks))
}

/// Analyzes runs and draws the conclusion. `names` are the variants', the control's first.
#[must_use]
pub fn conclude(names: &[String], results: &[RunResult], settings: Settings) -> (Analysis, Recommendation) {
    let seed = settings.seed;
    let analysis = analyze(names, results, settings);
    let look = last_look(&analysis);
    let recommendation = recommend(&analysis.demands, look, results, seed);
    (analysis, recommendation)
}

/// Returns the look at all available runs. In an experiment of a fixed number of blocks, no variant drops
/// out.
fn last_look(analysis: &Analysis) -> Look {
    let Analysis { demands, blocks, settings, .. } = analysis;
    let race = demands.race(settings.looks.last().unwrap_or(*blocks));
    let mut race = match settings.looks {
        Looks::Once => Race { drops: false, ..race },
        Looks::EveryBlock(_) => Race { running: demands.running.clone(), ..race },
    };
    let barred: Vec<bool> = demands.barred.iter().map(Option::is_some).collect();
    race.look(&demands.variants, &barred, *blocks, settings.seed)
}

/// Analyzes runs. `names` are the variants', the control's first.
#[must_use]
pub fn analyze(names: &[String], results: &[RunResult], settings: Settings) -> Analysis {
    let demands = Demands::of(names.len(), results, &settings);
    let table = Table { results, settings: &settings };
    let variants: Vec<_> = names.iter().enumerate().map(|(i, name)| table.variant(i, name)).collect();
    let blocks = results.iter().map(|r| r.slot.block + 1).max().unwrap_or(0);
    let mut analysis = Analysis {
        variants,
        aa: BTreeMap::new(),
        blocks,
        comparisons: demands.variants.iter().map(Vec::len).sum(),
        warnings: Vec::new(),
        demands,
        settings: settings.clone(),
    };
    claim(&mut analysis);
    explore(&mut analysis.variants);
    let aa = |metric| Some((metric, table.aa(metric, analysis.comparisons)?));
    analysis.aa = Metric::ALL.into_iter().filter_map(aa).collect();
    analysis.warnings = warnings(&analysis, results);
    analysis
}

struct Table<'a> {
    results: &'a [RunResult],
    settings: &'a Settings,
}

impl Table<'_> {
    fn variant(&self, index: usize, name: &str) -> VariantAnalysis {
        let all = || self.results.iter().filter(|r| r.slot.variant == index);
        let died = all().filter(|r| matches!(r.excluded, Some(Exclusion::Died(_)))).count();
        let runs = all().filter(|r| r.excluded.is_none()).count();
        let compared = |metric| Some((metric, self.comparison(index, metric)?));
        let metrics = Metric::ALL.into_iter().filter_map(compared).collect();
        VariantAnalysis { name: name.to_owned(), runs, excluded: all().count() - runs, died, metrics }
    }

    /// Computes the figures, before any claims.
    fn comparison(&self, variant: usize, metric: Metric) -> Option<Comparison> {
        let with_replicas = values(self.results, variant, metric);
        let values: Vec<_> = with_replicas.iter().map(|&(block, _, value)| (block, value)).collect();
        let median = median(&values.iter().map(|v| v.1).collect::<Vec<_>>())?;
        let blocks = || paired(&with_replicas, &self::values(self.results, 0, metric));
        let contrast = (variant > 0).then(|| self.contrast(&blocks())).flatten();
        let verdict = if variant == 0 { Finding::Control } else { Finding::Exploratory };
        Some(Comparison { median, values, contrast, p_adjusted: None, bounds: None, verdict })
    }

    fn contrast(&self, blocks: &[Block]) -> Option<Contrast> {
        contrast(blocks, ALPHA, self.settings.seed)
    }

    fn aa(&self, metric: Metric, comparisons: usize) -> Option<Aa> {
        let runs = values(self.results, 0, metric);
        let (second, first): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| run.1 == 1);
        let contrast = self.contrast(&paired(&second, &first))?;
        let alpha = self.settings.look_alpha(contrast.blocks);
        let design = Design { blocks: contrast.blocks, comparisons, alpha };
        let minimum_detectable_ratio =
            contrast.log_sd.and_then(|log_sd| design.minimum_detectable_ratio(log_sd));
        Some(Aa { contrast, minimum_detectable_ratio })
    }
}

/// Gives the rule's metrics their verdicts, at the level of the look that each comparison's blocks allow.
fn claim(analysis: &mut Analysis) {
    let Analysis { variants, demands, settings, .. } = analysis;
    let (demands, settings) = (&*demands, &*settings);
    let contrast_of = |variant: usize, metric: &Metric| variants[variant].metrics.get(metric)?.contrast;
    let family: Vec<(usize, Metric, &Demand, Option<Contrast>)> = (1..variants.len())
        .flat_map(|variant| demands.metrics.iter().map(move |metric| (variant, metric)))
        .filter_map(|(variant, metric)| {
            Some((variant, *metric, demands.demand(variant, *metric)?, contrast_of(variant, metric)))
        })
        .collect();
    let p = |contrast: &Option<Contrast>| {
        contrast.map_or(1.0, |contrast| demands.rule.as_single_look(contrast.p, contrast.blocks))
    };
    let raw: Vec<f64> = family.iter().map(|(.., contrast)| p(contrast)).collect();
    let claims: Vec<_> = family
        .iter()
        .zip(holm::adjust(&raw))
        .filter_map(|((variant, metric, demand, contrast), p)| {
            let claim = Claim { demand, contrast: (*contrast)?, p, demands, settings };
            Some((*variant, *metric, p, claim.bounds(*metric), claim.verdict(*metric)))
        })
        .collect();
    for (variant, metric, p, bounds, verdict) in claims {
        if let Some(comparison) = variants[variant].metrics.get_mut(&metric) {
            comparison.p_adjusted = Some(p);
            comparison.bounds = bounds;
            comparison.verdict = verdict;
        }
    }
    // Without a block that has both, a metric of the rule has no verdict.
    let metrics = settings.rule.metrics();
    let of_rule = variants.iter_mut().flat_map(|v| v.metrics.iter_mut()).filter(|(m, _)| metrics.contains(m));
    of_rule
        .filter(|(_, c)| c.verdict == Finding::Exploratory)
        .for_each(|(_, c)| c.verdict = Finding::NotShown);
}

/// One comparison of the rule.
struct Claim<'a> {
    demand: &'a Demand,
    contrast: Contrast,
    /// The p value after Holm's correction.
    p: f64,
    demands: &'a Demands,
    settings: &'a Settings,
}

impl Claim<'_> {
    /// Returns the level of the bounds that show a cost to be within its margin.
    fn alpha(&self) -> f64 {
        let blocks = Summary::of(&self.demand.blocks).map_or(0, |summary| summary.blocks);
        self.demands.rule.met_alpha(blocks)
    }

    /// Returns the bounds in the original direction, not turned so that less is better.
    fn bounds(&self, metric: Metric) -> Option<(f64, f64)> {
        let alpha = Some(self.alpha()).filter(|alpha| *alpha > 0.0)?;
        let (low, high) = bounds(&self.demand.blocks, alpha)?;
        Some(if metric.less_is_better() { (low, high) } else { (1.0 / high, 1.0 / low) })
    }

    /// Returns the verdict. A difference needs both a small p after correction and an interval without 1;
    /// sameness needs bounds within the margin. A shown difference within the margin is still a difference.
    fn verdict(&self, metric: Metric) -> Finding {
        let factor = 1.0 + self.settings.rule.margin(metric);
        let (blocks, seed) = (&self.demand.blocks, self.settings.seed);
        match self.contrast.shown(self.p, ALPHA) {
            Some(shown) if (shown == Ordering::Less) == metric.less_is_better() => Finding::Better,
            Some(_) => Finding::Worse,
            None if is_below(blocks, factor, self.alpha(), seed)
                && is_above(blocks, 1.0 / factor, self.alpha(), seed) =>
            {
                Finding::Same
            }
            None => Finding::NotShown,
        }
    }
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

#[cfg(test)]
pub(crate) mod tests;
