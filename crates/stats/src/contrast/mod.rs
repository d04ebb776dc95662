//! Compares one variant with the control, paired by block.
//!
//! A block holds every variant once and the control twice, in random order, each on a freshly started
//! process. Conditions shared by the runs of a block (a warm disk, a noisy neighbor) cancel in the difference
//! of logarithms within the block.
//!
//! - The **estimate** is the geometric mean over blocks of variant ÷ control. A block's control is the
//!   geometric mean of its control runs.
//! - The **interval** is [`student`]'s over blocks. The difference of a run and the mean of two is nearly
//!   symmetric even where the runs' noise is not, so it keeps its coverage even with outliers, two modes or a
//!   long tail, as long as variant and control share the noise.
//! - The **p value** is the larger of two: an exact [`permutation`] test's and [`student`]'s *t*. The
//!   permutation test needs no assumption about the shape of the noise, but it does assume that variant and
//!   control are equally noisy. Student's *t* does not, so it keeps a variant that is merely noisier from
//!   being called different.

mod block;
mod permutation;
mod student;
#[cfg(test)]
mod tests;

pub use block::Block;

use block::LogRatios;
use std::cmp::Ordering;

/// The comparison of one variant with the control in one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contrast {
    /// Blocks that have both the variant and a control.
    pub blocks: usize,
    /// Variant ÷ control.
    pub ratio: f64,
    /// Interval of the ratio, 95 % for an alpha of 0.05. `None` with fewer than [`MIN_BLOCKS`] blocks.
    pub interval: Option<(f64, f64)>,
    /// Two-sided p value, before any correction.
    pub p: f64,
    /// The smallest p that these blocks can yield, however large the effect.
    pub smallest_p: f64,
    /// Standard deviation of the log ratio over blocks. `None` with one block.
    pub log_sd: Option<f64>,
}

/// Minimum number of blocks for an interval. Without an interval nothing is called different: a spread
/// estimated from four figures makes an interval too wide to be useful.
pub const MIN_BLOCKS: usize = 5;

/// Relative errors below this come from adding and dividing floating-point numbers.
const ROUNDING: f64 = 1e-12;

/// Compares the variant with the control. The interval misses the true ratio with probability `alpha`; `seed` makes a
/// permutation test of more than twenty blocks repeatable. Blocks without a control, or with a value that is not positive and finite, do not count.
/// `None` if no block is left.
#[must_use]
pub fn contrast(blocks: &[Block], alpha: f64, seed: u64) -> Option<Contrast> {
    let ratios = LogRatios::of(blocks);
    let observed = ratios.observed();
    (!observed.is_empty()).then(|| Contrast {
        blocks: observed.len(),
        ratio: mean(observed).exp(),
        interval: interval(&ratios, alpha),
        p: permutation::two_sided_p(&ratios, seed).max(student::two_sided_p(observed)),
        smallest_p: permutation::smallest_p(&ratios),
        log_sd: (observed.len() > 1).then(|| sd(observed)),
    })
}

/// Returns the bounds to compare with a margin: the interval that misses with probability `alpha`.
#[must_use]
pub fn bounds(blocks: &[Block], alpha: f64) -> Option<(f64, f64)> {
    interval(&LogRatios::of(blocks), alpha)
}

fn interval(ratios: &LogRatios, alpha: f64) -> Option<(f64, f64)> {
    let observed = Some(ratios.observed()).filter(|observed| observed.len() >= MIN_BLOCKS)?;
    student::interval(observed, alpha).map(|(low, high)| (low.exp(), high.exp()))
}

/// Returns the p value of [`contrast`] alone; 1 if no block is left.
#[must_use]
pub fn p_value(blocks: &[Block], seed: u64) -> f64 {
    let ratios = LogRatios::of(blocks);
    permutation::two_sided_p(&ratios, seed).max(student::two_sided_p(ratios.observed()))
}

/// Returns whether the true ratio is shown to be at most `limit`, with error probability `alpha` / 2.
///
/// Two tests must agree: the upper one of the [`bounds`], and a permutation test of the variant's runs
/// divided by `limit`. The latter is exact for noise of any shape that variant and control share; the former
/// keeps a merely noisier variant from passing.
#[must_use]
pub fn is_below(blocks: &[Block], limit: f64, alpha: f64, seed: u64) -> bool {
    shows_decrease(&LogRatios::relative_to(blocks, limit), alpha, seed)
}

/// Returns whether the true ratio is shown to be above `limit`, with error probability `alpha` / 2: the
/// mirror image of [`is_below`].
#[must_use]
pub fn is_above(blocks: &[Block], limit: f64, alpha: f64, seed: u64) -> bool {
    shows_decrease(&LogRatios::relative_to(blocks, limit).mirrored(), alpha, seed)
}

/// Runs the cheapest test first.
fn shows_decrease(ratios: &LogRatios, alpha: f64, seed: u64) -> bool {
    ratios.observed().len() >= MIN_BLOCKS
        && student::is_negative(ratios.observed(), alpha)
        && permutation::lower_p(ratios, seed) <= alpha / 2.0
}

/// Returns the p value of [`contrast`] if it is at most `level`; otherwise possibly a smaller one, but above
/// `level`.
#[must_use]
pub fn p_value_up_to(blocks: &[Block], level: f64, seed: u64) -> f64 {
    let ratios = LogRatios::of(blocks);
    let student = student::two_sided_p(ratios.observed());
    if student > level { student } else { permutation::two_sided_p(&ratios, seed).max(student) }
}

/// The log ratios of the blocks that count, summarized in three figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Blocks that count.
    pub blocks: usize,
    /// Mean of the log ratios.
    pub log_mean: f64,
    /// Their standard deviation; 0 for one block.
    pub log_sd: f64,
}

impl Summary {
    /// Summarizes the blocks; `None` if none counts.
    #[must_use]
    pub fn of(blocks: &[Block]) -> Option<Self> {
        let ratios = LogRatios::of(blocks);
        let observed = ratios.observed();
        let log_sd = if observed.len() > 1 { sd(observed) } else { 0.0 };
        (!observed.is_empty()).then(|| Summary { blocks: observed.len(), log_mean: mean(observed), log_sd })
    }
}

/// Returns the `alpha` of the [`bounds`] that decide whether one of several variants costs no more than a
/// margin.
///
/// A variant is recommended only if *all* its costs are below the margin, so each cost may be tested at the
/// full level (an intersection–union test: R. L. Berger, *Technometrics* 24, 1982). But *any* of the variants
/// might pass by chance, so each gets its share of `alpha`, on the costly side only (Bonferroni). The bounds
/// are never narrower than the displayed interval.
#[must_use]
pub fn margin_alpha(alpha: f64, variants: usize) -> f64 {
    alpha.min(2.0 * alpha / variants.max(1) as f64)
}

impl Contrast {
    /// Returns the direction in which the variant is shown to differ from the control, if it is. This
    /// requires both a corrected p value of at most `alpha` and an interval that excludes 1.
    #[must_use]
    pub fn shown(&self, p_adjusted: f64, alpha: f64) -> Option<Ordering> {
        let (low, high) = self.interval.filter(|_| p_adjusted <= alpha)?;
        match (high < 1.0, low > 1.0) {
            (true, _) => Some(Ordering::Less),
            (_, true) => Some(Ordering::Greater),
            _ => None,
        }
    }

    /// Returns whether any effect, however large, could be shown among this many comparisons.
    #[must_use]
    pub fn can_decide(&self, comparisons: usize, alpha: f64) -> bool {
        self.interval.is_some() && self.smallest_p * comparisons as f64 <= alpha
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn sd(values: &[f64]) -> f64 {
    let center = mean(values);
    (values.iter().map(|v| (v - center).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)).sqrt()
}
