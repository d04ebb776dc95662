//! The charts of a comparison: drawings that need no script.

mod clients;
mod over_time;
mod ratios;
mod scatter;

pub(super) use clients::by_clients;
pub(super) use over_time::over_time;
pub(super) use ratios::{Row, drawn, ratios};
pub(super) use scatter::{by_work, latency, trade_off};

use crate::chart::scale::Unit;
use crate::drawing::{Scale, Tick};
use crate::palette::Color;
use unbloat_lab::metric::{self, Metric};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 30.0;
/// Space below a chart: its ticks, and the name of its axis.
const BELOW: f64 = 40.0;

/// Returns the class of a shape in a variant's color.
fn class(shape: &str, variant: usize) -> String {
    format!("{shape} {}", Color::variant(variant).class())
}

/// Returns ticks for values of a metric, which are never negative.
fn ticks_of(scale: Scale, metric: Metric, count: usize) -> Vec<Tick> {
    let (from, to) = scale.from;
    // Latencies are in seconds, and mostly a few thousandths of one.
    let (unit, factor) = match metric.unit() {
        metric::Unit::Bytes => (Unit::Bytes, 1.0),
        metric::Unit::Number(_) => (Unit::Number, 1.0),
        metric::Unit::Seconds if to >= 2.0 => (Unit::Seconds, 1.0),
        metric::Unit::Seconds => (Unit::Milliseconds, 1e3),
    };
    let scaled = Scale { from: (from * factor, to * factor), ..scale };
    let ticks = scaled.ticks(unit, count).into_iter().map(|(tick, words)| (tick / factor, words));
    ticks.filter(|(tick, _)| *tick >= 0.0).collect()
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    unbloat_stats::median::median(&values.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(from: f64, to: f64, metric: Metric) -> Vec<String> {
        let scale = Scale { from: (from, to), to: (0.0, 1.0) };
        ticks_of(scale, metric, 4).into_iter().map(|(_, words)| words).collect()
    }

    #[test]
    fn ticks_are_round_in_the_unit_that_is_read() {
        assert_eq!(ticks(-0.01, 0.11, Metric::P95), ["0 ms", "50 ms", "100 ms"]);
        assert_eq!(ticks(-0.2, 11.0, Metric::P95), ["0", "5 s", "10 s"]);
        assert_eq!(ticks(9e7, 4.2e8, Metric::PssEnd), ["100 MiB", "200 MiB", "300 MiB", "400 MiB"]);
        assert_eq!(ticks(430.0, 1270.0, Metric::Throughput), ["500", "1000"]);
    }
}
