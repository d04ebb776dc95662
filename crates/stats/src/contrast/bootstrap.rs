//! The smoothed bootstrap-*t* over blocks.
//!
//! The studentized bootstrap (Efron & Tibshirani, *An Introduction to the Bootstrap*, 1993, §12.5) accounts for a spread that
//! is estimated from the same few blocks: with six blocks the percentile bootstrap covers 88 % where it says 95 %. The
//! resamples are smoothed with a kernel of one standard error (Hesterberg, *What Teachers Should Know about the
//! Bootstrap*, 2014, §3.3). Without it a few nearly equal blocks make resamples without spread, and intervals without
//! bounds.

use super::{MIN_BLOCKS, ROUNDING, mean, sd};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

const RESAMPLES: usize = 4_999;

/// The interval of the mean that misses with probability `alpha`. `None` with fewer than [`MIN_BLOCKS`] values.
pub(super) fn interval(values: &[f64], alpha: f64, seed: u64) -> Option<(f64, f64)> {
    let n = values.len();
    if n < MIN_BLOCKS {
        return None;
    }
    let (center, error) = (mean(values), sd(values) / (n as f64).sqrt());
    // Equal ratios differ by rounding alone, which is no spread.
    if error <= ROUNDING * center.abs().max(1.0) {
        return Some((center, center));
    }
    let mut studentized = studentized_resamples(values, center, error, seed);
    let tail = ((alpha / 2.0 * (studentized.len() + 1) as f64) as usize).max(1);
    let last = studentized.len().checked_sub(tail)?;
    let mut ranked = |rank: usize| *studentized.select_nth_unstable_by(rank, f64::total_cmp).1;
    let (lowest, highest) = (ranked(tail - 1), ranked(last));
    Some((center - highest * error, center - lowest * error))
}

fn studentized_resamples(values: &[f64], center: f64, error: f64, seed: u64) -> Vec<f64> {
    let n = values.len();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut resample = vec![0.0; n];
    let mut studentized = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for pair in resample.chunks_mut(2) {
            let kernel = two_normals(&mut random);
            for (value, normal) in pair.iter_mut().zip(kernel) {
                *value = values[random.random_range(0..n)] + error * normal;
            }
        }
        let spread = sd(&resample) / (n as f64).sqrt();
        // Without spread there is nothing to divide by; the kernel makes that all but impossible.
        if spread > ROUNDING * error {
            studentized.push((mean(&resample) - center) / spread);
        }
    }
    studentized
}

/// Two independent standard normal deviates (Box & Muller 1958).
fn two_normals(random: &mut Xoshiro256PlusPlus) -> [f64; 2] {
    let (radius, angle): (f64, f64) = (random.random(), random.random());
    let (sine, cosine) = (std::f64::consts::TAU * angle).sin_cos();
    [cosine, sine].map(|part| (-2.0 * (1.0 - radius).ln()).sqrt() * part)
}
