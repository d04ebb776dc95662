//! The page's charts, as SVG that needs no script. Colors come from the page's style sheet by class: `v0` is the
//! control, `v1` and on are the other variants.

mod clients;
mod over_time;
mod ratios;
mod trade_off;

pub(super) use clients::by_clients;
pub(super) use over_time::over_time;
pub(super) use ratios::ratios;
pub(super) use trade_off::trade_off;

use crate::chart::scale::Unit;
use crate::markup::escape;
use std::fmt::Write as _;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 30.0;

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

    /// As [`Scale::ticks`] for bytes: round numbers of MiB.
    fn byte_ticks(self, count: usize) -> Vec<f64> {
        const MIB: f64 = 1_048_576.0;
        let mib = Scale { from: (self.from.0 / MIB, self.from.1 / MIB), ..self };
        mib.ticks(count).into_iter().map(|tick| tick * MIB).collect()
    }

    /// Round numbers across the scale, about `count` of them.
    fn ticks(self, count: usize) -> Vec<f64> {
        Unit::Number.ticks(self.from.0, self.from.1, count)
    }
}

fn mib(bytes: f64) -> String {
    format!("{:.0} MiB", bytes / 1_048_576.0)
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

    #[test]
    fn ticks_are_round_and_inside() {
        let scale = Scale { from: (0.43, 1.27), to: (0.0, 1.0) };
        let ticks: Vec<String> = scale.ticks(8).iter().map(|t| format!("{t:.1}")).collect();
        assert_eq!(ticks, ["0.6", "0.8", "1.0", "1.2"]);
    }
}
