//! What an experiment of this size can show: the minimum detectable effect, and how many more blocks a claim needs.
//!
//! The noise comes from the experiment itself: the control runs twice in every block (A/A), and how far the two lie
//! apart is what any variant's ratio has to stand out from.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The chance of showing an effect of the minimum detectable size.
pub const POWER: f64 = 0.8;
/// The chance of calling any variant different by mistake.
pub const ALPHA: f64 = 0.05;

/// The size of an experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Design {
    /// Blocks.
    pub blocks: usize,
    /// Variants that are compared with the control.
    pub variants: usize,
    /// The chance of calling any variant different by mistake that one look at the data may take: [`ALPHA`], divided by
    /// the number of looks.
    pub alpha: f64,
}

impl Design {
    /// The smallest corrected p value that this many blocks can yield: two of 3^blocks relabelings (the observed one
    /// and, at best, its mirror image), times the variants.
    #[must_use]
    pub fn smallest_p(self) -> f64 {
        (2.0 * 3f64.powi(-(self.blocks as i32)) * self.variants as f64).min(1.0)
    }

    /// Whether any effect, however large, could be called significant.
    #[must_use]
    pub fn can_decide(self) -> bool {
        self.blocks >= crate::contrast::MIN_BLOCKS && self.smallest_p() <= self.alpha
    }

    /// The ratio above 1 (its inverse below 1) that is shown with probability [`POWER`], when the log ratio of the
    /// two controls has standard deviation `aa_log_sd`. `None` when the blocks cannot decide at all.
    #[must_use]
    pub fn minimum_detectable_ratio(self, aa_log_sd: f64) -> Option<f64> {
        self.can_decide().then(|| {
            let degrees = (self.blocks - 1) as f64;
            let level = self.alpha / self.variants.max(1) as f64;
            let quantiles = t_quantile(degrees, 1.0 - level / 2.0) + t_quantile(degrees, POWER);
            (quantiles * contrast_sd(aa_log_sd) / (self.blocks as f64).sqrt()).exp()
        })
    }

    /// Blocks that are needed, all in all, for an interval (which misses with probability `alpha`) whose ends lie a factor `margin` (for example 1.03) from
    /// its middle, at most `limit`.
    #[must_use]
    pub fn blocks_for_margin(log_sd: f64, margin: f64, alpha: f64, limit: usize) -> Option<usize> {
        (crate::contrast::MIN_BLOCKS..=limit).find(|&blocks| {
            let half = t_quantile((blocks - 1) as f64, 1.0 - alpha / 2.0) * log_sd / (blocks as f64).sqrt();
            half <= margin.ln()
        })
    }
}

/// The standard deviation of a variant's log ratio to the mean of two controls, from that of one control's to the
/// other: with the same noise σ on every run these are σ·√(3/2) and σ·√2.
fn contrast_sd(aa_log_sd: f64) -> f64 {
    aa_log_sd * 0.75f64.sqrt()
}

fn t_quantile(degrees: f64, p: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::INFINITY, |t| t.inverse_cdf(p))
}

#[cfg(test)]
mod tests {
    use super::{ALPHA, Design};

    #[test]
    fn four_blocks_can_show_nothing_and_five_can() {
        assert!(!Design { blocks: 4, variants: 1, alpha: ALPHA }.can_decide());
        assert!(Design { blocks: 5, variants: 5, alpha: ALPHA }.can_decide());
        assert!(!Design { blocks: 5, variants: 7, alpha: ALPHA }.can_decide());
        assert!(Design { blocks: 6, variants: 12, alpha: ALPHA }.can_decide());
        assert_eq!(Design { blocks: 4, variants: 1, alpha: ALPHA }.minimum_detectable_ratio(0.1), None);
    }

    #[test]
    fn more_blocks_show_smaller_effects() {
        let ratio = |blocks| Design { blocks, variants: 4, alpha: ALPHA }.minimum_detectable_ratio(0.07);
        assert!(ratio(12) < ratio(8) && ratio(8) < ratio(6));
    }

    #[test]
    fn blocks_for_a_margin() {
        // 1 % noise and a 3 % margin: the fewest that give an interval. 10 % noise: about 45 (1.96² × (10/3)² ≈ 43).
        assert_eq!(Design::blocks_for_margin(0.01, 1.03, ALPHA, 100), Some(5));
        let needed = Design::blocks_for_margin(0.10, 1.03, ALPHA, 100);
        assert!(needed.is_some_and(|n| (43..50).contains(&n)), "{needed:?}");
        assert_eq!(Design::blocks_for_margin(0.10, 1.03, ALPHA, 20), None);
    }
}
