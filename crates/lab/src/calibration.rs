//! The calibration of an open loop: it determines the throughput that the control sustains, and derives the
//! rate and length of all runs.
//!
//! A closed loop measures how fast the server can go: first a short one, to find out how much work takes a
//! while, then a longer one. A share of that throughput (the plan's utilization, half by default) becomes the
//! rate. At half load the latency is the server's rather than a queue's, so equal runs look equal. The rate
//! is tried before it is used, and lowered until the server keeps up.
//!
//! Every variant gets the same rate. A run is long enough for its tail to consist of many events: see
//! [`run_length`].

use crate::driver::{Measured, Pace};
use crate::plan::{BenchCommand, BenchDriver};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The open loop of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Units of work per second that the control sustained in a closed loop; absent if the plan sets the
    /// rate.
    pub sustained_per_s: Option<f64>,
    /// The share of it that is sent; absent if the plan sets the rate.
    pub utilization: Option<f64>,
    /// Units of work sent to every variant per second.
    pub rate_per_s: f64,
    /// Measured length of a run, in seconds.
    pub run_s: f64,
}

impl Calibration {
    /// The pace of all runs.
    #[must_use]
    pub fn pace(&self) -> Pace {
        Pace::Open { per_second: self.rate_per_s, time: Duration::from_secs_f64(self.run_s) }
    }

    /// Creates the calibration for a rate set by the plan, which needs no measurement.
    #[must_use]
    pub fn given(rate_per_s: f64, bench: &BenchCommand) -> Self {
        let run_s = bench.run_length.unwrap_or_else(|| run_length(rate_per_s)).as_secs_f64();
        Calibration { sustained_per_s: None, utilization: None, rate_per_s, run_s }
    }
}

/// The reason why no rate was found.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// The closed loop yields no figures.
    #[error(
        "the calibration's closed loop did not report how many {units} per second the control \
         sustains{problems}. Fix the load's options, or set load.rate to a number"
    )]
    NoFigures {
        /// Units of work, in the plural.
        units: &'static str,
        /// Its problems, in parentheses.
        problems: String,
    },
    /// The control keeps up with no rate.
    #[error(
        "the control does not keep up even with {per_s:.1} {units} per second{problems}. Set load.rate to \
         a number that it sustains, or lower load.utilization"
    )]
    NotSustained {
        /// Units of work, in the plural.
        units: &'static str,
        /// The last rate tried.
        per_s: f64,
        /// The problems of the last trial, in parentheses.
        problems: String,
    },
}

/// The first closed loop, which measures how long this much work takes.
const PROBE: Pace = Pace::Closed { units: 30, time: Duration::from_secs(3) };
/// Approximate length of the second closed loop.
const CLOSED_LOOP: Duration = Duration::from_secs(10);
/// Length of the trial of a rate.
const TRIAL: Duration = Duration::from_secs(8);
/// A server keeps up if it does this share of the work sent.
const KEPT_UP: f64 = 0.95;
/// Factor from one trial's rate to the next.
const LOWER: f64 = 0.75;
/// Maximum number of trials.
const TRIES: usize = 4;

/// Finds the open loop of a plan. `load` puts one load on the running control.
///
/// # Errors
/// Those of the load, or the reason why there is no rate, converted to `E`.
pub fn calibrate<E: From<CalibrationError>>(
    driver: BenchDriver,
    bench: &BenchCommand,
    mut load: impl FnMut(Pace) -> Result<Measured, E>,
) -> Result<Calibration, E> {
    let units = driver.units();
    let mut closed = |pace| -> Result<f64, E> {
        let measured = load(pace)?;
        let sustained = measured.sent_per_s.filter(|rate| rate.is_finite() && *rate > 0.0);
        Ok(sustained.ok_or_else(|| CalibrationError::NoFigures { units, problems: problems(&measured) })?)
    };
    let probed = closed(PROBE)?;
    let enough = (probed * CLOSED_LOOP.as_secs_f64()).ceil().max(1.0) as u64;
    let mut sustained = closed(Pace::Closed { units: enough, time: CLOSED_LOOP })?;
    let mut last = Measured::default();
    for _ in 0..TRIES {
        let rate_per_s = rounded(sustained * bench.utilization);
        last = load(Pace::Open { per_second: rate_per_s, time: TRIAL })?;
        if keeps_up(&last, rate_per_s) {
            let run_s = bench.run_length.unwrap_or_else(|| run_length(rate_per_s)).as_secs_f64();
            let (sustained_per_s, utilization) = (Some(rounded(sustained)), Some(bench.utilization));
            return Ok(Calibration { sustained_per_s, utilization, rate_per_s, run_s });
        }
        sustained *= LOWER;
    }
    let per_s = sustained / LOWER * bench.utilization;
    Err(CalibrationError::NotSustained { units, per_s, problems: problems(&last) }.into())
}

fn keeps_up(measured: &Measured, rate_per_s: f64) -> bool {
    measured.dirty.is_none() && measured.sent_per_s.is_some_and(|sent| sent >= KEPT_UP * rate_per_s)
}

fn problems(measured: &Measured) -> String {
    measured.dirty.as_ref().map_or(String::new(), |problems| format!(" ({problems})"))
}

/// Rounds to three digits, since people read the rate and copy it into other plans.
fn rounded(rate: f64) -> f64 {
    let digits = 10f64.powf(2.0 - rate.log10().floor());
    (rate * digits).round() / digits
}

/// Returns the length of a run at a rate.
///
/// With 120 broadcasts in ten seconds p95 was 60 or 120 ms, depending on whether a full collection fell among
/// them. A run therefore has [`UNITS`] units of work, of which the slowest twentieth are thirty, within
/// bounds that keep an experiment to minutes.
#[must_use]
pub fn run_length(rate_per_s: f64) -> Duration {
    let seconds = (UNITS / rate_per_s).clamp(SHORTEST.as_secs_f64(), LONGEST.as_secs_f64());
    Duration::from_secs_f64(seconds.ceil())
}

/// Units of work in a run, unless that takes too short or too long.
const UNITS: f64 = 600.0;
/// Shortest run: the application collects garbage several times in it.
const SHORTEST: Duration = Duration::from_secs(30);
/// Longest run: longer ones would stretch an experiment to hours.
const LONGEST: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn bench() -> BenchCommand {
        BenchCommand {
            url: String::new(),
            options: Vec::new(),
            rate: None,
            utilization: 0.5,
            run_length: None,
        }
    }

    /// Creates a server that sustains `closed` in a closed loop, and at most `open` of the work sent in an
    /// open loop.
    fn server(closed: f64, open: f64) -> impl FnMut(Pace) -> Result<Measured, CalibrationError> {
        move |pace| {
            let sent = match pace {
                Pace::Open { per_second, .. } => per_second.min(open),
                Pace::Closed { .. } | Pace::AsWritten => closed,
            };
            Ok(Measured { sent_per_s: Some(sent), ..Measured::default() })
        }
    }

    #[test]
    fn half_of_what_the_control_sustains_is_sent() {
        let found = calibrate(BenchDriver::Cable, &bench(), server(24.38, 24.0)).unwrap();
        let expected = Calibration {
            sustained_per_s: Some(24.4),
            utilization: Some(0.5),
            rate_per_s: 12.2,
            run_s: 50.0,
        };
        assert_eq!(found, expected);
        assert_eq!(found.pace(), Pace::Open { per_second: 12.2, time: Duration::from_secs(50) });
    }

    #[test]
    fn the_second_closed_loop_is_as_long_as_the_first_one_says() {
        let mut asked = Vec::new();
        let mut fast = server(200.0, 200.0);
        calibrate(BenchDriver::Jobs, &bench(), |pace| {
            asked.push(pace);
            fast(pace)
        })
        .unwrap();
        assert_eq!(asked[1], Pace::Closed { units: 2000, time: CLOSED_LOOP });
        assert_eq!(asked[2], Pace::Open { per_second: 100.0, time: TRIAL });
    }

    #[test]
    fn a_rate_that_is_not_kept_up_with_is_lowered() {
        let found = calibrate(BenchDriver::Http, &bench(), server(100.0, 30.0)).unwrap();
        assert_eq!((found.rate_per_s, found.sustained_per_s), (28.1, Some(56.3)));
        let error = calibrate(BenchDriver::Http, &bench(), server(100.0, 1.0)).unwrap_err().to_string();
        assert!(error.contains("even with 21.1 requests per second"), "{error}");
    }

    #[test]
    fn a_load_without_figures_says_what_was_wrong_with_it() {
        let lost = |_| Ok(Measured { dirty: Some("3 lost".into()), ..Measured::default() });
        let error: CalibrationError = calibrate(BenchDriver::Cable, &bench(), lost).unwrap_err();
        assert!(error.to_string().contains("broadcasts per second the control sustains (3 lost)"), "{error}");
    }

    #[test]
    fn a_run_is_long_enough_for_a_tail_and_short_enough_for_a_person() {
        let seconds = |rate| run_length(rate).as_secs();
        assert_eq!((seconds(1000.0), seconds(12.0), seconds(2.0)), (30, 50, 90));
        let given =
            Calibration::given(8.0, &BenchCommand { run_length: Some(Duration::from_secs(25)), ..bench() });
        assert_eq!((given.rate_per_s, given.run_s, given.utilization), (8.0, 25.0, None));
    }
}
