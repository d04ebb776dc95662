//! Noise of runs, as produced by servers.

use rand::RngExt as _;
use rand::rngs::Xoshiro256PlusPlus;

/// Draws a standard normal deviate.
pub(crate) fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let (u, v): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// The shape of a run's noise on the log scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    Normal,
    /// One run in ten lies five times as far off.
    HeavyTails,
    /// Two modes, one of which holds three runs in ten.
    Bimodal,
    /// A long tail upwards: an exponential part.
    Skewed,
}

impl Shape {
    /// Draws a deviate with mean 0 and, except for heavy tails, standard deviation 1.
    pub(crate) fn draw(self, random: &mut Xoshiro256PlusPlus) -> f64 {
        match self {
            Shape::Normal => normal(random),
            Shape::HeavyTails => {
                let far = if random.random_bool(0.1) { 5.0 } else { 1.0 };
                far * normal(random)
            }
            Shape::Bimodal => {
                // Modes 2.1 apart account for most of the variance.
                let mode = if random.random_bool(0.3) { 0.7 } else { -0.3 };
                2.1 * mode + (1.0 - 2.1f64.powi(2) * 0.21).sqrt() * normal(random)
            }
            Shape::Skewed => -(1.0 - random.random::<f64>()).ln() - 1.0,
        }
    }
}
