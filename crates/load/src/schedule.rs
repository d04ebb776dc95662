//! The intended times of an open loop, fixed before the run and independent of the server.

use crate::options::OptionsError;
use rand::RngExt as _;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The distribution of an open loop's intended times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Equally spaced.
    #[default]
    Constant,
    /// Like independent users: exponentially distributed gaps.
    Poisson,
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "constant" => Ok(Self::Constant),
            "poisson" => Ok(Self::Poisson),
            other => Err(format!("'{other}' is neither 'constant' nor 'poisson'")),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Constant => "constant",
            Self::Poisson => "poisson",
        })
    }
}

/// An open loop: messages are sent at intended times, whatever the server does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenLoop {
    /// Average rate.
    pub per_second: f64,
    /// The distribution of the intended times.
    pub arrivals: Arrivals,
}

impl OpenLoop {
    pub(crate) fn check(self) -> Result<(), OptionsError> {
        match self.per_second.is_finite() && self.per_second > 0.0 {
            true => Ok(()),
            false => OptionsError::because("the rate of an open loop has to be a number above 0"),
        }
    }
}

/// An endless sequence of intended times, in nanoseconds of the driver's clock.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    arrivals: Arrivals,
    gap_ns: f64,
    start_ns: f64,
    /// Time of the next arrival since the start. A floating-point sum keeps a rate of 3/s at 3/s.
    offset_ns: f64,
    count: u64,
}

impl Schedule {
    /// Creates the schedule of an open loop that starts at `start_ns`.
    pub(crate) fn new(open: OpenLoop, start_ns: u64) -> Self {
        let OpenLoop { per_second, arrivals } = open;
        Self { arrivals, gap_ns: 1e9 / per_second, start_ns: start_ns as f64, offset_ns: 0.0, count: 0 }
    }

    /// Returns the next intended time.
    pub(crate) fn next_ns(&self) -> u64 {
        (self.start_ns + self.offset_ns) as u64
    }

    /// Advances to the following time.
    pub(crate) fn advance(&mut self, random: &mut SmallRng) {
        self.count += 1;
        self.offset_ns = match self.arrivals {
            Arrivals::Constant => self.count as f64 * self.gap_ns,
            // random() is in [0, 1), so the logarithm's argument is never 0.
            Arrivals::Poisson => self.offset_ns - self.gap_ns * (1.0 - random.random::<f64>()).ln(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    fn times(arrivals: Arrivals, count: usize) -> Vec<u64> {
        let mut random = SmallRng::seed_from_u64(1);
        let mut schedule = Schedule::new(OpenLoop { per_second: 1000.0, arrivals }, 5_000);
        let next = || {
            let time = schedule.next_ns();
            schedule.advance(&mut random);
            time
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    #[test]
    fn constant_times_do_not_drift() {
        let times = times(Arrivals::Constant, 10_001);
        assert_eq!((times[0], times[1], times[10_000]), (5_000, 1_005_000, 10_000_005_000));
    }

    #[test]
    fn poisson_times_have_the_rate_and_the_spread_of_a_poisson_process() {
        let times = times(Arrivals::Poisson, 20_001);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let spread = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean / 1e6 - 1.0).abs() < 0.03, "the mean gap is {mean} ns");
        assert!((spread / mean - 1.0).abs() < 0.03, "the spread is {spread} ns");
    }
}
