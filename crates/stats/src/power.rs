//! Power of an experiment of a given size: the minimum detectable effect, and the blocks that a claim needs.
//!
//! The noise is the experiment's own: the control runs twice in every block (A/A), and a variant's ratio must stand out from
//! the difference between these two.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The chance of showing an effect of the minimum detectable size.
pub const POWER: f64 = 0.8;
/// The chance of calling anything different by mistake in a whole experiment.
pub const ALPHA: f64 = 0.05;

/// The size of an experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Design {
    /// Blocks that count.
    pub blocks: usize,
    /// Comparisons that are corrected together: variants × metrics that the rule looks at.
    pub comparisons: usize,
    /// The chance of calling anything different by mistake that this look at the data may take: [`ALPHA`] if it is the
    /// only one.
    pub alpha: f64,
}

impl Design {
    /// The smallest corrected p value that this many blocks with two controls can yield: one of 3^blocks relabelings,
    /// times the comparisons.
    #[must_use]
    pub fn smallest_p(self) -> f64 {
        (self.comparisons as f64 / self.relabelings()).min(1.0)
    }

    /// Whether any effect, however large, could be called significant.
    #[must_use]
    pub fn can_decide(self) -> bool {
        self.blocks >= crate::contrast::MIN_BLOCKS && self.smallest_p() <= self.alpha
    }

    /// The ratio above 1 (its inverse below 1) that is shown with probability [`POWER`], when the log ratio of the
    /// two controls has the standard deviation `aa_log_sd`, estimated from as many blocks, and the variant is as noisy
    /// as the control. `None` when the blocks cannot decide at all.
    #[must_use]
    pub fn minimum_detectable_ratio(self, aa_log_sd: f64) -> Option<f64> {
        let errors = self.can_decide().then(|| self.detectable_errors())?;
        Some((errors * contrast_sd(aa_log_sd) / (self.blocks as f64).sqrt()).exp())
    }

    /// The same in standard errors, as the A/A runs estimate them.
    ///
    /// Two conditions must hold. The p value must reach the level for the smallest of Holm's family, where Student's t is the
    /// more demanding test. And the interval must exclude 1; its resampled quantiles scatter around t's, more so with few
    /// blocks, and the allowance for that is fitted to the simulations.
    fn detectable_errors(self) -> f64 {
        let degrees = (self.blocks - 1) as f64;
        let quantile = |level: f64| t_quantile(degrees, 1.0 - level / 2.0);
        let for_p = quantile(self.alpha / self.comparisons.max(1) as f64);
        let for_interval = quantile(self.alpha) * (1.0 + 1.5 / degrees);
        exceeded(for_p.max(for_interval), degrees)
    }

    /// The total number of blocks, at most `limit`, for an interval whose ends lie `half_width` (a logarithm) from its middle
    /// and which misses with probability `alpha`.
    #[must_use]
    pub fn blocks_for_half_width(log_sd: f64, half_width: f64, alpha: f64, limit: usize) -> Option<usize> {
        (crate::contrast::MIN_BLOCKS..=limit).find(|&blocks| {
            let quantile = t_quantile((blocks - 1) as f64, 1.0 - alpha / 2.0);
            quantile * log_sd / (blocks as f64).sqrt() <= half_width
        })
    }

    /// Relabelings of blocks with two controls. Beyond thirty blocks the number no longer matters.
    fn relabelings(self) -> f64 {
        3f64.powi(i32::try_from(self.blocks.min(30)).unwrap_or(30))
    }
}

/// The standard deviation of a variant's log ratio to the mean of two controls, from that of one control to the other.
/// With the same noise σ on every run these are σ·√(3/2) and σ·√2.
fn contrast_sd(aa_log_sd: f64) -> f64 {
    aa_log_sd * 0.75f64.sqrt()
}

/// The effect `k`, in standard errors as the A/A runs estimate them, whose t exceeds `quantile` with probability [`POWER`].
///
/// It does when `(Z + k·S) / S' > q`. `Z` is the estimate's error; `S` and `S'` are the estimates of the same spread from the
/// A/A runs and from the variant's own, with as many degrees of freedom each. By the delta method `Z + k·S − q·S'` has the
/// variance 1 + (k² + q²) / 2·degrees. `tests/calibration` confirms the approximation.
fn exceeded(quantile: f64, degrees: f64) -> f64 {
    let power = t_quantile(degrees, POWER);
    // k stands on both sides; the iteration contracts.
    (0..50).fold(quantile, |k, _| {
        quantile + power * (1.0 + (k * k + quantile * quantile) / (2.0 * degrees)).sqrt()
    })
}

/// The quantile of Student's *t*.
pub(crate) fn t_quantile(degrees: f64, p: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::INFINITY, |t| t.inverse_cdf(p))
}

#[cfg(test)]
mod tests {
    use super::{ALPHA, Design};

    fn design(blocks: usize, comparisons: usize) -> Design {
        Design { blocks, comparisons, alpha: ALPHA }
    }

    #[test]
    fn four_blocks_can_show_nothing_and_five_can() {
        assert!(!design(4, 1).can_decide());
        assert!(design(5, 12).can_decide());
        assert!(!design(5, 13).can_decide());
        assert!(design(6, 36).can_decide());
        assert!(!design(6, 37).can_decide());
        assert_eq!(design(4, 1).minimum_detectable_ratio(0.1), None);
    }

    #[test]
    fn more_blocks_and_fewer_comparisons_show_smaller_effects() {
        let ratio = |blocks, comparisons| design(blocks, comparisons).minimum_detectable_ratio(0.07);
        assert!(ratio(12, 4) < ratio(8, 4) && ratio(8, 4) < ratio(6, 4));
        assert!(ratio(6, 3) < ratio(6, 15));
        // So many that the relabelings cannot be counted one by one any more.
        assert!(ratio(900, 4).is_some_and(|r| r < 1.02));
    }

    #[test]
    fn blocks_for_an_interval() {
        // 1 % noise and a 3 % margin: the fewest that give an interval. 10 % noise: about 45 (1.96² × (10/3)² ≈ 43).
        let needed = |log_sd, limit| Design::blocks_for_half_width(log_sd, 1.03f64.ln(), ALPHA, limit);
        assert_eq!(needed(0.01, 100), Some(5));
        assert!(needed(0.10, 100).is_some_and(|n| (43..50).contains(&n)), "{:?}", needed(0.10, 100));
        assert_eq!(needed(0.10, 20), None);
        assert_eq!(Design::blocks_for_half_width(0.01, -0.01, ALPHA, 100), None);
    }
}
