//! Scales and axes.

use super::Drawing;
use crate::chart::scale::Unit;

/// A value on an axis and its label.
pub(crate) type Tick = (f64, String);

/// A linear scale from data to the drawing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// The range of the data.
    pub(crate) from: (f64, f64),
    /// The positions of its ends in the drawing.
    pub(crate) to: (f64, f64),
}

impl Scale {
    /// Returns the position of a value.
    pub(crate) fn at(self, value: f64) -> f64 {
        let span = self.from.1 - self.from.0;
        let share = if span == 0.0 { 0.0 } else { (value - self.from.0) / span };
        self.to.0 + share * (self.to.1 - self.to.0)
    }

    /// Returns about `count` round values across the scale.
    pub(crate) fn ticks(self, unit: Unit, count: usize) -> Vec<Tick> {
        let (from, to) = self.from;
        let step = unit.step(to - from, count);
        unit.ticks(from, to, count).into_iter().map(|tick| (tick, unit.write(tick, step))).collect()
    }
}

/// Draws grid lines and the labels of both axes.
pub(crate) fn axes(drawing: &mut Drawing, (x, x_ticks): (Scale, &[Tick]), (y, y_ticks): (Scale, &[Tick])) {
    for (tick, words) in y_ticks {
        let height = y.at(*tick);
        drawing.line((x.to.0, height), (x.to.1, height), "grid");
        drawing.text((x.to.0 - 8.0, height + 4.0), "tick end", words);
    }
    for (tick, words) in x_ticks {
        drawing.text((x.at(*tick), y.to.0 + 18.0), "tick middle", words);
    }
}

/// Writes the name of the horizontal axis below its right end.
pub(crate) fn axis_name(drawing: &mut Drawing, x: Scale, y: Scale, name: &str) {
    drawing.text((x.to.1, y.to.0 + 35.0), "tick end", name);
}

/// Returns the range of values with some space around them; never empty.
pub(crate) fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if !low.is_finite() {
        return (0.0, 1.0);
    }
    let space = ((high - low) * 0.06).max(high.abs() * 1e-3).max(1e-9);
    (low - space, high + space)
}
