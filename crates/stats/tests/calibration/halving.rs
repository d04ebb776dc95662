//! Successive halving: the winner's curse in the rounds, and none in the final comparison.

use crate::noise::normal;
use crate::{doubt, repeated};
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;
use unbloat_stats::contrast::{Block, Summary, contrast};
use unbloat_stats::decision::Requirement;
use unbloat_stats::halving::{best, rounds};
use unbloat_stats::power::ALPHA;

const LOG_SD: f64 = 0.04;

/// Returns sixteen candidates that differ by far less than a round can distinguish.
fn truths() -> Vec<f64> {
    (0..16).map(|index| 0.80 + 0.005 * f64::from(index)).collect()
}

fn blocks(ratio: f64, count: usize, random: &mut Xoshiro256PlusPlus) -> Vec<Block> {
    let mut run = |ratio: f64| ratio * (LOG_SD / 1.5f64.sqrt() * normal(random)).exp();
    (0..count).map(|_| Block { controls: vec![run(1.0), run(1.0)], variant: run(ratio) }).collect()
}

/// Returns the winner of the rounds: its index, and its estimate from the rounds.
fn winner(truths: &[f64], random: &mut Xoshiro256PlusPlus) -> (usize, f64) {
    let mut made: Vec<Vec<Block>> = vec![Vec::new(); truths.len()];
    let mut left: Vec<usize> = (0..truths.len()).collect();
    for round in rounds(truths.len(), 1, 2) {
        let summaries: Vec<_> = left
            .iter()
            .map(|&index| {
                made[index].extend(blocks(truths[index], round.blocks, random));
                let summary = Summary::of(&made[index]).unwrap();
                vec![(Requirement::Smaller { worth: 0.95 }, summary)]
            })
            .collect();
        left = best(&summaries, round.kept).into_iter().map(|place| left[place]).collect();
    }
    (left[0], Summary::of(&made[left[0]]).unwrap().log_mean)
}

#[test]
fn fresh_runs_remove_the_winners_curse() {
    let (truths, finals) = (truths(), 8);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(81);
    let searches = repeated(1_000);
    let (mut flattered, mut fresh_error, mut covered, mut regret) = (0.0, 0.0, 0, 0.0);
    for _ in 0..searches {
        let (index, estimate) = winner(&truths, &mut random);
        let fresh = contrast(&blocks(truths[index], finals, &mut random), ALPHA, 1).unwrap();
        flattered += (estimate - truths[index].ln()) / searches as f64;
        fresh_error += (fresh.ratio.ln() - truths[index].ln()) / searches as f64;
        let (low, high) = fresh.interval.unwrap();
        covered += usize::from(low <= truths[index] && truths[index] <= high);
        regret += (truths[index] / truths[0] - 1.0) / searches as f64;
    }
    let coverage = covered as f64 / searches as f64;
    println!(
        "halving 16: rounds flatter by {flattered:.4}, fresh runs err by {fresh_error:.4}, cover {coverage:.3}; \
         {regret:.4} worse than the best"
    );
    // Standard errors of the means over all searches. The winner of four rounds has run 2 + 4 + 8 + 16 blocks.
    let error = |blocks: f64| LOG_SD / (blocks * searches as f64).sqrt();
    assert!(flattered < -3.0 * error(30.0), "the rounds flatter the winner: {flattered}");
    assert!(fresh_error.abs() < 3.0 * error(finals as f64), "fresh runs do not: {fresh_error}");
    assert!((coverage - 0.95).abs() < 0.01 + doubt(0.05, searches), "{coverage}");
    // Any of the sixteen, picked blindly, is on average 7.5 steps worse than the best.
    assert!(regret < 0.5 * 7.5 * 0.005 / truths[0], "{regret}");
}
