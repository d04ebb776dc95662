//! One block's runs, and their log ratios under every labeling.

/// One block's runs of one metric, all positive.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The control's runs: two, or one if the other was excluded.
    pub controls: Vec<f64>,
    /// The variant's run.
    pub variant: f64,
}

impl Block {
    /// Returns the block's log ratio as observed, followed by the ratios with each control run in the
    /// variant's place. `None` if the block does not count.
    fn labelings(&self) -> Option<Vec<f64>> {
        let usable = |v: &f64| v.is_finite() && *v > 0.0;
        if self.controls.is_empty() || !self.controls.iter().chain([&self.variant]).all(usable) {
            return None;
        }
        // Relative to one of them, so that equal runs differ by exactly zero.
        let unit = self.controls[0];
        let logs: Vec<f64> =
            [&self.variant].into_iter().chain(&self.controls).map(|v| (v / unit).ln()).collect();
        let (total, others) = (logs.iter().sum::<f64>(), (logs.len() - 1) as f64);
        Some(logs.iter().map(|log| log - (total - log) / others).collect())
    }
}

/// The log ratios of all blocks that count.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LogRatios {
    observed: Vec<f64>,
    labelings: Vec<Vec<f64>>,
}

impl LogRatios {
    pub(super) fn of(blocks: &[Block]) -> Self {
        let labelings: Vec<_> = blocks.iter().filter_map(Block::labelings).collect();
        LogRatios { observed: labelings.iter().map(|ratios| ratios[0]).collect(), labelings }
    }

    /// Computes the log ratios for the hypothesis that the true ratio is `limit`: the variant's runs are
    /// divided by it, and could then as well be the control's.
    pub(super) fn relative_to(blocks: &[Block], limit: f64) -> Self {
        let shifted = |block: &Block| Block { variant: block.variant / limit, ..block.clone() };
        LogRatios::of(&blocks.iter().map(shifted).collect::<Vec<_>>())
    }

    /// Returns the ratios with the opposite sign.
    pub(super) fn mirrored(self) -> Self {
        let mirror = |ratios: Vec<f64>| ratios.into_iter().map(|ratio| -ratio).collect::<Vec<_>>();
        LogRatios {
            observed: mirror(self.observed),
            labelings: self.labelings.into_iter().map(mirror).collect(),
        }
    }

    /// Returns the measured ratios, block by block.
    pub(super) fn observed(&self) -> &[f64] {
        &self.observed
    }

    /// Returns the ratios under every labeling, block by block; the observed one comes first.
    pub(super) fn labelings(&self) -> &[Vec<f64>] {
        &self.labelings
    }
}
