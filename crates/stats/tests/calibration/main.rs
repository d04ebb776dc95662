//! Thousands of simulated experiments with known effects: the claims of the comparison must hold on average.
//!
//! `make calibrate` repeats each simulation [`REPEAT`] times as often and prints the figures that docs/method/compare.md
//! quotes.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod claims;
mod fixed;
mod halving;
mod noise;
mod sequential;
mod simulation;
mod tail;

/// The environment variable with the factor on the number of simulated experiments.
const REPEAT: &str = "UNBLOAT_CALIBRATION";

/// Two standard errors of a share that so many simulated experiments have.
fn doubt(share: f64, experiments: usize) -> f64 {
    2.0 * (share * (1.0 - share) / experiments as f64).sqrt()
}

/// Number of experiments to simulate instead of the `usual` one.
fn repeated(usual: usize) -> usize {
    let times = std::env::var(REPEAT).ok().and_then(|times| times.parse::<usize>().ok());
    usual * times.unwrap_or(1).max(1)
}
