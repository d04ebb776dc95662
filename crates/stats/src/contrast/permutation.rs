//! The permutation test: if the variant did nothing, any run of its block could as well carry its name.
//!
//! Such relabelings show the effect of chance alone; with one control this is the sign-flip test. The sums
//! over all relabelings are those of two halves of the blocks, combined. So p is exact for up to 20 blocks
//! with two controls (3²⁰ relabelings) and 32 with one; for more blocks relabelings are drawn. Six blocks
//! with two controls have 3⁶ = 729: enough to stay below 0.05 after correction for 36 comparisons.

use super::block::LogRatios;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

/// Number of relabelings of one half of the blocks up to which p is exact.
const MOST_OF_A_HALF: usize = 1 << 16;

/// Number of relabelings drawn if there are too many for an exact result.
pub(super) const DRAWN: usize = 1 << 17;

/// Returns the share of relabelings whose mean is at least as far from 0 as the observed one.
pub(super) fn two_sided_p(ratios: &LogRatios, seed: u64) -> f64 {
    let observed: f64 = ratios.observed().iter().sum();
    share(ratios, seed, Extreme::Either(observed.abs() - tolerance(observed)))
}

/// Returns the share of relabelings whose mean is at most the observed one.
pub(super) fn lower_p(ratios: &LogRatios, seed: u64) -> f64 {
    let observed: f64 = ratios.observed().iter().sum();
    share(ratios, seed, Extreme::AtMost(observed + tolerance(observed)))
}

/// Returns the smallest possible p, reached if the observed labeling is the most extreme of all. With two
/// controls in some block no other is as extreme, because its mirror image would have to give the variant's
/// name to both. With one control in all blocks the mirror image is.
pub(super) fn smallest_p(ratios: &LogRatios) -> f64 {
    let all: f64 = ratios.labelings().iter().map(|labels| labels.len() as f64).product();
    let mirrored = ratios.labelings().iter().all(|labels| labels.len() == 2);
    let extreme = if mirrored { 2.0 } else { 1.0 };
    let distinguished = if is_exact(ratios.labelings()) { all } else { (DRAWN + 1) as f64 };
    extreme / distinguished
}

/// Returns the tolerance: sums of the same numbers in a different order differ in the last bits.
fn tolerance(sum: f64) -> f64 {
    sum.abs() * 1e-9 + 1e-12
}

/// The criterion for sums that are at least as extreme as the observed one.
#[derive(Debug, Clone, Copy)]
enum Extreme {
    /// This far from 0, on either side.
    Either(f64),
    /// No larger than this.
    AtMost(f64),
}

impl Extreme {
    fn holds(self, sum: f64) -> bool {
        match self {
            Extreme::Either(threshold) => sum.abs() >= threshold,
            Extreme::AtMost(threshold) => sum <= threshold,
        }
    }
}

fn share(ratios: &LogRatios, seed: u64, extreme: Extreme) -> f64 {
    if is_exact(ratios.labelings()) {
        exact_share(ratios.labelings(), extreme)
    } else {
        drawn_share(ratios.labelings(), seed, extreme)
    }
}

fn halves(labelings: &[Vec<f64>]) -> (&[Vec<f64>], &[Vec<f64>]) {
    labelings.split_at(labelings.len() / 2)
}

fn is_exact(labelings: &[Vec<f64>]) -> bool {
    let (first, second) = halves(labelings);
    let count = |half: &[Vec<f64>]| half.iter().try_fold(1usize, |n, labels| n.checked_mul(labels.len()));
    [first, second].into_iter().all(|half| count(half).is_some_and(|count| count <= MOST_OF_A_HALF))
}

fn exact_share(labelings: &[Vec<f64>], extreme: Extreme) -> f64 {
    let (first, second) = halves(labelings);
    let (first, second) = (sums(first), sums(second));
    let mirrored = |sums: &[f64]| sums.iter().rev().map(|sum| -sum).collect::<Vec<_>>();
    let at_most = |threshold: f64| pairs_reaching(&mirrored(&first), &mirrored(&second), -threshold);
    let hits = match extreme {
        Extreme::Either(threshold) if threshold <= 0.0 => first.len() * second.len(),
        Extreme::Either(threshold) => pairs_reaching(&first, &second, threshold) + at_most(-threshold),
        Extreme::AtMost(threshold) => at_most(threshold),
    };
    hits as f64 / (first.len() as f64 * second.len() as f64)
}

/// Counts the pairs of two ascending lists with at least this sum.
fn pairs_reaching(first: &[f64], second: &[f64], threshold: f64) -> usize {
    let mut too_small = second.len();
    first
        .iter()
        .map(|sum| {
            while too_small > 0 && sum + second[too_small - 1] >= threshold {
                too_small -= 1;
            }
            second.len() - too_small
        })
        .sum()
}

/// Returns the sums under all relabelings of these blocks, ascending.
fn sums(labelings: &[Vec<f64>]) -> Vec<f64> {
    labelings.iter().fold(vec![0.0], |sums, labels| {
        let mut more: Vec<f64> =
            labels.iter().flat_map(|log| sums.iter().map(move |sum| sum + log)).collect();
        // A stable sort merges runs that are already ascending.
        more.sort_by(f64::total_cmp);
        more
    })
}

fn drawn_share(labelings: &[Vec<f64>], seed: u64, extreme: Extreme) -> f64 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut draw =
        || -> f64 { labelings.iter().map(|labels| labels[random.random_range(0..labels.len())]).sum() };
    let hits = (0..DRAWN).filter(|_| extreme.holds(draw())).count();
    // The observed labeling is one of the possible ones, so never report 0.
    (hits + 1) as f64 / (DRAWN + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contrast::Block;

    fn wobbling(count: usize) -> LogRatios {
        let run = |i: usize| (1.0 + 0.07 * (i as f64 * 2.3).sin(), 1.03 + 0.07 * (i as f64 * 1.7).cos());
        let blocks: Vec<Block> =
            (0..count).map(|i| Block { controls: vec![run(i).0, 1.0], variant: run(i).1 }).collect();
        LogRatios::of(&blocks)
    }

    #[test]
    fn two_halves_count_what_listing_all_relabelings_counts() {
        for count in 1..9 {
            let ratios = wobbling(count);
            let observed: f64 = ratios.observed().iter().sum();
            let all = sums(ratios.labelings());
            let hits = all.iter().filter(|sum| sum.abs() >= observed.abs() - 1e-9).count();
            assert_eq!(two_sided_p(&ratios, 1), hits as f64 / all.len() as f64, "{count} blocks");
        }
    }

    #[test]
    fn one_side_counts_what_listing_all_relabelings_counts() {
        for count in 1..9 {
            let ratios = wobbling(count);
            let observed: f64 = ratios.observed().iter().sum();
            let all = sums(ratios.labelings());
            let hits = all.iter().filter(|sum| **sum <= observed + 1e-9).count();
            assert_eq!(lower_p(&ratios, 1), hits as f64 / all.len() as f64, "{count} blocks");
        }
    }

    #[test]
    fn drawn_relabelings_agree_with_all_of_them() {
        let ratios = wobbling(15);
        let extreme = Extreme::Either(ratios.observed().iter().sum::<f64>().abs() - 1e-9);
        let (exact, drawn) =
            (exact_share(ratios.labelings(), extreme), drawn_share(ratios.labelings(), 1, extreme));
        assert!((exact - drawn).abs() < 0.01, "{exact} {drawn}");
    }

    #[test]
    fn up_to_twenty_blocks_are_exact_and_more_never_yield_zero() {
        assert!(is_exact(wobbling(20).labelings()) && !is_exact(wobbling(21).labelings()));
        let apart: Vec<Block> = (0..30).map(|_| Block { controls: vec![1.0, 1.01], variant: 3.0 }).collect();
        let ratios = LogRatios::of(&apart);
        assert_eq!(two_sided_p(&ratios, 1), 1.0 / (DRAWN + 1) as f64);
        assert_eq!(smallest_p(&ratios), 1.0 / (DRAWN + 1) as f64);
    }
}
