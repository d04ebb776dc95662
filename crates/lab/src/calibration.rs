//! The calibration of an open loop: what the control sustains, and from that the rate and the length of all runs.
//!
//! A closed loop tells how fast the server can go: a short one first, to know how much work takes a while, then a longer one. A
//! share of that (the plan's utilization, by default half) is the rate. At half load the latency is that of the server and not
//! of a queue, so runs that are equal look equal. The rate is tried before it is used, and lowered until the server keeps up.
//!
//! Every variant gets the same rate. A run is so long that its tail is made of many events: see [`run_length`].

use crate::driver::{Measured, Pace};
use crate::plan::{BenchCommand, BenchDriver};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The open loop of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Units of work that the control sustained per second in a closed loop; absent where the plan gives the rate.
    pub sustained_per_s: Option<f64>,
    /// The share of them that is sent; absent where the plan gives the rate.
    pub utilization: Option<f64>,
    /// Units of work that every variant is sent per second.
    pub rate_per_s: f64,
    /// How long a run is measured, in seconds.
    pub run_s: f64,
}

impl Calibration {
    /// The pace of all runs.
    #[must_use]
    pub fn pace(&self) -> Pace {
        Pace::Open { per_second: self.rate_per_s, time: Duration::from_secs_f64(self.run_s) }
    }

    /// At a rate that the plan gives nothing needs to be found out.
    #[must_use]
    pub fn given(rate_per_s: f64, bench: &BenchCommand) -> Self {
        let run_s = bench.run_length.unwrap_or_else(|| run_length(rate_per_s)).as_secs_f64();
        Calibration { sustained_per_s: None, utilization: None, rate_per_s, run_s }
    }
}

/// Why a control has no rate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// A closed loop yields no figures.
    #[error(
        "the closed loop of the calibration did not say how many {units} a second the control sustains{problems}. Mend the load's \
         options, or give load.rate a number"
    )]
    NoFigures {
        /// Units of work, in the plural.
        units: &'static str,
        /// Its problems, in brackets.
        problems: String,
    },
    /// No rate is kept up.
    #[error(
        "the control does not keep up even with {per_s:.1} {units} a second{problems}. Give load.rate a number that it sustains, or a \
         lower load.utilization"
    )]
    NotSustained {
        /// Units of work, in the plural.
        units: &'static str,
        /// The last rate that was tried.
        per_s: f64,
        /// The problems of the last try, in brackets.
        problems: String,
    },
}

/// The first closed loop: so much, to know how long it takes.
const PROBE: Pace = Pace::Closed { units: 30, time: Duration::from_secs(3) };
/// The second one takes about so long.
const CLOSED_LOOP: Duration = Duration::from_secs(10);
/// How long a rate is tried.
const TRIAL: Duration = Duration::from_secs(8);
/// A server keeps up if it does this share of what is sent.
const KEPT_UP: f64 = 0.95;
/// Each further try has this share of the rate before.
const LOWER: f64 = 0.75;
/// Tries before it is given up.
const TRIES: usize = 4;

/// Finds the open loop of a plan. `load` puts one load on the running control.
///
/// # Errors
/// The load's own, or why there is no rate, as `E` has it.
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

/// Three digits: a rate is something that people read, and put into other plans.
fn rounded(rate: f64) -> f64 {
    let digits = 10f64.powf(2.0 - rate.log10().floor());
    (rate * digits).round() / digits
}

/// How long a run is at a rate.
///
/// With 120 broadcasts in ten seconds p95 was 60 or 120 ms, by whether a full collection fell among them. A run therefore has
/// [`UNITS`] units of work, of which the slowest twentieth are thirty, within bounds that keep an experiment to minutes.
#[must_use]
pub fn run_length(rate_per_s: f64) -> Duration {
    let seconds = (UNITS / rate_per_s).clamp(SHORTEST.as_secs_f64(), LONGEST.as_secs_f64());
    Duration::from_secs_f64(seconds.ceil())
}

/// Units of work in a run, if that takes neither too short nor too long.
const UNITS: f64 = 600.0;
/// The application collects several times in it.
const SHORTEST: Duration = Duration::from_secs(30);
/// Longer runs make an experiment of hours.
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

    /// A server that sustains so much in a closed loop, and so much of what an open loop sends.
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
        assert!(error.contains("even with 21.1 requests a second"), "{error}");
    }

    #[test]
    fn a_load_without_figures_says_what_was_wrong_with_it() {
        let lost = |_| Ok(Measured { dirty: Some("3 lost".into()), ..Measured::default() });
        let error: CalibrationError = calibrate(BenchDriver::Cable, &bench(), lost).unwrap_err();
        assert!(error.to_string().contains("broadcasts a second the control sustains (3 lost)"), "{error}");
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
