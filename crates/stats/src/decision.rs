//! The decision rule of an experiment: use a variant, keep the control, or go on.
//!
//! The rule has several requirements for each variant: one metric must be shown to be smaller than the
//! control's, and others must be shown to cost no more than a margin. All metrics are oriented so that less
//! is better. At each look, every [`Requirement`] is [`Finding::Met`], [`Finding::Refuted`], or still open:
//!
//! | requirement | met | refuted |
//! |---|---|---|
//! | [`Requirement::Smaller`] | the ratio is shown to be below 1: p after [`holm`]'s correction over all variants × requirements, and an interval without 1 | the gain is shown to be too small to be worthwhile ([`is_above`]) |
//! | [`Requirement::AtMost`] | the cost is shown to be within the margin ([`is_below`]) | it is shown to be beyond the margin ([`is_above`]) |
//!
//! The error rates of the two answers, each at most alpha:
//!
//! - **Use a variant** that does not meet a requirement. *All* requirements must be met, so each is tested at
//!   the full level (an intersection–union test); *any* variant might slip through, so the level is shared
//!   among the variants.
//! - **Keep the control** although some variant meets all requirements with a worthwhile gain. *All* variants
//!   must be ruled out, so each is at the full level; *any* of its requirements may do it, so the level is
//!   shared among these: half for the metric to minimize, the rest for the costs.
//!
//! Each comparison's level is that of the look at its own number of blocks ([`Looks::share`]), so a variant
//! that is no longer run keeps its standing.

use crate::contrast::{Block, Summary, is_above, is_below, margin_alpha, p_value_up_to};
use crate::holm;
use crate::looks::Looks;
use std::cell::OnceCell;

/// A requirement on one metric. Ratios are variant ÷ control, and less is better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Requirement {
    /// The metric is smaller than the control's.
    Smaller {
        /// The ratio from which a gain is worthwhile, such as 1/1.05.
        worth: f64,
    },
    /// The metric is at most this multiple of the control's, such as 1.05.
    AtMost {
        /// The margin.
        limit: f64,
    },
}

/// A requirement and the runs on which it is tested.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// The requirement.
    pub requirement: Requirement,
    /// The variant's blocks in this metric.
    pub blocks: Vec<Block>,
}

impl Demand {
    /// Returns the distance of the estimate from the limit in standard errors; negative beyond the limit.
    fn clearance(&self) -> f64 {
        let (Requirement::Smaller { worth: limit } | Requirement::AtMost { limit }) = self.requirement;
        Summary::of(&self.blocks).map_or(f64::NEG_INFINITY, |Summary { blocks, log_mean, log_sd }| {
            (limit.ln() - log_mean) * (blocks as f64).sqrt() / log_sd.max(f64::MIN_POSITIVE)
        })
    }
}

/// The conclusion from the data about a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// The requirement is shown to be met.
    Met,
    /// The requirement is shown not to be met.
    Refuted,
    /// Neither is shown.
    Open,
}

/// The standing of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It meets all requirements.
    Passes,
    /// It cannot be recommended: the requirement with this index is refuted.
    RuledOut(usize),
    /// It cannot be recommended for a reason outside the requirements, such as a server that died.
    Barred,
    /// Not decided: the requirement with this index is open.
    Open(usize),
    /// Undecided, and no longer run, because it can hardly pass within the remaining blocks: the requirement
    /// with this index is open.
    Futile(usize),
}

/// The answer after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Use the variant with this index.
    Use(usize),
    /// No variant has a worthwhile gain at no more than the permitted costs.
    Keep,
    /// Go on: some variant may still pass.
    GoOn,
    /// Nothing is shown, and further blocks would hardly change that.
    Undecided,
}

/// The rule as it applies to one experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The error probability of the whole experiment.
    pub alpha: f64,
    /// The looks at the data.
    pub looks: Looks,
    /// Number of variants, excluding the control.
    pub variants: usize,
    /// Number of requirements per variant.
    pub requirements: usize,
}

impl Rule {
    /// Returns the level of claims of difference at the look after this number of blocks, before Holm's
    /// correction.
    #[must_use]
    pub fn difference_alpha(&self, blocks: usize) -> f64 {
        self.alpha * self.looks.share(blocks)
    }

    /// Returns the two-sided level of bounds that show a cost to be within its margin: see [`margin_alpha`].
    #[must_use]
    pub fn met_alpha(&self, blocks: usize) -> f64 {
        margin_alpha(self.difference_alpha(blocks), self.variants)
    }

    /// Returns the two-sided level at which a requirement rules a variant out. Half of the error probability
    /// belongs to the metric to minimize, because most variants fail there; the costs share the other half.
    #[must_use]
    pub fn refuted_alpha(&self, requirement: Requirement, blocks: usize) -> f64 {
        let costs = self.requirements.saturating_sub(1).max(1) as f64;
        match requirement {
            Requirement::Smaller { .. } => self.difference_alpha(blocks),
            Requirement::AtMost { .. } => self.difference_alpha(blocks) / costs,
        }
    }

    /// Returns the p value of a look, as if it were the only one.
    #[must_use]
    pub fn as_single_look(&self, p: f64, blocks: usize) -> f64 {
        let share = self.looks.share(blocks);
        if share > 0.0 { (p / share).min(1.0) } else { 1.0 }
    }

    /// Returns the standing of each variant.
    #[must_use]
    pub fn standings(&self, variants: &[Vec<Demand>], seed: u64) -> Vec<Standing> {
        let differences = OnceCell::new();
        let is_different = |variant: usize, index: usize| {
            let different: &Vec<Vec<bool>> = differences.get_or_init(|| self.differences(variants, seed));
            different[variant][index]
        };
        let of = |(variant, demands): (usize, &Vec<Demand>)| {
            self.standing(demands, |index| is_different(variant, index), seed)
        };
        variants.iter().enumerate().map(of).collect()
    }

    /// Returns the finding about each requirement of one variant.
    #[must_use]
    pub fn findings(&self, variants: &[Vec<Demand>], variant: usize, seed: u64) -> Vec<Finding> {
        let different = self.differences(variants, seed);
        let finding = |(index, demand): (usize, &Demand)| {
            if self.is_met(demand, || different[variant][index], seed) {
                Finding::Met
            } else if self.is_refuted(demand, seed) {
                Finding::Refuted
            } else {
                Finding::Open
            }
        };
        variants[variant].iter().enumerate().map(finding).collect()
    }

    /// Returns whether each comparison's corrected p value shows a difference.
    #[must_use]
    pub fn differences(&self, variants: &[Vec<Demand>], seed: u64) -> Vec<Vec<bool>> {
        let raw: Vec<f64> = variants.iter().flatten().map(|demand| self.p(demand, seed)).collect();
        let mut adjusted = holm::adjust(&raw).into_iter().map(|p| p <= self.alpha);
        variants.iter().map(|demands| adjusted.by_ref().take(demands.len()).collect()).collect()
    }

    /// Returns a p value that is exact where it might matter: up to alpha.
    fn p(&self, demand: &Demand, seed: u64) -> f64 {
        let blocks = Summary::of(&demand.blocks).map_or(0, |summary| summary.blocks);
        let level = self.difference_alpha(blocks);
        self.as_single_look(p_value_up_to(&demand.blocks, level, seed), blocks)
    }

    /// Returns a variant's standing. Costs come first, starting with the least clear one: as long as one is
    /// open, a gain matters only if it is refuted, and neither its p values nor the other bounds need to be
    /// computed.
    fn standing(&self, demands: &[Demand], is_different: impl Fn(usize) -> bool, seed: u64) -> Standing {
        let is_refuted = |index: &usize| self.is_refuted(&demands[*index], seed);
        let is_met = |index: &usize| self.is_met(&demands[*index], || is_different(*index), seed);
        let is_gain = |index: &usize| matches!(demands[*index].requirement, Requirement::Smaller { .. });
        let (gains, mut costs): (Vec<usize>, Vec<usize>) = (0..demands.len()).partition(is_gain);
        costs.sort_by(|&a, &b| demands[a].clearance().total_cmp(&demands[b].clearance()));
        if let Some(&cost) = costs.iter().find(|cost| is_refuted(cost)) {
            return Standing::RuledOut(cost);
        }
        let open_cost = costs.into_iter().find(|cost| !is_met(cost));
        // A gain that is shown may still be too small to be worthwhile.
        match (gains.iter().find(|gain| is_refuted(gain) && !is_met(gain)), open_cost) {
            (Some(&gain), _) => Standing::RuledOut(gain),
            (None, Some(cost)) => Standing::Open(cost),
            (None, None) => {
                gains.into_iter().find(|gain| !is_met(gain)).map_or(Standing::Passes, Standing::Open)
            }
        }
    }

    fn is_met(&self, demand: &Demand, is_different: impl Fn() -> bool, seed: u64) -> bool {
        let Some(summary) = Summary::of(&demand.blocks) else { return false };
        match demand.requirement {
            Requirement::Smaller { .. } => {
                summary.log_mean < 0.0 && is_different() && is_below(&demand.blocks, 1.0, self.alpha, seed)
            }
            Requirement::AtMost { limit } => {
                is_below(&demand.blocks, limit, self.met_alpha(summary.blocks), seed)
            }
        }
    }

    fn is_refuted(&self, demand: &Demand, seed: u64) -> bool {
        let (Requirement::Smaller { worth: limit } | Requirement::AtMost { limit }) = demand.requirement;
        let blocks = Summary::of(&demand.blocks).map_or(0, |summary| summary.blocks);
        is_above(&demand.blocks, limit, self.refuted_alpha(demand.requirement, blocks), seed)
    }
}

/// Returns the standing of a variant with these findings.
#[must_use]
pub fn standing(findings: &[Finding]) -> Standing {
    let first = |wanted: Finding| findings.iter().position(|finding| *finding == wanted);
    match (first(Finding::Refuted), first(Finding::Open)) {
        (Some(refuted), _) => Standing::RuledOut(refuted),
        (None, Some(open)) => Standing::Open(open),
        (None, None) => Standing::Passes,
    }
}

/// Returns the answer: the smallest variant that passes. An open variant delays it only if its estimated gain
/// is worthwhile. `ratios` are the variants' estimates for the metric to minimize.
#[must_use]
pub fn answer(standings: &[Standing], ratios: &[f64], worth: f64) -> Answer {
    let smallest = |is_wanted: fn(&Standing) -> bool| {
        let wanted =
            standings.iter().zip(ratios).enumerate().filter(|(_, (standing, _))| is_wanted(standing));
        wanted.map(|(index, (_, ratio))| (index, *ratio)).min_by(|a, b| a.1.total_cmp(&b.1))
    };
    let open = smallest(|standing| matches!(standing, Standing::Open(_)));
    let is_any_futile = standings.iter().any(|standing| matches!(standing, Standing::Futile(_)));
    match (smallest(|standing| *standing == Standing::Passes), open) {
        (Some((_, passing)), Some((_, open))) if open < passing * worth => Answer::GoOn,
        (Some((index, _)), _) => Answer::Use(index),
        (None, Some(_)) => Answer::GoOn,
        (None, None) if is_any_futile => Answer::Undecided,
        (None, None) => Answer::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contrast::MIN_BLOCKS;

    const GAIN: Requirement = Requirement::Smaller { worth: 1.0 / 1.05 };
    const COST: Requirement = Requirement::AtMost { limit: 1.05 };

    fn demand(requirement: Requirement, ratio: f64, blocks: usize) -> Demand {
        let wobble = |i: usize| 1.0 + 0.01 * (i as f64 * 2.3).sin();
        let block = |i: usize| Block { controls: vec![1.0, wobble(i + 7)], variant: ratio * wobble(i) };
        Demand { requirement, blocks: (0..blocks).map(block).collect() }
    }

    fn variant(gain: f64, cost: f64, blocks: usize) -> Vec<Demand> {
        vec![demand(GAIN, gain, blocks), demand(COST, cost, blocks)]
    }

    fn rule(variants: usize, looks: Looks) -> Rule {
        Rule { alpha: 0.05, looks, variants, requirements: 2 }
    }

    fn decide(variants: &[Vec<Demand>], looks: Looks) -> (Vec<Standing>, Answer) {
        let standings = rule(variants.len(), looks).standings(variants, 1);
        let ratios: Vec<f64> = variants
            .iter()
            .map(|v| Summary::of(&v[0].blocks).map_or(f64::INFINITY, |summary| summary.log_mean.exp()))
            .collect();
        let answer = answer(&standings, &ratios, 1.0 / 1.05);
        (standings, answer)
    }

    #[test]
    fn the_smallest_variant_that_costs_nothing_is_used() {
        let variants = [variant(0.8, 1.0, 8), variant(0.7, 1.0, 8), variant(0.5, 1.2, 8)];
        let (standings, answer) = decide(&variants, Looks::every_block(20, 6, 0.05));
        assert_eq!(standings, [Standing::Passes, Standing::Passes, Standing::RuledOut(1)]);
        assert_eq!(answer, Answer::Use(1));
    }

    #[test]
    fn variants_that_gain_nothing_or_cost_too_much_leave_the_control() {
        let (standings, answer) = decide(&[variant(1.0, 1.0, 8), variant(0.6, 1.3, 8)], Looks::Once);
        assert_eq!(standings, [Standing::RuledOut(0), Standing::RuledOut(1)]);
        assert_eq!(answer, Answer::Keep);
    }

    #[test]
    fn before_the_first_look_nothing_is_decided() {
        let variants = [variant(0.5, 1.0, MIN_BLOCKS)];
        let (standings, answer) = decide(&variants, Looks::every_block(20, 2, 0.05));
        assert_eq!((standings, answer), (vec![Standing::Open(1)], Answer::GoOn));
        // A fixed number of blocks may be just as small.
        assert_eq!(decide(&variants, Looks::Once).1, Answer::Use(0));
    }

    #[test]
    fn an_open_variant_holds_the_answer_up_only_if_it_looks_clearly_smaller() {
        let standings = [Standing::Passes, Standing::Open(1)];
        assert_eq!(answer(&standings, &[0.80, 0.79], 1.0 / 1.05), Answer::Use(0));
        assert_eq!(answer(&standings, &[0.80, 0.70], 1.0 / 1.05), Answer::GoOn);
        assert_eq!(answer(&[Standing::Open(0)], &[0.9], 1.0 / 1.05), Answer::GoOn);
        assert_eq!(answer(&[], &[], 1.0 / 1.05), Answer::Keep);
        let futile = [Standing::RuledOut(1), Standing::Futile(1)];
        assert_eq!(answer(&futile, &[0.80, 0.70], 1.0 / 1.05), Answer::Undecided);
        let passes = [Standing::Passes, Standing::Futile(1)];
        assert_eq!(answer(&passes, &[0.80, 0.70], 1.0 / 1.05), Answer::Use(0));
    }

    #[test]
    fn a_look_is_stricter_than_a_fixed_number_of_blocks() {
        let sequential = rule(4, Looks::every_block(20, 8, 0.05));
        let fixed = rule(4, Looks::Once);
        for blocks in FIRST..=20 {
            assert!(sequential.met_alpha(blocks) < fixed.met_alpha(blocks));
            assert!(sequential.refuted_alpha(COST, blocks) < fixed.refuted_alpha(COST, blocks));
            assert!(sequential.as_single_look(0.001, blocks) > 0.001);
        }
        assert_eq!(fixed.met_alpha(9), 0.025);
        let three = Rule { requirements: 3, ..fixed };
        assert_eq!((three.refuted_alpha(GAIN, 9), three.refuted_alpha(COST, 9)), (0.05, 0.025));
    }

    const FIRST: usize = crate::looks::FIRST_LOOK;
}
