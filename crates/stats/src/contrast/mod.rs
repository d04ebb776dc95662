//! Compares one variant with the control, paired by block.
//!
//! A block holds every variant once and the control twice, in random order, each on a freshly started process. Whatever
//! the runs of a block share (a warm disk, a noisy neighbor) cancels in the difference of logarithms within the block.
//!
//! - The **estimate** is the geometric mean over blocks of variant ÷ control. A block's control is the geometric mean of
//!   its control runs.
//! - The **interval** is the smoothed bootstrap-*t* over blocks: see [`bootstrap`].
//! - The **p value** is the larger of two: an exact [`permutation`] test's and [`student`]'s *t*. The permutation test
//!   needs no assumption about the shape of the noise, but it does assume that variant and control are equally noisy.
//!   Student's *t* does not, so it keeps a variant that is merely noisier from being called different.

mod block;
mod bootstrap;
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
    /// The smallest p that blocks with as many controls can yield, however large the effect.
    pub smallest_p: f64,
    /// Standard deviation of the log ratio over blocks. `None` with one block.
    pub log_sd: Option<f64>,
}

/// The fewest blocks that give an interval. Without an interval nothing is called different: a spread estimated from
/// four figures makes an interval too wide to be of use.
pub const MIN_BLOCKS: usize = 5;

/// Relative errors below this come from adding and dividing floating-point numbers.
const ROUNDING: f64 = 1e-12;

/// Compares the variant with the control. The interval misses the true ratio with probability `alpha`; `seed` makes the
/// resampling repeatable. Blocks without a control, or with a value that is not positive and finite, do not count.
/// `None` if no block is left.
#[must_use]
pub fn contrast(blocks: &[Block], alpha: f64, seed: u64) -> Option<Contrast> {
    let ratios = LogRatios::of(blocks);
    let observed = ratios.observed();
    (!observed.is_empty()).then(|| Contrast {
        blocks: observed.len(),
        ratio: mean(observed).exp(),
        interval: exponentiated(bootstrap::interval(observed, alpha, seed)),
        p: permutation::two_sided_p(&ratios, seed).max(student::two_sided_p(observed)),
        smallest_p: permutation::smallest_p(&ratios),
        log_sd: (observed.len() > 1).then(|| sd(observed)),
    })
}

/// Bounds to hold against a margin: on each side the wider one of the bootstrap-*t* and Student's *t*. With few blocks and
/// this far out, the bootstrap alone lets slightly more than `alpha` of the costs pass.
#[must_use]
pub fn bounds(blocks: &[Block], alpha: f64, seed: u64) -> Option<(f64, f64)> {
    let ratios = LogRatios::of(blocks);
    let resampled = bootstrap::interval(ratios.observed(), alpha, seed)?;
    let student = student::interval(ratios.observed(), alpha)?;
    exponentiated(Some((resampled.0.min(student.0), resampled.1.max(student.1))))
}

/// The p value of [`contrast`] alone; 1 if no block is left.
#[must_use]
pub fn p_value(blocks: &[Block], seed: u64) -> f64 {
    let ratios = LogRatios::of(blocks);
    permutation::two_sided_p(&ratios, seed).max(student::two_sided_p(ratios.observed()))
}

/// Whether the true ratio is shown to be at most `limit`, with a chance of `alpha` / 2 of being wrong.
///
/// Three tests must agree: the upper one of the [`bounds`] (Student's *t* and the bootstrap-*t*), and a permutation test of
/// the variant's runs divided by `limit`. The latter is exact for noise of any shape that variant and control share, where
/// skewed noise deceives the others.
#[must_use]
pub fn is_below(blocks: &[Block], limit: f64, alpha: f64, seed: u64) -> bool {
    shows_decrease(&LogRatios::relative_to(blocks, limit), alpha, seed)
}

/// Whether the true ratio is shown to be above `limit`, with a chance of `alpha` / 2 of being wrong: the mirror image of
/// [`is_below`].
#[must_use]
pub fn is_above(blocks: &[Block], limit: f64, alpha: f64, seed: u64) -> bool {
    shows_decrease(&LogRatios::relative_to(blocks, limit).mirrored(), alpha, seed)
}

/// The cheapest test first.
fn shows_decrease(ratios: &LogRatios, alpha: f64, seed: u64) -> bool {
    student::is_negative(ratios.observed(), alpha)
        && permutation::lower_p(ratios, seed) <= alpha / 2.0
        && bootstrap::interval(ratios.observed(), alpha, seed).is_some_and(|(_, high)| high <= 0.0)
}

/// The p value of [`contrast`] if it is at most `level`; else possibly less than that, but above `level`.
#[must_use]
pub fn p_value_up_to(blocks: &[Block], level: f64, seed: u64) -> f64 {
    let ratios = LogRatios::of(blocks);
    let student = student::two_sided_p(ratios.observed());
    if student > level { student } else { permutation::two_sided_p(&ratios, seed).max(student) }
}

/// The log ratios of the blocks that count, in three figures.
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

/// The `alpha` of the [`bounds`] that decide whether one of several variants costs no more than a margin.
///
/// A variant is recommended only if *all* its costs are below the margin, so each cost may be tested at the full level (an
/// intersection–union test: R. L. Berger, *Technometrics* 24, 1982). But *any* of the variants might pass by chance, so
/// each gets its share of `alpha`, on the one side that costs (Bonferroni). The bounds are never narrower than the interval
/// that is shown.
#[must_use]
pub fn margin_alpha(alpha: f64, variants: usize) -> f64 {
    alpha.min(2.0 * alpha / variants.max(1) as f64)
}

impl Contrast {
    /// The direction in which the variant is shown to differ from the control, if it is. This takes both: a corrected p
    /// value of at most `alpha`, and an interval that excludes 1.
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

fn exponentiated(interval: Option<(f64, f64)>) -> Option<(f64, f64)> {
    interval.map(|(low, high)| (low.exp(), high.exp()))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn sd(values: &[f64]) -> f64 {
    let center = mean(values);
    (values.iter().map(|v| (v - center).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)).sqrt()
}
