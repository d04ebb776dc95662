//! Student's *t* of the blocks' log ratios.

use super::{ROUNDING, mean, sd};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Returns the p value for a mean of 0. Equal values, or a single one, have no spread to judge by; the
/// permutation test then decides, and p is 0.
pub(super) fn two_sided_p(values: &[f64]) -> f64 {
    statistic(values).map_or(0.0, |(t, law)| 2.0 * law.sf(t.abs()))
}

/// Returns the interval of the mean that misses with probability `alpha`. `None` with fewer than two values.
pub(super) fn interval(values: &[f64], alpha: f64) -> Option<(f64, f64)> {
    let degrees = values.len().checked_sub(1)? as f64;
    let quantile = StudentsT::new(0.0, 1.0, degrees).ok()?.inverse_cdf(1.0 - alpha / 2.0);
    let (center, half) = (mean(values), quantile * sd(values) / (degrees + 1.0).sqrt());
    Some((center - half, center + half))
}

/// Returns whether the upper end of the [`interval`] is at most 0. Faster than computing the interval.
pub(super) fn is_negative(values: &[f64], alpha: f64) -> bool {
    match statistic(values) {
        Some((t, law)) => law.sf(-t) <= alpha / 2.0,
        None => values.len() > 1 && alpha > 0.0 && mean(values) <= 0.0,
    }
}

fn statistic(values: &[f64]) -> Option<(f64, StudentsT)> {
    let degrees = values.len().checked_sub(1)? as f64;
    let law = StudentsT::new(0.0, 1.0, degrees).ok()?;
    let (center, error) = (mean(values), sd(values) / (degrees + 1.0).sqrt());
    (error > ROUNDING * center.abs().max(1.0)).then(|| (center / error, law))
}
