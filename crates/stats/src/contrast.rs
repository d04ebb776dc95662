//! One variant against the control, paired by block.
//!
//! A block holds every variant once and the control twice, in random order, each on a fresh process. What a block has
//! in common (a warm disk, a noisy neighbor) drops out of the difference of logarithms within the block, so
//!
//! - the **estimate** is the geometric mean over blocks of variant ÷ control, where a block's control is the geometric
//!   mean of its control runs;
//! - the **interval** is the bootstrap-*t* over blocks (Efron & Tibshirani, *An Introduction to the Bootstrap*, 1993,
//!   §12.5), smoothed with a kernel of one standard error (Hesterberg, *What Teachers Should Know about the Bootstrap*, 2014,
//!   §3.3), without which a few nearly equal blocks make resamples without spread and intervals without bounds. Unlike
//!   the percentile bootstrap, which with six blocks covers 88 % where it says 95 %, it accounts for the spread being
//!   estimated from the same few blocks;
//! - the **p value** is the larger of two. A permutation test's: if the variant did nothing, any run of a block could as
//!   well have been the one that is called the variant, so such relabelings tell what chance alone brings about (with one
//!   control this is the sign-flip test). Up to 131,072 of them are enumerated and p is exact: ten blocks with two
//!   controls; of more, as many are drawn. Six blocks with two controls have 3⁶ = 729: enough to stay below 0.05 after
//!   correction for 36 comparisons. And Student's *t* of the blocks' log ratios: a variant that is merely noisier than the
//!   control is not exchangeable with it, and the permutation test alone would call it different far too often.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use statrs::distribution::{ContinuousCDF as _, StudentsT};
use std::cmp::Ordering;

/// One block's runs of one metric, all positive.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The control's runs: two, or one when the other was excluded.
    pub controls: Vec<f64>,
    /// The variant's run.
    pub variant: f64,
}

/// What the blocks say about one variant and one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contrast {
    /// Blocks that have both the variant and a control.
    pub blocks: usize,
    /// Variant ÷ control.
    pub ratio: f64,
    /// Interval of the ratio, 95 % for an alpha of 0.05; `None` with fewer than [`MIN_BLOCKS`] blocks.
    pub interval: Option<(f64, f64)>,
    /// Two-sided p value, before any correction.
    pub p: f64,
    /// The smallest p that blocks with as many controls can yield, however large the effect.
    pub smallest_p: f64,
    /// Standard deviation over blocks of the log ratio; `None` with one block.
    pub log_sd: Option<f64>,
}

/// Fewer blocks give no interval, and without an interval nothing is called different: spread that is estimated from
/// four figures makes an interval too wide to be of use.
pub const MIN_BLOCKS: usize = 5;

/// Relabelings up to which all are enumerated; beyond, this many are drawn.
const ENUMERATED: usize = 1 << 17;
const RESAMPLES: usize = 4_999;
/// Relative errors below this are those of adding and dividing.
const ROUNDING: f64 = 1e-12;

/// Compares. The interval misses with probability `alpha`. Blocks with a value that is not positive and finite, or
/// without a control, do not count. The seed makes the resampling repeatable. `None` when no block is left.
#[must_use]
pub fn contrast(blocks: &[Block], alpha: f64, seed: u64) -> Option<Contrast> {
    let relabeled = relabelings(blocks);
    let observed = observed(&relabeled);
    (!observed.is_empty()).then(|| Contrast {
        blocks: observed.len(),
        ratio: mean(&observed).exp(),
        interval: exponentiated(bootstrap_t(&observed, alpha, seed)),
        p: permutation_p(&relabeled, seed).max(t_test_p(&observed)),
        smallest_p: smallest_p(&relabeled),
        log_sd: (observed.len() > 1).then(|| sd(&observed)),
    })
}

/// Bounds to be held against a margin: on each side the wider one of the bootstrap-t's and of Student's. The former alone,
/// so far out, lets a little more than `alpha` of costs pass when there are few blocks.
#[must_use]
pub fn bounds(blocks: &[Block], alpha: f64, seed: u64) -> Option<(f64, f64)> {
    let observed = observed(&relabelings(blocks));
    let (low, high) = bootstrap_t(&observed, alpha, seed)?;
    let degrees = observed.len() as f64 - 1.0;
    let quantile = StudentsT::new(0.0, 1.0, degrees).ok()?.inverse_cdf(1.0 - alpha / 2.0);
    let (center, half) = (mean(&observed), quantile * sd(&observed) / (degrees + 1.0).sqrt());
    exponentiated(Some((low.min(center - half), high.max(center + half))))
}

/// The p value of [`contrast`] alone; 1 when no block is left.
#[must_use]
pub fn p_value(blocks: &[Block], seed: u64) -> f64 {
    let relabeled = relabelings(blocks);
    permutation_p(&relabeled, seed).max(t_test_p(&observed(&relabeled)))
}

/// The `alpha` of the [`bounds`] from which it is decided that one of several variants costs no more than a margin.
///
/// A variant is recommended when *all* its costs are below the margin, so each may be held against the margin at the
/// full level (an intersection–union test: R. L. Berger, *Technometrics* 24, 1982). But *any* of the variants might pass
/// by chance: each takes its share of `alpha`, on the one side that costs (Bonferroni). Never narrower than the interval
/// that is shown.
#[must_use]
pub fn margin_alpha(alpha: f64, variants: usize) -> f64 {
    alpha.min(2.0 * alpha / variants.max(1) as f64)
}

impl Contrast {
    /// The difference that is shown, if any: whether the variant is `Less` or `Greater` than the control. Both the p value
    /// after correction has to be at most `alpha` and the interval to leave 1 out.
    #[must_use]
    pub fn shown(&self, p_adjusted: f64, alpha: f64) -> Option<Ordering> {
        let (low, high) = self.interval.filter(|_| p_adjusted <= alpha)?;
        match (high < 1.0, low > 1.0) {
            (true, _) => Some(Ordering::Less),
            (_, true) => Some(Ordering::Greater),
            _ => None,
        }
    }

    /// Whether any effect, however large, could be shown among so many comparisons.
    #[must_use]
    pub fn can_decide(&self, comparisons: usize, alpha: f64) -> bool {
        self.interval.is_some() && self.smallest_p * comparisons as f64 <= alpha
    }
}

/// Per usable block, its log ratio as observed, followed by those under other labels.
fn relabelings(blocks: &[Block]) -> Vec<Vec<f64>> {
    blocks.iter().filter_map(Block::relabelings).collect()
}

fn observed(relabeled: &[Vec<f64>]) -> Vec<f64> {
    relabeled.iter().map(|labels| labels[0]).collect()
}

fn exponentiated(interval: Option<(f64, f64)>) -> Option<(f64, f64)> {
    interval.map(|(low, high)| (low.exp(), high.exp()))
}

impl Block {
    /// The block's log ratio as observed, followed by those with each control run in the variant's place.
    fn relabelings(&self) -> Option<Vec<f64>> {
        let usable = |v: &f64| v.is_finite() && *v > 0.0;
        if self.controls.is_empty() || !self.controls.iter().chain([&self.variant]).all(usable) {
            return None;
        }
        // Relative to one of them, so that equal runs differ by exactly nothing.
        let unit = self.controls[0];
        let logs: Vec<f64> =
            [&self.variant].into_iter().chain(&self.controls).map(|v| (v / unit).ln()).collect();
        let (total, others) = (logs.iter().sum::<f64>(), (logs.len() - 1) as f64);
        Some(logs.iter().map(|log| log - (total - log) / others).collect())
    }
}

/// At best the observed labeling is the most extreme of all. With two controls in some block no other is as extreme: its
/// mirror image would have to give the variant's name to both. With one control in all blocks the mirror image is.
fn smallest_p(relabeled: &[Vec<f64>]) -> f64 {
    let all: f64 = relabeled.iter().map(|labels| labels.len() as f64).product();
    let mirrored = relabeled.iter().all(|labels| labels.len() == 2);
    let extreme = if mirrored { 2.0 } else { 1.0 };
    extreme / all.min((ENUMERATED + 1) as f64)
}

/// The share of relabelings whose mean is at least as far from 0 as the observed one.
fn permutation_p(relabeled: &[Vec<f64>], seed: u64) -> f64 {
    let observed: f64 = relabeled.iter().map(|labels| labels[0]).sum();
    // Sums of the same numbers in another order differ in the last bits.
    let threshold = observed.abs() * (1.0 - 1e-9) - 1e-12;
    let all = relabeled.iter().try_fold(1usize, |n, labels| n.checked_mul(labels.len()));
    match all.filter(|&all| all <= ENUMERATED) {
        Some(all) => extreme(relabeled, 0.0, threshold) as f64 / all as f64,
        None => {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut draw = || -> f64 {
                relabeled.iter().map(|labels| labels[random.random_range(0..labels.len())]).sum()
            };
            let hits = (0..ENUMERATED).filter(|_| draw().abs() >= threshold).count();
            // The observed labeling is one of the possible ones: never report 0.
            (hits + 1) as f64 / (ENUMERATED + 1) as f64
        }
    }
}

/// How many relabelings of the remaining blocks reach the threshold.
fn extreme(relabeled: &[Vec<f64>], sum: f64, threshold: f64) -> usize {
    match relabeled.split_first() {
        None => usize::from(sum.abs() >= threshold),
        Some((labels, rest)) => labels.iter().map(|log| extreme(rest, sum + log, threshold)).sum(),
    }
}

/// Student's, of the mean being 0. Equal values, or one alone, have no spread to judge by: the permutations decide.
fn t_test_p(values: &[f64]) -> f64 {
    let error = if values.len() > 1 { sd(values) / (values.len() as f64).sqrt() } else { 0.0 };
    let center = mean(values);
    if values.is_empty() || error <= ROUNDING * center.abs().max(1.0) {
        return 0.0;
    }
    let t = StudentsT::new(0.0, 1.0, values.len() as f64 - 1.0);
    t.map_or(1.0, |t| 2.0 * t.sf((center / error).abs()))
}

/// The bootstrap-t interval of the mean that misses with probability `alpha`.
fn bootstrap_t(values: &[f64], alpha: f64, seed: u64) -> Option<(f64, f64)> {
    let n = values.len();
    if n < MIN_BLOCKS {
        return None;
    }
    let (center, error) = (mean(values), sd(values) / (n as f64).sqrt());
    // Equal ratios differ by what rounding makes of them, which is no spread.
    if error <= ROUNDING * center.abs().max(1.0) {
        return Some((center, center));
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut resample = vec![0.0; n];
    let mut studentized = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for pair in resample.chunks_mut(2) {
            let kernel = two_normals(&mut random);
            for (value, normal) in pair.iter_mut().zip(kernel) {
                *value = values[random.random_range(0..n)] + error * normal;
            }
        }
        let spread = sd(&resample) / (n as f64).sqrt();
        // Without spread there is nothing to divide by; the kernel makes that all but impossible.
        if spread > ROUNDING * error {
            studentized.push((mean(&resample) - center) / spread);
        }
    }
    let tail = ((alpha / 2.0 * (studentized.len() + 1) as f64) as usize).max(1);
    let last = studentized.len().checked_sub(tail)?;
    let mut ranked = |rank: usize| *studentized.select_nth_unstable_by(rank, f64::total_cmp).1;
    let (lowest, highest) = (ranked(tail - 1), ranked(last));
    Some((center - highest * error, center - lowest * error))
}

/// Independent ones, by Box and Muller.
fn two_normals(random: &mut Xoshiro256PlusPlus) -> [f64; 2] {
    let (radius, angle): (f64, f64) = (random.random(), random.random());
    let (sine, cosine) = (std::f64::consts::TAU * angle).sin_cos();
    [cosine, sine].map(|part| (-2.0 * (1.0 - radius).ln()).sqrt() * part)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn sd(values: &[f64]) -> f64 {
    let center = mean(values);
    (values.iter().map(|v| (v - center).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TWO: &[f64] = &[1.0, 1.0];

    fn blocks(runs: &[(&[f64], f64)]) -> Vec<Block> {
        runs.iter().map(|&(controls, variant)| Block { controls: controls.to_vec(), variant }).collect()
    }

    #[test]
    fn the_ratio_is_the_geometric_mean_within_blocks() {
        // The second block's machine is ten times slower: that must not matter.
        let contrast = contrast(&blocks(&[(&[2.0, 8.0], 2.0), (&[40.0], 20.0)]), 0.05, 1).unwrap();
        assert!((contrast.ratio - 0.5).abs() < 1e-12);
        assert_eq!((contrast.blocks, contrast.interval), (2, None));
    }

    #[test]
    fn one_control_makes_the_sign_flip_test() {
        let contrast = contrast(&blocks(&[(&[1.0], 2.0), (&[1.0], 3.0), (&[1.0], 4.0)]), 0.05, 1).unwrap();
        assert_eq!((contrast.p, contrast.smallest_p), (2.0 / 8.0, 2.0 / 8.0));
    }

    #[test]
    fn two_controls_give_three_relabelings_a_block() {
        let contrast = contrast(&blocks(&[(TWO, 2.0); 5]), 0.05, 1).unwrap();
        assert_eq!((contrast.p, contrast.smallest_p), (1.0 / 243.0, 1.0 / 243.0));
        assert_eq!(contrast.interval.map(|(low, high)| (low.round(), high.round())), Some((2.0, 2.0)));
    }

    #[test]
    fn identical_runs_show_nothing() {
        let runs: &[f64] = &[3.0, 3.0];
        let contrast = contrast(&blocks(&[(runs, 3.0); 6]), 0.05, 1).unwrap();
        assert_eq!((contrast.p, contrast.interval), (1.0, Some((1.0, 1.0))));
    }

    /// Rounding leaves their ratios some 1e-17 apart, which once sent the resampling around for ever.
    #[test]
    fn blocks_of_one_ratio_have_it_as_their_interval() {
        for ratio in [0.9, 0.7, 1.1, 3.3, 1e-9, 1e12] {
            for count in 5..9 {
                let runs: Vec<Block> = (1..=count)
                    .map(|i| f64::from(i) * 1.7)
                    .map(|c| Block { controls: vec![c, c], variant: c * ratio })
                    .collect();
                let contrast = contrast(&runs, 0.05, 1).unwrap();
                let (low, high) = contrast.interval.unwrap();
                assert!(
                    (low / ratio - 1.0).abs() < 1e-9 && (high / ratio - 1.0).abs() < 1e-9,
                    "{contrast:?}"
                );
            }
        }
    }

    #[test]
    fn a_control_that_is_missing_costs_relabelings() {
        let mut runs = blocks(&[(TWO, 2.0); 5]);
        runs[0].controls.pop();
        let contrast = contrast(&runs, 0.05, 1).unwrap();
        assert_eq!((contrast.p, contrast.smallest_p), (1.0 / 162.0, 1.0 / 162.0));
        assert!(contrast.can_decide(8, 0.05) && !contrast.can_decide(9, 0.05));
    }

    #[test]
    fn a_variant_that_is_only_noisier_is_not_different() {
        // Whatever it does, it does more of it than the control, and always to the same side by chance.
        let runs: Vec<Block> = [1.05, 1.9, 1.1, 3.0, 1.02, 1.3]
            .map(|variant| Block { controls: vec![1.0, 1.001], variant })
            .to_vec();
        let relabeled: Vec<_> = runs.iter().filter_map(Block::relabelings).collect();
        assert_eq!(permutation_p(&relabeled, 1), 1.0 / 729.0);
        assert!(contrast(&runs, 0.05, 1).unwrap().p > 0.05);
    }

    #[test]
    fn a_difference_needs_both_a_small_p_and_an_interval_without_one() {
        let contrast = contrast(&blocks(&[(TWO, 0.5); 5]), 0.05, 1).unwrap();
        assert_eq!(contrast.shown(0.05, 0.05), Some(Ordering::Less));
        assert_eq!(contrast.shown(0.06, 0.05), None);
        assert_eq!(Contrast { interval: Some((0.5, 1.01)), ..contrast }.shown(0.01, 0.05), None);
        assert_eq!(
            Contrast { interval: Some((1.01, 2.0)), ..contrast }.shown(0.01, 0.05),
            Some(Ordering::Greater)
        );
        assert_eq!(Contrast { interval: None, ..contrast }.shown(0.01, 0.05), None);
    }

    #[test]
    fn bounds_are_never_narrower_than_the_interval() {
        let spread = |i: usize| 1.0 + 0.05 * (i as f64 * 2.3).sin();
        for count in 5..12 {
            let runs: Vec<Block> =
                (0..count).map(|i| Block { controls: vec![1.0], variant: spread(i) }).collect();
            let (low, high) = contrast(&runs, 0.05, 1).unwrap().interval.unwrap();
            let wider = bounds(&runs, 0.05, 1).unwrap();
            assert!(wider.0 <= low && high <= wider.1 && bounds(&runs, 0.01, 1).unwrap().1 > wider.1);
        }
        assert_eq!(bounds(&blocks(&[(TWO, 0.5); 4]), 0.05, 1), None);
    }

    #[test]
    fn a_margin_is_held_at_a_wider_interval_the_more_variants_might_pass() {
        assert_eq!([1, 2, 4].map(|variants| margin_alpha(0.05, variants)), [0.05, 0.05, 0.025]);
    }

    #[test]
    fn unusable_blocks_do_not_count() {
        let contrast =
            contrast(&blocks(&[(&[], 1.0), (&[0.0], 1.0), (&[f64::NAN], 1.0), (&[1.0], 2.0)]), 0.05, 1);
        assert_eq!(contrast.unwrap().blocks, 1);
        assert_eq!(super::contrast(&[], 0.05, 1), None);
    }

    #[test]
    fn many_blocks_are_drawn_and_agree_with_the_enumeration() {
        let run = |i: usize| (1.0 + 0.07 * (i as f64 * 2.3).sin(), 1.03 + 0.07 * (i as f64 * 1.7).cos());
        let pairs: Vec<Block> =
            (0..17).map(|i| Block { controls: vec![run(i).0], variant: run(i).1 }).collect();
        let exact = contrast(&pairs, 0.05, 1).unwrap().p;
        let relabeled: Vec<_> = pairs.iter().filter_map(Block::relabelings).collect();
        // An eighteenth block with nothing to say doubles the relabelings past the limit without changing any sum.
        let more = [relabeled, vec![vec![0.0, 0.0]]].concat();
        let drawn = permutation_p(&more, 1);
        assert!((exact - drawn).abs() < 0.01, "{exact} {drawn}");
    }

    #[test]
    fn the_seed_repeats_the_interval() {
        let runs: Vec<Block> =
            (1..9).map(|i| Block { controls: vec![1.0, 1.1], variant: 1.0 + 0.01 * f64::from(i) }).collect();
        assert_eq!(contrast(&runs, 0.05, 7), contrast(&runs, 0.05, 7));
        assert_ne!(contrast(&runs, 0.05, 7).unwrap().interval, contrast(&runs, 0.05, 8).unwrap().interval);
    }
}
