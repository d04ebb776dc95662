//! The one change that would decide an open requirement, and its price.
//!
//! An estimate is decided when its distance from the limit is large against its error. Three things help: more blocks,
//! longer runs, and less noise between runs. Which is cheapest depends on what a run costs besides its load.

use crate::contrast::{MIN_BLOCKS, Summary};
use crate::decision::Requirement;
use crate::power::{POWER, t_quantile};
use std::time::Duration;

/// An open requirement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenRequirement {
    /// What is asked.
    pub requirement: Requirement,
    /// What the blocks say so far.
    pub summary: Summary,
    /// The two-sided level of the bound that decides.
    pub alpha: f64,
}

/// What blocks cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// A block as it is run now.
    pub block: Duration,
    /// The part of it in which load is measured, which longer runs multiply.
    pub load: Duration,
}

/// A change that decides with a chance of [`POWER`], if the estimate is right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Remedy {
    /// Going on, up to so many blocks in all.
    MoreBlocks {
        /// Blocks in all.
        blocks: usize,
        /// For the blocks that are missing.
        takes: Duration,
    },
    /// Starting again with runs that are longer.
    LongerRuns {
        /// By this factor.
        factor: f64,
        /// Blocks in all.
        blocks: usize,
        /// For all of them.
        takes: Duration,
    },
    /// The estimate lies at the limit: nothing but another limit decides soon.
    AtTheLimit,
}

/// Blocks of an experiment with longer runs.
const BLOCKS_OF_LONGER_RUNS: usize = 10;

/// Blocks beyond which nobody goes on.
const MOST_BLOCKS: usize = 400;

/// A factor beyond which runs measure something else: a server that has run for an hour.
const LONGEST_RUNS: f64 = 20.0;

impl OpenRequirement {
    /// The cheapest remedy. Longer runs are taken to lower the noise by the root of the factor, which holds for noise that
    /// arises within a run.
    #[must_use]
    pub fn remedy(&self, cost: Cost) -> Remedy {
        match (self.more_blocks(cost), self.longer_runs(cost)) {
            (Some((more, price)), Some((_, longer))) if price <= longer => more,
            (_, Some((longer, _))) => longer,
            (Some((more, _)), None) => more,
            (None, None) => Remedy::AtTheLimit,
        }
    }

    /// The noise between runs, as a standard deviation of the log ratio, that decides with so many blocks.
    #[must_use]
    pub fn noise_that_decides(&self, blocks: usize) -> f64 {
        let degrees = blocks.max(2) as f64 - 1.0;
        let errors = t_quantile(degrees, 1.0 - self.alpha / 2.0) + t_quantile(degrees, POWER);
        self.distance() * (degrees + 1.0).sqrt() / errors
    }

    /// The distance from the limit on the side that decides, as a logarithm.
    fn distance(&self) -> f64 {
        let center = self.summary.log_mean;
        match self.requirement {
            Requirement::Smaller { worth } => (-center).max(center - worth.ln()),
            Requirement::AtMost { limit } => (limit.ln() - center).abs(),
        }
    }

    fn more_blocks(&self, cost: Cost) -> Option<(Remedy, Duration)> {
        let fewest = MIN_BLOCKS.max(self.summary.blocks + 1);
        let blocks = (fewest..=MOST_BLOCKS).find(|&n| self.noise_that_decides(n) >= self.summary.log_sd)?;
        let takes = times(cost.block, (blocks - self.summary.blocks) as f64)?;
        Some((Remedy::MoreBlocks { blocks, takes }, takes))
    }

    fn longer_runs(&self, cost: Cost) -> Option<(Remedy, Duration)> {
        let blocks = BLOCKS_OF_LONGER_RUNS;
        let factor = (self.summary.log_sd / self.noise_that_decides(blocks)).powi(2).max(1.0);
        let block = times(cost.load, factor - 1.0)? + cost.block;
        let takes = times(block, blocks as f64)?;
        (factor <= LONGEST_RUNS).then_some((Remedy::LongerRuns { factor, blocks, takes }, takes))
    }
}

fn times(duration: Duration, factor: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    /// A quarter of a block is load; the rest starts servers and waits.
    const COST: Cost = Cost { block: MINUTE, load: Duration::from_secs(15) };

    fn open(ratio: f64, log_sd: f64, blocks: usize) -> OpenRequirement {
        OpenRequirement {
            requirement: Requirement::AtMost { limit: 1.05 },
            summary: Summary { blocks, log_mean: ratio.ln(), log_sd },
            alpha: 0.01,
        }
    }

    #[test]
    fn a_little_noise_takes_a_few_more_blocks() {
        let Remedy::MoreBlocks { blocks, takes } = open(1.0, 0.04, 9).remedy(COST) else { panic!() };
        assert!((10..16).contains(&blocks) && takes == MINUTE * (blocks as u32 - 9), "{blocks}");
    }

    #[test]
    fn much_noise_and_costly_starts_take_longer_runs() {
        let Remedy::LongerRuns { factor, takes, .. } = open(1.0, 0.1, 9).remedy(COST) else { panic!() };
        assert!((3.0..12.0).contains(&factor) && takes < MINUTE * 60, "{factor} {takes:?}");
    }

    #[test]
    fn an_estimate_at_the_limit_needs_another_limit() {
        assert_eq!(open(1.0499, 0.1, 9).remedy(COST), Remedy::AtTheLimit);
        // Beyond it a variant is ruled out as easily as it is let pass within.
        assert!(matches!(open(1.10, 0.04, 9).remedy(COST), Remedy::MoreBlocks { .. }));
    }

    #[test]
    fn a_gain_is_decided_by_whichever_limit_is_farther() {
        let gain = |ratio: f64| {
            let requirement = Requirement::Smaller { worth: 1.0 / 1.05 };
            OpenRequirement { requirement, ..open(ratio, 0.03, 8) }.noise_that_decides(10)
        };
        assert!(gain(0.8) > gain(0.9) && gain(0.9) > gain(0.975) && gain(1.02) > gain(0.975));
    }
}
