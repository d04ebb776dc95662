//! The plan's rule in the terms of `unbloat_stats::decision`: the requirements of each variant, and the
//! blocks on which they are tested.

use crate::analysis::Settings;
use crate::metric::Metric;
use crate::plan::Rule;
use crate::result::{Exclusion, RunResult};
use std::collections::BTreeSet;
use unbloat_stats::contrast::Block;
use unbloat_stats::decision::{self, Demand, Requirement};
use unbloat_stats::power::ALPHA;
use unbloat_stats::race::Race;

/// All requirements of all variants.
#[derive(Debug, Clone, PartialEq)]
pub struct Demands {
    /// The metrics required of each variant: the one to minimize, then those that must not get worse, as far
    /// as the control's runs yield them.
    pub metrics: Vec<Metric>,
    /// The demands by variant, without the control, in the plan's order: one for each of the metrics. Values
    /// are turned so that less is better.
    pub variants: Vec<Vec<Demand>>,
    /// A reason against a variant that is independent of its figures.
    pub barred: Vec<Option<Bar>>,
    /// The rule, at the levels of the looks.
    pub rule: decision::Rule,
    /// The ratio from which on a gain is worthwhile.
    pub worth: f64,
    /// Variants that still get runs.
    pub running: Vec<bool>,
}

/// A reason against a variant that is independent of its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bar {
    /// Its server ended by itself in this many runs.
    Died(usize),
    /// None of its runs yields this metric, though the control's do.
    NotMeasured(Metric),
}

impl Demands {
    /// Creates the demands on this many variants, including the control, from these runs.
    #[must_use]
    pub fn of(variants: usize, results: &[RunResult], settings: &Settings) -> Self {
        let rule = &settings.rule;
        let is_measured = |metric: &Metric| !values(results, 0, *metric).is_empty();
        let asked = rule.metrics().into_iter();
        let metrics: Vec<Metric> = asked.filter(|m| *m == rule.minimize || is_measured(m)).collect();
        let demand = |variant: usize, metric: Metric| Demand {
            requirement: requirement(rule, metric),
            blocks: oriented(results, variant, metric),
        };
        let others = 1..variants.max(1);
        Demands {
            variants: others
                .clone()
                .map(|variant| metrics.iter().map(|&metric| demand(variant, metric)).collect())
                .collect(),
            barred: others.clone().map(|variant| bar(results, variant, &metrics)).collect(),
            rule: decision::Rule {
                alpha: ALPHA,
                looks: settings.looks.clone(),
                variants: others.len(),
                requirements: metrics.len(),
            },
            worth: 1.0 / (1.0 + rule.margin(rule.minimize)),
            running: others.map(|variant| is_running(results, variant)).collect(),
            metrics,
        }
    }

    /// Returns the demand on a variant in a metric; the control is 0.
    #[must_use]
    pub fn demand(&self, variant: usize, metric: Metric) -> Option<&Demand> {
        let index = self.metrics.iter().position(|asked| *asked == metric)?;
        self.variants.get(variant.checked_sub(1)?)?.get(index)
    }

    /// Returns the race of an experiment of at most `last` blocks, at its start.
    #[must_use]
    pub fn race(&self, last: usize) -> Race {
        Race::new(self.rule.clone(), self.worth, last)
    }
}

fn requirement(rule: &Rule, metric: Metric) -> Requirement {
    let factor = 1.0 + rule.margin(metric);
    match metric == rule.minimize {
        true => Requirement::Smaller { worth: 1.0 / factor },
        false => Requirement::AtMost { limit: factor },
    }
}

/// Returns the values of one variant and metric with their blocks and replicas.
pub(crate) fn values(results: &[RunResult], variant: usize, metric: Metric) -> Vec<(usize, usize, f64)> {
    let value = |run: &RunResult| Some((run.slot.block, run.slot.replica, *run.metrics.get(&metric)?));
    results.iter().filter(|run| run.counts_for(variant)).filter_map(value).collect()
}

/// Pairs each value of a variant with the control's of its block.
pub(crate) fn paired(values: &[(usize, usize, f64)], controls: &[(usize, usize, f64)]) -> Vec<Block> {
    let of_block = |block| controls.iter().filter(|c| c.0 == block).map(|c| c.2).collect();
    values.iter().map(|&(block, _, variant)| Block { controls: of_block(block), variant }).collect()
}

fn oriented(results: &[RunResult], variant: usize, metric: Metric) -> Vec<Block> {
    let turned = |value: f64| if metric.less_is_better() { value } else { 1.0 / value };
    let mut blocks = paired(&values(results, variant, metric), &values(results, 0, metric));
    for block in &mut blocks {
        block.variant = turned(block.variant);
        block.controls.iter_mut().for_each(|value| *value = turned(*value));
    }
    blocks
}

fn bar(results: &[RunResult], variant: usize, metrics: &[Metric]) -> Option<Bar> {
    let of_variant = || results.iter().filter(|run| run.slot.variant == variant);
    let died = of_variant().filter(|run| matches!(run.excluded, Some(Exclusion::Died(_)))).count();
    if died > 0 {
        return Some(Bar::Died(died));
    }
    let is_missing = |metric: &&Metric| values(results, variant, **metric).is_empty();
    let counts = of_variant().any(|run| run.excluded.is_none());
    metrics.iter().find(is_missing).filter(|_| counts).map(|metric| Bar::NotMeasured(*metric))
}

/// Returns whether a variant has a run in the last block, or in the one before if the last is incomplete. A
/// variant that can hardly win has none.
fn is_running(results: &[RunResult], variant: usize) -> bool {
    let in_block = |block: usize| {
        let runs = results.iter().filter(move |run| run.slot.block == block);
        runs.map(|run| run.slot).collect::<BTreeSet<_>>()
    };
    let Some(last) = results.iter().map(|run| run.slot.block).max() else { return true };
    let has = |block: usize| in_block(block).iter().any(|slot| slot.variant == variant);
    let fewer = last > 0 && in_block(last).len() < in_block(last - 1).len();
    has(last) || (fewer && has(last - 1))
}
