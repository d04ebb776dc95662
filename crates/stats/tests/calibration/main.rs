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

/// The environment variable that says how many times as many experiments to simulate as usual.
const REPEAT: &str = "UNBLOAT_CALIBRATION";

/// How many experiments to simulate instead of the `usual` number.
fn repeated(usual: usize) -> usize {
    let times = std::env::var(REPEAT).ok().and_then(|times| times.parse::<usize>().ok());
    usual * times.unwrap_or(1).max(1)
}
