//! Alpha spending: the part of the error probability that each look at a growing experiment may use.
//!
//! An experiment that goes on until something shows would always find something. Here the data are examined
//! after every block, starting with the first informative one, and each look spends a part of alpha (K. K. G.
//! Lan & D. L. DeMets, *Biometrika* 70, 1983). After a share *t* of the largest number of blocks, *t*^1.5 of
//! alpha is spent (the power family of K. Kim & D. L. DeMets, *Biometrika* 74, 1987). This lies between
//! Pocock's shape, which gives up a tenth of the power, and O'Brien and Fleming's, under which six blocks
//! cannot decide even obvious cases.
//!
//! The nominal level of each look follows from the recursion of P. Armitage, C. K. McPherson & B. C. Rowe
//! (*JRSS A* 132, 1969) for sums of independent normal deviates. It is applied to p values, whichever test
//! they come from ("significance level approach": C. Jennison & B. W. Turnbull, *Group Sequential Methods*,
//! 2000, §3.8). Two facts make this valid for all levels from the whole alpha down to alpha ÷ comparisons at
//! once: looks depend on each other less the further out the level lies, so shares computed for the lowest
//! level are safe for the others; and Student's *t* with few degrees of freedom makes them still less
//! dependent, for which they are computed [`FOR_STUDENT`] further out. `tests/calibration` simulates the
//! resulting error rates.

use crate::contrast::MIN_BLOCKS;
use statrs::distribution::{Continuous as _, ContinuousCDF as _, Normal};

/// The first look of a sequential experiment. One block more than [`MIN_BLOCKS`], so that the exact
/// permutation test can reach the level of this look.
pub const FIRST_LOOK: usize = MIN_BLOCKS + 1;

/// The growth of the spent alpha with the share of the blocks.
const EXPONENT: f64 = 1.5;

/// Factor on the level at which shares are computed, for Student's *t*: see the module.
const FOR_STUDENT: f64 = 0.05;

/// The looks at an experiment's data, and the part of alpha that each may spend.
#[derive(Debug, Clone, PartialEq)]
pub enum Looks {
    /// One look at the end: the number of blocks is fixed in advance.
    Once,
    /// A look after each block from [`FIRST_LOOK`] on.
    EveryBlock(Spending),
}

/// The nominal share of alpha of each look.
#[derive(Debug, Clone, PartialEq)]
pub struct Spending {
    /// The shares of the looks after [`FIRST_LOOK`] blocks, and so on.
    shares: Vec<f64>,
}

impl Looks {
    /// Creates looks after each block up to `last`. `comparisons` are corrected together, each of them
    /// two-sided at `alpha`.
    #[must_use]
    pub fn every_block(last: usize, comparisons: usize, alpha: f64) -> Self {
        let lowest = alpha / 2.0 / comparisons.max(1) as f64;
        Looks::EveryBlock(Spending { shares: shares(FIRST_LOOK, last.max(FIRST_LOOK), lowest * FOR_STUDENT) })
    }

    /// Returns the share of alpha available to the look after this number of blocks; 0 if there is no look.
    #[must_use]
    pub fn share(&self, blocks: usize) -> f64 {
        match self {
            Looks::Once => 1.0,
            Looks::EveryBlock(Spending { shares }) => {
                let look = blocks.checked_sub(FIRST_LOOK).map(|look| look.min(shares.len() - 1));
                look.map_or(0.0, |look| shares[look])
            }
        }
    }

    /// Returns the largest number of blocks; `None` if it is fixed elsewhere.
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        match self {
            Looks::Once => None,
            Looks::EveryBlock(Spending { shares }) => Some(FIRST_LOOK + shares.len() - 1),
        }
    }
}

/// Returns the nominal levels of the looks after `first`, …, `last` blocks as shares of a one-sided `level`.
fn shares(first: usize, last: usize, level: f64) -> Vec<f64> {
    let spent = |blocks: usize| level * (blocks as f64 / last as f64).powf(EXPONENT);
    let mut walk = Walk::before(first);
    let mut shares = Vec::with_capacity(last + 1 - first);
    let mut before = 0.0;
    for blocks in first..=last {
        let boundary = walk.boundary(spent(blocks) - before);
        before = spent(blocks);
        shares.push(standard().sf(boundary / (blocks as f64).sqrt()) / level);
        walk.advance(boundary);
    }
    shares
}

fn standard() -> Normal {
    Normal::standard()
}

/// The sum of independent standard normal deviates, restricted to paths that have not crossed a boundary.
struct Walk {
    blocks: usize,
    /// Midpoints of equal cells, with the probability of each. Empty before the first look.
    cells: Vec<(f64, f64)>,
}

impl Walk {
    const CELLS: usize = 400;
    /// Standard deviations below 0 beyond which the sum has negligible probability.
    const DEPTH: f64 = 5.5;

    /// Creates the state before the look after this number of blocks.
    fn before(blocks: usize) -> Self {
        Walk { blocks, cells: Vec::new() }
    }

    /// Returns the probability that the sum exceeds `bound` at this look.
    fn beyond(&self, bound: f64) -> f64 {
        if self.cells.is_empty() {
            return standard().sf(bound / (self.blocks as f64).sqrt());
        }
        self.cells.iter().map(|(sum, p)| p * standard().sf(bound - sum)).sum()
    }

    /// Returns the bound that the sum exceeds with this probability at this look.
    fn boundary(&self, probability: f64) -> f64 {
        let (mut low, mut high) = (0.0, 9.0 * (self.blocks as f64).sqrt());
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if self.beyond(middle) > probability { low = middle } else { high = middle }
        }
        f64::midpoint(low, high)
    }

    /// Advances to the next look with the part below `boundary`.
    fn advance(&mut self, boundary: f64) {
        let spread = (self.blocks as f64).sqrt();
        let low = -Self::DEPTH * spread;
        let width = (boundary - low) / Self::CELLS as f64;
        let density = |sum: f64| -> f64 {
            match self.cells.as_slice() {
                [] => standard().pdf(sum / spread) / spread,
                cells => cells.iter().map(|(from, p)| p * standard().pdf(sum - from)).sum(),
            }
        };
        let middle = |cell: usize| low + (cell as f64 + 0.5) * width;
        self.cells = (0..Self::CELLS).map(middle).map(|sum| (sum, density(sum) * width)).collect();
        self.blocks += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pocock's bound for two equal looks at a one-sided 0.025 is 2.178 (Jennison & Turnbull 2000, table
    /// 2.1). Here the second look's level is free, so the recursion is checked by the alpha it spends.
    #[test]
    fn two_looks_at_pococks_bound_spend_his_alpha() {
        let (first, bound) = (10, 2.178);
        let mut walk = Walk::before(first);
        let at_first = walk.beyond(bound * 10f64.sqrt());
        walk.advance(bound * 10f64.sqrt());
        for _ in 1..first {
            // No boundary between the two looks.
            walk.advance(9.0 * 20f64.sqrt());
        }
        let spent = at_first + walk.beyond(bound * 20f64.sqrt());
        assert!((spent - 0.025).abs() < 2e-4, "{spent}");
    }

    #[test]
    fn shares_rise_and_later_looks_are_dearer_than_the_sum_of_what_they_spend() {
        let looks = Looks::every_block(20, 6, 0.05);
        let shares: Vec<f64> = (0..=25).map(|blocks| looks.share(blocks)).collect();
        assert_eq!(shares[..FIRST_LOOK], [0.0; FIRST_LOOK]);
        assert!((shares[FIRST_LOOK] - 0.3f64.powf(1.5)).abs() < 1e-3, "{shares:?}");
        assert!(shares[8..=20].windows(2).all(|pair| pair[0] < pair[1]), "{shares:?}");
        assert!((0.25..0.45).contains(&shares[20]), "{shares:?}");
        assert_eq!(shares[25], shares[20]);
        assert_eq!(looks.last(), Some(20));
    }

    #[test]
    fn a_fixed_number_of_blocks_spends_all_of_alpha_at_once() {
        assert_eq!((Looks::Once.share(3), Looks::Once.last()), (1.0, None));
    }
}
