//! The pace of a bench driver: the options that set it, and the work sent by a run.

use crate::plan::BenchDriver;
use std::time::Duration;

/// The pace and length of one load of a bench driver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// As the plan's options say.
    AsWritten,
    /// Closed loop: the next unit is sent when one is done. Drivers that count run for `units`, drivers that
    /// time for `time`.
    Closed {
        /// Units of work.
        units: u64,
        /// Duration.
        time: Duration,
    },
    /// Open loop: at intended times, whatever the server does.
    Open {
        /// Units of work per second.
        per_second: f64,
        /// Duration.
        time: Duration,
    },
}

impl BenchDriver {
    /// The options that a pace determines.
    #[must_use]
    pub const fn paced_by(self) -> &'static [&'static str] {
        match self {
            BenchDriver::Cable => &["--rate", "--concurrency", "--classic", "--sample", "--step"],
            BenchDriver::Http => &["--rate", "--time", "--requests", "-n", "--batches", "--warm-up"],
            BenchDriver::Jobs => &["--rate", "--jobs", "-n"],
        }
    }

    /// The options that make the driver send at a pace.
    #[must_use]
    pub fn options(self, pace: Pace) -> Vec<String> {
        // Everybody is connected before the first broadcast: one step with all clients.
        let one_step = format!("--step={}", u32::MAX);
        match (self, pace) {
            (_, Pace::AsWritten) => Vec::new(),
            (BenchDriver::Cable, Pace::Closed { units, .. }) => vec![one_step, format!("--sample={units}")],
            (BenchDriver::Cable, Pace::Open { per_second, time }) => {
                vec![
                    format!("--rate={per_second}"),
                    one_step,
                    format!("--sample={}", units_in(per_second, time)),
                ]
            }
            (BenchDriver::Http, Pace::Closed { time, .. }) => vec![seconds(time), "--warm-up=0".to_owned()],
            (BenchDriver::Http, Pace::Open { per_second, time }) => {
                vec![format!("--rate={per_second}"), seconds(time), "--warm-up=0".to_owned()]
            }
            (BenchDriver::Jobs, Pace::Closed { units, .. }) => vec![format!("--jobs={units}")],
            (BenchDriver::Jobs, Pace::Open { per_second, time }) => {
                vec![format!("--rate={per_second}"), format!("--jobs={}", units_in(per_second, time))]
            }
        }
    }
}

/// Returns the number of units, at least one.
fn units_in(per_second: f64, time: Duration) -> u64 {
    (per_second * time.as_secs_f64()).ceil().max(1.0) as u64
}

fn seconds(time: Duration) -> String {
    format!("--time={}s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_sets_only_options_that_it_decides() {
        let time = Duration::from_secs(10);
        for driver in [BenchDriver::Cable, BenchDriver::Http, BenchDriver::Jobs] {
            for pace in
                [Pace::AsWritten, Pace::Closed { units: 7, time }, Pace::Open { per_second: 2.5, time }]
            {
                for option in driver.options(pace) {
                    let name = option.split('=').next().unwrap_or_default();
                    assert!(driver.paced_by().contains(&name), "{driver:?} {option}");
                }
            }
        }
    }

    #[test]
    fn an_open_loop_sends_what_its_rate_makes_in_its_time() {
        let pace = Pace::Open { per_second: 12.5, time: Duration::from_secs(30) };
        assert_eq!(BenchDriver::Jobs.options(pace), ["--rate=12.5", "--jobs=375"]);
        assert_eq!(BenchDriver::Http.options(pace), ["--rate=12.5", "--time=30s", "--warm-up=0"]);
        assert_eq!(BenchDriver::Cable.options(pace)[2], "--sample=375");
    }
}
