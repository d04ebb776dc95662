//! Successive halving: selects the candidates that deserve a full comparison.
//!
//! Every round runs the remaining candidates for a few blocks and keeps the better half; each round has twice
//! the blocks of the previous one, so that all rounds cost about the same (Z. Karnin, T. Koren & O. Somekh,
//! *ICML* 2013; K. Jamieson & A. Talwalkar, *AISTATS* 2016). Hopeless candidates cost little in this way, and
//! close ones are separated by many runs.
//!
//! The survivor is the best of many noisy estimates, so its estimate is biased in its favor (the winner's
//! curse). The final comparison therefore uses fresh runs only, and nothing from the rounds.
//! `tests/calibration` demonstrates both.

use crate::contrast::Summary;
use crate::decision::Requirement;

/// One round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// Number of participating candidates.
    pub candidates: usize,
    /// Number of blocks that each of them runs in this round.
    pub blocks: usize,
    /// Number of candidates kept.
    pub kept: usize,
}

/// Returns the rounds that lead from this many candidates to this many finalists; none if there are no more
/// candidates than that.
#[must_use]
pub fn rounds(candidates: usize, finalists: usize, first_blocks: usize) -> Vec<Round> {
    let finalists = finalists.max(1);
    let mut rounds = Vec::new();
    let (mut left, mut blocks) = (candidates, first_blocks.max(1));
    while left > finalists {
        let kept = left.div_ceil(2).max(finalists);
        rounds.push(Round { candidates: left, blocks, kept });
        (left, blocks) = (kept, blocks * 2);
    }
    rounds
}

/// Returns the indices of the `kept` best candidates, best first. Each has its requirements, with the metric
/// to minimize first, and the blocks of this round (and of earlier ones). Candidates whose costs look too
/// high even with the benefit of the doubt, one standard error, come last.
#[must_use]
pub fn best(candidates: &[Vec<(Requirement, Summary)>], kept: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    let gain =
        |index: usize| candidates[index].first().map_or(f64::INFINITY, |(_, summary)| summary.log_mean);
    order.sort_by(|&a, &b| {
        excess(&candidates[a]).total_cmp(&excess(&candidates[b])).then(gain(a).total_cmp(&gain(b)))
    });
    order.truncate(kept);
    order
}

/// Returns how far a candidate's costs seem to exceed its margins, as a logarithm; 0 within them.
fn excess(candidate: &[(Requirement, Summary)]) -> f64 {
    let beyond = |(requirement, summary): &(Requirement, Summary)| match requirement {
        Requirement::Smaller { .. } => 0.0,
        Requirement::AtMost { limit } => {
            let doubt = summary.log_sd / (summary.blocks.max(1) as f64).sqrt();
            (summary.log_mean - doubt - limit.ln()).max(0.0)
        }
    };
    candidate.iter().map(beyond).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_halves_and_costs_about_the_same() {
        let rounds = rounds(16, 2, 1);
        let shape: Vec<_> = rounds.iter().map(|round| (round.candidates, round.blocks, round.kept)).collect();
        assert_eq!(shape, [(16, 1, 8), (8, 2, 4), (4, 4, 2)]);
        assert!(rounds.iter().all(|round| round.candidates * round.blocks == 16));
        assert_eq!(super::rounds(7, 3, 2).last().map(|round| round.kept), Some(3));
        assert!(super::rounds(2, 2, 1).is_empty() && super::rounds(0, 0, 0).is_empty());
    }

    fn candidate(gain: f64, cost: f64) -> Vec<(Requirement, Summary)> {
        let summary = |ratio: f64| Summary { blocks: 4, log_mean: ratio.ln(), log_sd: 0.04 };
        vec![
            (Requirement::Smaller { worth: 0.95 }, summary(gain)),
            (Requirement::AtMost { limit: 1.05 }, summary(cost)),
        ]
    }

    #[test]
    fn small_ones_come_first_and_what_costs_too_much_last() {
        let candidates =
            [candidate(0.9, 1.0), candidate(0.5, 1.3), candidate(0.7, 1.06), candidate(1.0, 1.0)];
        // 1.06 is within one standard error, 2 %, of the margin.
        assert_eq!(best(&candidates, 4), [2, 0, 3, 1]);
        assert_eq!(best(&candidates, 1), [2]);
    }
}
