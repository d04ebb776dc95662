//! The rule of an experiment: which variant to use, whether to keep the control, or whether to go on.
//!
//! The rule asks several things of each variant: one metric must be shown smaller than the control's, and others must be shown
//! to cost no more than a margin. All metrics are oriented so that less is better. At each look, every [`Requirement`] is
//! [`Finding::Met`], [`Finding::Refuted`], or still open:
//!
//! | requirement | met | refuted |
//! |---|---|---|
//! | [`Requirement::Smaller`] | the ratio is shown to be below 1: p after [`holm`]'s correction over all variants × requirements, and an interval without 1 | the lower bound is above the gain that is worth having |
//! | [`Requirement::AtMost`] | the upper bound is within the margin | the lower bound is beyond the margin |
//!
//! The error rates of the two answers, each at most alpha:
//!
//! - **Use a variant** that does not meet a requirement. *All* requirements must be met, so each is tested at the full level (an
//!   intersection–union test); *any* variant might slip through, so the level is shared among the variants.
//! - **Keep the control** though some variant meets all requirements and gains what is worth having. *All* variants must
//!   be ruled out, so each is at the full level; *any* of its requirements may do it, so the level is shared among these.
//!
//! Each comparison's level is that of the look at its own number of blocks ([`Looks::share`]), so a variant that is no
//! longer run keeps its standing.

use crate::contrast::{Block, Summary, is_above, is_below, margin_alpha, p_value_up_to};
use crate::holm;
use crate::looks::Looks;

/// What the rule asks of one metric. Ratios are variant ÷ control, and less is better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Requirement {
    /// Smaller than the control's.
    Smaller {
        /// The ratio from which on the gain is worth having, such as 1/1.05.
        worth: f64,
    },
    /// No more than this ratio, such as 1.05.
    AtMost {
        /// The margin.
        limit: f64,
    },
}

/// A requirement and the runs that it is tested on.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// What is asked.
    pub requirement: Requirement,
    /// The variant's blocks in this metric.
    pub blocks: Vec<Block>,
}

/// What the data say about a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// It is shown to be met.
    Met,
    /// It is shown not to be met.
    Refuted,
    /// Neither.
    Open,
}

/// How a variant stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Meets all requirements.
    Passes,
    /// Cannot be recommended: the requirement with this index is refuted.
    RuledOut(usize),
    /// Not decided: the requirement with this index is open.
    Open(usize),
}

/// The answer after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Use the variant with this index.
    Use(usize),
    /// No variant gains what is worth having at no more than the costs that are allowed.
    Keep,
    /// Go on.
    Open,
}

/// The rule as it applies to one experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The chance of a mistake in the whole experiment.
    pub alpha: f64,
    /// When the data are looked at.
    pub looks: Looks,
    /// Variants besides the control.
    pub variants: usize,
    /// Requirements of each variant.
    pub requirements: usize,
}

impl Rule {
    /// The level of claims of difference at the look after so many blocks, before Holm's correction.
    #[must_use]
    pub fn difference_alpha(&self, blocks: usize) -> f64 {
        self.alpha * self.looks.share(blocks)
    }

    /// The two-sided level of bounds that show a cost to be within its margin: see [`margin_alpha`].
    #[must_use]
    pub fn met_alpha(&self, blocks: usize) -> f64 {
        margin_alpha(self.difference_alpha(blocks), self.variants)
    }

    /// The two-sided level of bounds that rule a variant out.
    #[must_use]
    pub fn refuted_alpha(&self, blocks: usize) -> f64 {
        margin_alpha(self.difference_alpha(blocks), self.requirements)
    }

    /// The level at which intervals are reported.
    #[must_use]
    pub fn interval_alpha(&self) -> f64 {
        self.alpha * self.looks.interval_share()
    }

    /// The p value of a look, as if it were the only one.
    #[must_use]
    pub fn as_single_look(&self, p: f64, blocks: usize) -> f64 {
        let share = self.looks.share(blocks);
        if share > 0.0 { (p / share).min(1.0) } else { 1.0 }
    }

    /// Tests all requirements of all variants, in the order given.
    #[must_use]
    pub fn findings(&self, variants: &[Vec<Demand>], seed: u64) -> Vec<Vec<Finding>> {
        let raw: Vec<f64> = variants.iter().flatten().map(|demand| self.p(demand, seed)).collect();
        let mut adjusted = holm::adjust(&raw).into_iter();
        let mut finding = |demand: &Demand| {
            let is_different = adjusted.next().is_some_and(|p| p <= self.alpha);
            self.finding(demand, is_different, seed)
        };
        variants.iter().map(|demands| demands.iter().map(&mut finding).collect()).collect()
    }

    /// Exact where it might matter: at most alpha.
    fn p(&self, demand: &Demand, seed: u64) -> f64 {
        let blocks = Summary::of(&demand.blocks).map_or(0, |summary| summary.blocks);
        let level = self.difference_alpha(blocks);
        self.as_single_look(p_value_up_to(&demand.blocks, level, seed), blocks)
    }

    fn finding(&self, demand: &Demand, is_different: bool, seed: u64) -> Finding {
        let Some(summary) = Summary::of(&demand.blocks) else { return Finding::Open };
        let (met, refuted) = (self.met_alpha(summary.blocks), self.refuted_alpha(summary.blocks));
        if met <= 0.0 {
            return Finding::Open;
        }
        let (is_met, limit) = match demand.requirement {
            Requirement::Smaller { worth } => {
                let is_less = || is_below(&demand.blocks, 1.0, self.interval_alpha(), seed);
                (is_different && summary.log_mean < 0.0 && is_less(), worth)
            }
            Requirement::AtMost { limit } => (is_below(&demand.blocks, limit, met, seed), limit),
        };
        match is_met {
            true => Finding::Met,
            false if is_above(&demand.blocks, limit, refuted, seed) => Finding::Refuted,
            false => Finding::Open,
        }
    }
}

/// How a variant stands whose requirements were found so.
#[must_use]
pub fn standing(findings: &[Finding]) -> Standing {
    let first = |wanted: Finding| findings.iter().position(|finding| *finding == wanted);
    match (first(Finding::Refuted), first(Finding::Open)) {
        (Some(refuted), _) => Standing::RuledOut(refuted),
        (None, Some(open)) => Standing::Open(open),
        (None, None) => Standing::Passes,
    }
}

/// The answer: the smallest variant that passes. An open variant holds it up only if it looks smaller by what is worth having.
/// `ratios` are the variants' estimates of what is to be small.
#[must_use]
pub fn answer(standings: &[Standing], ratios: &[f64], worth: f64) -> Answer {
    let smallest = |is_wanted: fn(&Standing) -> bool| {
        let wanted =
            standings.iter().zip(ratios).enumerate().filter(|(_, (standing, _))| is_wanted(standing));
        wanted.map(|(index, (_, ratio))| (index, *ratio)).min_by(|a, b| a.1.total_cmp(&b.1))
    };
    let open = smallest(|standing| matches!(standing, Standing::Open(_)));
    match (smallest(|standing| *standing == Standing::Passes), open) {
        (Some((_, passing)), Some((_, open))) if open < passing * worth => Answer::Open,
        (Some((index, _)), _) => Answer::Use(index),
        (None, Some(_)) => Answer::Open,
        (None, None) => Answer::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contrast::MIN_BLOCKS;

    fn demand(requirement: Requirement, ratio: f64, blocks: usize) -> Demand {
        let wobble = |i: usize| 1.0 + 0.01 * (i as f64 * 2.3).sin();
        let block = |i: usize| Block { controls: vec![1.0, wobble(i + 7)], variant: ratio * wobble(i) };
        Demand { requirement, blocks: (0..blocks).map(block).collect() }
    }

    fn variant(gain: f64, cost: f64, blocks: usize) -> Vec<Demand> {
        vec![
            demand(Requirement::Smaller { worth: 1.0 / 1.05 }, gain, blocks),
            demand(Requirement::AtMost { limit: 1.05 }, cost, blocks),
        ]
    }

    fn rule(variants: usize, looks: Looks) -> Rule {
        Rule { alpha: 0.05, looks, variants, requirements: 2 }
    }

    fn decide(variants: &[Vec<Demand>], looks: Looks) -> (Vec<Standing>, Answer) {
        let findings = rule(variants.len(), looks).findings(variants, 1);
        let standings: Vec<Standing> = findings.iter().map(|findings| standing(findings)).collect();
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
        assert_eq!((standings, answer), (vec![Standing::Open(0)], Answer::Open));
        // A fixed number of blocks may be as small.
        assert_eq!(decide(&variants, Looks::Once).1, Answer::Use(0));
    }

    #[test]
    fn an_open_variant_holds_the_answer_up_only_if_it_looks_clearly_smaller() {
        let standings = [Standing::Passes, Standing::Open(1)];
        assert_eq!(answer(&standings, &[0.80, 0.79], 1.0 / 1.05), Answer::Use(0));
        assert_eq!(answer(&standings, &[0.80, 0.70], 1.0 / 1.05), Answer::Open);
        assert_eq!(answer(&[Standing::Open(0)], &[0.9], 1.0 / 1.05), Answer::Open);
        assert_eq!(answer(&[], &[], 1.0 / 1.05), Answer::Keep);
    }

    #[test]
    fn a_look_is_stricter_than_a_fixed_number_of_blocks() {
        let sequential = rule(4, Looks::every_block(20, 8, 0.05));
        let fixed = rule(4, Looks::Once);
        for blocks in FIRST..=20 {
            assert!(sequential.met_alpha(blocks) < fixed.met_alpha(blocks));
            assert!(sequential.refuted_alpha(blocks) < fixed.refuted_alpha(blocks));
            assert!(sequential.as_single_look(0.001, blocks) > 0.001);
        }
        assert_eq!((fixed.met_alpha(9), fixed.refuted_alpha(9), fixed.interval_alpha()), (0.025, 0.05, 0.05));
    }

    const FIRST: usize = crate::looks::FIRST_LOOK;
}
