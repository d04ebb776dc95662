//! Power of an experiment of a given size: the minimum detectable effect.
//!
//! The noise is the experiment's own: the control runs twice in every block (A/A), and a variant's ratio must
//! stand out from the difference between these two.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The probability of detecting an effect of the minimum detectable size.
pub const POWER: f64 = 0.8;
/// The probability of calling anything different by mistake in a whole experiment.
pub const ALPHA: f64 = 0.05;

/// The size of an experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Design {
    /// Number of blocks that count.
    pub blocks: usize,
    /// Number of comparisons corrected together: variants × metrics of the rule.
    pub comparisons: usize,
    /// The error probability available to this look at the data: [`ALPHA`] if it is the only one.
    pub alpha: f64,
}

impl Design {
    /// Returns the smallest corrected p value that this many blocks with two controls can yield: one of
    /// 3^blocks relabelings, times the comparisons.
    #[must_use]
    pub fn smallest_p(self) -> f64 {
        (self.comparisons as f64 / self.relabelings()).min(1.0)
    }

    /// Returns whether any effect, however large, could be called significant.
    #[must_use]
    pub fn can_decide(self) -> bool {
        self.blocks >= crate::contrast::MIN_BLOCKS && self.smallest_p() <= self.alpha
    }

    /// Returns the ratio above 1 (its inverse below 1) that is detected with probability [`POWER`], if the
    /// log ratio of the two controls has the standard deviation `aa_log_sd`, estimated from as many blocks,
    /// and the variant is as noisy as the control. `None` if the blocks cannot decide at all.
    #[must_use]
    pub fn minimum_detectable_ratio(self, aa_log_sd: f64) -> Option<f64> {
        let errors = self.can_decide().then(|| self.detectable_errors())?;
        Some((errors * contrast_sd(aa_log_sd) / (self.blocks as f64).sqrt()).exp())
    }

    /// Returns the same in standard errors, as estimated by the A/A runs.
    ///
    /// The p value must reach the level for the smallest of Holm's family, where Student's t is the more demanding test; then the
    /// interval excludes 1, too.
    fn detectable_errors(self) -> f64 {
        let degrees = (self.blocks - 1) as f64;
        let level = self.alpha / self.comparisons.max(1) as f64;
        exceeded(t_quantile(degrees, 1.0 - level / 2.0), degrees)
    }

    /// Returns the number of relabelings of blocks with two controls. Beyond thirty blocks the exact number
    /// does not matter.
    fn relabelings(self) -> f64 {
        3f64.powi(i32::try_from(self.blocks.min(30)).unwrap_or(30))
    }
}

/// Returns the standard deviation of a variant's log ratio to the mean of two controls, from that of one
/// control to the other. With the same noise σ on every run these are σ·√(3/2) and σ·√2.
fn contrast_sd(aa_log_sd: f64) -> f64 {
    aa_log_sd * 0.75f64.sqrt()
}

/// Returns the effect `k`, in standard errors as estimated by the A/A runs, whose t exceeds `quantile` with
/// probability [`POWER`].
///
/// It does if `(Z + k·S) / S' > q`. `Z` is the estimate's error; `S` and `S'` are the estimates of the same
/// spread from the A/A runs and from the variant's own, with as many degrees of freedom each. By the delta
/// method `Z + k·S − q·S'` has the variance 1 + (k² + q²) / 2·degrees. `tests/calibration` confirms the
/// approximation.
fn exceeded(quantile: f64, degrees: f64) -> f64 {
    let power = t_quantile(degrees, POWER);
    // k is on both sides; the iteration contracts.
    (0..50).fold(quantile, |k, _| {
        quantile + power * (1.0 + (k * k + quantile * quantile) / (2.0 * degrees)).sqrt()
    })
}

/// Returns the quantile of Student's *t*.
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
        // Too many to count the relabelings one by one.
        assert!(ratio(900, 4).is_some_and(|r| r < 1.02));
    }
}
