//! The effort that decides an open requirement: more blocks, or less noise between runs.
//!
//! An estimate is decided when its distance from the limit is large against its error, at the level of the look. All figures
//! are for a chance of [`POWER`], if estimate and noise are right.

use crate::contrast::{MIN_BLOCKS, Summary};
use crate::decision::{Requirement, Rule};
use crate::power::{POWER, t_quantile};

/// Returns the noise between runs, as a standard deviation of the log ratio, with which this many blocks
/// decide a requirement whose true ratio is `exp(log_mean)`, in either direction: met, or shown not to be
/// met.
#[must_use]
pub fn noise_that_decides(rule: &Rule, requirement: Requirement, log_mean: f64, blocks: usize) -> f64 {
    let degrees = blocks.max(2) as f64 - 1.0;
    let noise = |(distance, alpha): (f64, f64)| {
        if alpha <= 0.0 {
            return 0.0;
        }
        let errors = t_quantile(degrees, 1.0 - alpha / 2.0) + t_quantile(degrees, POWER);
        distance * (degrees + 1.0).sqrt() / errors
    };
    let refuted = rule.refuted_alpha(requirement, blocks);
    let sides = match requirement {
        Requirement::Smaller { worth } => {
            let comparisons = (rule.variants * rule.requirements).max(1) as f64;
            [(-log_mean, rule.difference_alpha(blocks) / comparisons), (log_mean - worth.ln(), refuted)]
        }
        Requirement::AtMost { limit } => {
            [(limit.ln() - log_mean, rule.met_alpha(blocks)), (log_mean - limit.ln(), refuted)]
        }
    };
    sides.into_iter().map(noise).fold(0.0, f64::max)
}

/// Returns the fewest blocks, more than those made and at most `most`, that decide a requirement with its
/// noise.
#[must_use]
pub fn blocks_that_decide(
    rule: &Rule,
    requirement: Requirement,
    summary: &Summary,
    most: usize,
) -> Option<usize> {
    let fewest = MIN_BLOCKS.max(summary.blocks + 1);
    let decide =
        |blocks: &usize| noise_that_decides(rule, requirement, summary.log_mean, *blocks) >= summary.log_sd;
    (fewest..=most).find(|blocks| decide(blocks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::Looks;

    const COST: Requirement = Requirement::AtMost { limit: 1.05 };
    const GAIN: Requirement = Requirement::Smaller { worth: 1.0 / 1.05 };

    fn rule(looks: Looks) -> Rule {
        Rule { alpha: 0.05, looks, variants: 1, requirements: 2 }
    }

    fn blocks(ratio: f64, log_sd: f64) -> Option<usize> {
        let summary = Summary { blocks: 9, log_mean: f64::ln(ratio), log_sd };
        blocks_that_decide(&rule(Looks::Once), COST, &summary, 400)
    }

    #[test]
    fn a_little_noise_takes_a_few_blocks_and_more_noise_more() {
        let (little, much) = (blocks(1.0, 0.05), blocks(1.0, 0.1));
        assert!(little.is_some_and(|n| (10..16).contains(&n)) && much > little, "{little:?} {much:?}");
        // The textbook's: (1.96 + 0.84)² · (0.1 / ln 1.05)² = 33 for a known spread.
        assert!(much.is_some_and(|n| (33..37).contains(&n)), "{much:?}");
    }

    #[test]
    fn an_estimate_at_the_limit_is_never_decided_and_one_beyond_it_is_ruled_out() {
        assert_eq!(blocks(1.0499, 0.1), None);
        assert!(blocks(1.10, 0.05).is_some());
    }

    #[test]
    fn a_gain_is_decided_by_whichever_limit_is_farther() {
        let noise = |ratio: f64| noise_that_decides(&rule(Looks::Once), GAIN, ratio.ln(), 10);
        assert!(noise(0.8) > noise(0.9) && noise(0.9) > noise(0.975) && noise(1.02) > noise(0.975));
    }

    #[test]
    fn a_look_takes_more_than_a_fixed_number_of_blocks_and_none_decides_before_the_first() {
        let sequential = rule(Looks::every_block(20, 2, 0.05));
        let noise = |rule: &Rule, blocks| noise_that_decides(rule, COST, 0.0, blocks);
        assert!(noise(&sequential, 10) < noise(&rule(Looks::Once), 10));
        assert_eq!(noise(&sequential, 5), 0.0);
    }
}
