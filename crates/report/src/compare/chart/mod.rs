//! The page's charts, as SVG that needs no script. Colors come from the page's style sheet by class: `v0` is the
//! control, `v1` and on are the other variants.

mod clients;
mod over_time;
mod ratios;
mod scatter;

pub(super) use clients::by_clients;
pub(super) use over_time::over_time;
pub(super) use ratios::ratios;
pub(super) use scatter::{by_work, latency, trade_off};

use crate::chart::scale::Unit;
use crate::markup::escape;
use std::fmt::Write as _;
use unbloat_lab::metric::{self, Metric};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 30.0;
/// Below a chart: its ticks, and the name of its axis.
const BELOW: f64 = 40.0;

/// A value on an axis, and what is written there.
type Tick = (f64, String);

/// A linear scale from data to the drawing.
#[derive(Clone, Copy)]
struct Scale {
    from: (f64, f64),
    to: (f64, f64),
}

impl Scale {
    fn at(self, value: f64) -> f64 {
        let share = (value - self.from.0) / (self.from.1 - self.from.0);
        self.to.0 + share * (self.to.1 - self.to.0)
    }

    /// Round values across the scale, about `count` of them.
    fn ticks(self, unit: Unit, count: usize) -> Vec<Tick> {
        let (from, to) = self.from;
        let step = unit.step(to - from, count);
        unit.ticks(from, to, count).into_iter().map(|tick| (tick, unit.write(tick, step))).collect()
    }

    /// As [`Scale::ticks`], for values of a metric: none of them is below 0.
    fn ticks_of(self, metric: Metric, count: usize) -> Vec<Tick> {
        // Latencies are in seconds, and mostly a few thousandths of them.
        let (unit, factor) = match metric.unit() {
            metric::Unit::Bytes => (Unit::Bytes, 1.0),
            metric::Unit::PerSecond => (Unit::Number, 1.0),
            metric::Unit::Seconds if self.from.1 >= 2.0 => (Unit::Seconds, 1.0),
            metric::Unit::Seconds => (Unit::Milliseconds, 1e3),
        };
        let (from, to) = self.from;
        let scaled = Scale { from: (from * factor, to * factor), ..self };
        let ticks = scaled.ticks(unit, count).into_iter().map(|(tick, words)| (tick / factor, words));
        ticks.filter(|(tick, _)| *tick >= 0.0).collect()
    }
}

/// Grid lines across the drawing, and what is written along both axes.
fn axes(out: &mut String, (x, x_ticks): (Scale, &[Tick]), (y, y_ticks): (Scale, &[Tick])) {
    for (tick, words) in y_ticks {
        line(out, (x.to.0, y.at(*tick)), (x.to.1, y.at(*tick)), "grid");
        text(out, x.to.0 - 8.0, y.at(*tick) + 4.0, "tick end", words);
    }
    for (tick, words) in x_ticks {
        text(out, x.at(*tick), y.to.0 + 18.0, "tick middle", words);
    }
}

/// What the horizontal axis measures, below its right end.
fn axis_name(out: &mut String, x: Scale, y: Scale, name: &str) {
    text(out, x.to.1, y.to.0 + 35.0, "tick end", name);
}

/// The range of values with a little room; never empty.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if !low.is_finite() {
        return (0.0, 1.0);
    }
    let room = ((high - low) * 0.06).max(high.abs() * 1e-3).max(1e-9);
    (low - room, high + room)
}

fn open(out: &mut String, height: f64, label: &str) {
    let _ = write!(
        out,
        "<div class=\"chart\"><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">",
        escape(label)
    );
}

fn close(out: &mut String) {
    out.push_str("</svg></div>");
}

fn text(out: &mut String, x: f64, y: f64, class: &str, content: &str) {
    let content = escape(content);
    let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{content}</text>");
}

fn line(out: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
    let _ =
        write!(out, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>");
}

fn dot(out: &mut String, (x, y): (f64, f64), radius: f64, class: &str, title: &str) {
    let title = escape(title);
    let _ = write!(
        out,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" class=\"{class}\"><title>{title}</title></circle>"
    );
}

fn path(out: &mut String, points: &[(f64, f64)], class: &str) {
    let mut d = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(d, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
    }
    let _ = write!(out, "<path d=\"{d}\" class=\"{class}\"/>");
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    unbloat_stats::median::median(&values.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(from: f64, to: f64, metric: Metric) -> Vec<String> {
        let scale = Scale { from: (from, to), to: (0.0, 1.0) };
        scale.ticks_of(metric, 4).into_iter().map(|(_, words)| words).collect()
    }

    #[test]
    fn ticks_are_round_in_the_unit_that_is_read() {
        assert_eq!(ticks(-0.01, 0.11, Metric::P95), ["0 ms", "50 ms", "100 ms"]);
        assert_eq!(ticks(-0.2, 11.0, Metric::P95), ["0", "5 s", "10 s"]);
        assert_eq!(ticks(9e7, 4.2e8, Metric::PssEnd), ["100 MiB", "200 MiB", "300 MiB", "400 MiB"]);
        assert_eq!(ticks(430.0, 1270.0, Metric::Throughput), ["500", "1000"]);
    }
}
