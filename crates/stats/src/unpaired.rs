//! Compares two groups of runs that share no blocks: the ratio of their geometric means, with Welch's interval on
//! logarithms, which assumes neither equal spread nor equal size (B. L. Welch, *Biometrika* 34, 1947).

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The second group against the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unpaired {
    /// Geometric mean of the second group ÷ that of the first.
    pub ratio: f64,
    /// Interval that misses the true ratio with probability `alpha`. `None` if a group has fewer than two
    /// values.
    pub interval: Option<(f64, f64)>,
}

/// Compares two groups of positive values; `None` if one is empty. `alpha` is the probability that the
/// interval misses.
#[must_use]
pub fn unpaired(first: &[f64], second: &[f64], alpha: f64) -> Option<Unpaired> {
    let (first, second) = (Logs::of(first)?, Logs::of(second)?);
    let difference = second.mean - first.mean;
    let half = (first.count > 1.0 && second.count > 1.0).then(|| half_width(first, second, alpha));
    Some(Unpaired {
        ratio: difference.exp(),
        interval: half.map(|half| ((difference - half).exp(), (difference + half).exp())),
    })
}

/// The mean of a group's logarithms, and its squared standard error.
#[derive(Debug, Clone, Copy)]
struct Logs {
    count: f64,
    mean: f64,
    error: f64,
}

impl Logs {
    fn of(values: &[f64]) -> Option<Self> {
        let logs: Vec<f64> = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        (!logs.is_empty()).then(|| Logs { count, mean, error: squares / (count - 1.0).max(1.0) / count })
    }
}

fn half_width(first: Logs, second: Logs, alpha: f64) -> f64 {
    let error = first.error + second.error;
    // Welch–Satterthwaite; two groups without any spread have no error to multiply.
    let degrees = error.powi(2)
        / (first.error.powi(2) / (first.count - 1.0) + second.error.powi(2) / (second.count - 1.0));
    let quantile =
        StudentsT::new(0.0, 1.0, degrees.max(1.0)).map_or(0.0, |t| t.inverse_cdf(1.0 - alpha / 2.0));
    quantile * error.sqrt()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt as _, SeedableRng as _};

    #[test]
    fn groups_without_spread_differ_by_exactly_their_ratio() {
        let found = unpaired(&[2.0, 2.0], &[3.0, 3.0, 3.0], 0.05).unwrap();
        let (low, high) = found.interval.unwrap();
        assert!((found.ratio - 1.5).abs() < 1e-12 && (low - 1.5).abs() < 1e-9 && (high - 1.5).abs() < 1e-9);
        assert_eq!(unpaired(&[1.0], &[2.0], 0.05).unwrap().interval, None);
        assert_eq!(unpaired(&[], &[2.0], 0.05), None);
    }

    #[test]
    fn intervals_cover_as_often_as_they_say_with_unequal_spread_and_size() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut normal = move || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let mut group = |count: usize, log_mean: f64, sd: f64| -> Vec<f64> {
            (0..count).map(|_| (log_mean + sd * normal()).exp()).collect()
        };
        let covered = (0..8000).filter(|_| {
            let (first, second) = (group(12, 0.0, 0.05), group(6, 0.2, 0.1));
            let (low, high) = unpaired(&first, &second, 0.05).unwrap().interval.unwrap();
            (low..high).contains(&0.2f64.exp())
        });
        let share = covered.count() as f64 / 8000.0;
        assert!((0.94..0.96).contains(&share), "{share}");
    }
}
