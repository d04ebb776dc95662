//! The page's charts, as SVG that needs no script. Colors come from the page's style sheet by class: `v0` is the
//! control, `v1` and on are the other variants.

use super::Experiment;
use super::sentence::value;
use crate::markup::escape;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use unbloat_lab::analysis::{Comparison, VariantAnalysis};
use unbloat_lab::metric::{Metric, Unit};
use unbloat_lab::trace::Trace;

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
        let rough = (self.from.1 - self.from.0) / count as f64;
        let magnitude = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * magnitude).find(|s| *s >= rough).unwrap_or(rough);
        let first = (self.from.0 / step).ceil() as i64;
        let last = (self.from.1 / step).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
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

/// The ratios of one variant's runs to the control of their block.
fn block_ratios(control: &Comparison, other: &Comparison) -> Vec<f64> {
    let of_block = |block: usize| {
        let logs: Vec<f64> = control.values.iter().filter(|v| v.0 == block).map(|v| v.1.ln()).collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    };
    other.values.iter().filter_map(|&(block, value)| Some(value / of_block(block)?)).collect()
}

/// Ratios to the control: a dot a block, the estimate and its interval, the margin as a band around 1.
pub(super) fn ratios(experiment: &Experiment, metric: Metric) -> Option<String> {
    struct Row {
        index: usize,
        name: String,
        dots: Vec<f64>,
        ratio: f64,
        interval: Option<(f64, f64)>,
    }
    let variants = &experiment.analysis.variants;
    let control = variants.first()?.metrics.get(&metric)?;
    let row = |(index, variant): (usize, &VariantAnalysis)| {
        let comparison = variant.metrics.get(&metric)?;
        let contrast = comparison.contrast?;
        let dots = block_ratios(control, comparison);
        Some(Row {
            index,
            name: variant.name.clone(),
            dots,
            ratio: contrast.ratio,
            interval: contrast.interval,
        })
    };
    let mut rows: Vec<Row> = variants.iter().enumerate().skip(1).filter_map(row).collect();
    if rows.is_empty() {
        return None;
    }
    if let Some(aa) = experiment.analysis.aa.get(&metric) {
        let name = "control to itself".to_owned();
        rows.push(Row {
            index: 0,
            name,
            dots: vec![],
            ratio: aa.contrast.ratio,
            interval: aa.contrast.interval,
        });
    }
    let margin = 1.0 + experiment.plan.rule.margin;
    let shown = rows.iter().flat_map(|row| {
        let ends = row.interval.map_or(vec![], |(low, high)| vec![low, high]);
        // An interval may be far wider than what was measured; the dots decide the scale, up to a factor.
        let widest = row.dots.iter().copied().fold(1.0, f64::max) * 1.5;
        row.dots.iter().copied().chain(ends.into_iter().map(move |e| e.clamp(0.2, widest))).chain([row.ratio])
    });
    let x = Scale { from: range(shown.chain([1.0 / margin, margin])), to: (LEFT, WIDTH - RIGHT) };
    let height = 34.0 + 30.0 * rows.len() as f64;
    let bottom = height - 24.0;
    let mut out = String::new();
    open(&mut out, height, &format!("{} of each variant as a ratio to the control", metric.name()));
    let _ = write!(
        out,
        "<rect x=\"{:.1}\" y=\"4\" width=\"{:.1}\" height=\"{:.1}\" class=\"margin\"/>",
        x.at(1.0 / margin),
        x.at(margin) - x.at(1.0 / margin),
        bottom - 4.0
    );
    for tick in x.ticks(8) {
        line(
            &mut out,
            (x.at(tick), 4.0),
            (x.at(tick), bottom),
            if (tick - 1.0).abs() < 1e-9 { "one" } else { "grid" },
        );
        text(&mut out, x.at(tick), bottom + 16.0, "tick middle", &format!("{tick:.2}×"));
    }
    for (i, row) in rows.iter().enumerate() {
        let y = 20.0 + 30.0 * i as f64;
        let class = format!("v{}", row.index % 10);
        text(&mut out, LEFT - 12.0, y + 4.0, "end", &row.name);
        for ratio in &row.dots {
            dot(
                &mut out,
                (x.at(*ratio), y + 7.0),
                2.6,
                &format!("run {class}"),
                &format!("{}: {ratio:.3}×", row.name),
            );
        }
        if let Some((low, high)) = row.interval {
            let (low, high) = (x.at(low).max(LEFT), x.at(high).min(WIDTH - RIGHT));
            line(&mut out, (low, y), (high, y), &format!("interval {class}"));
        }
        let interval = row.interval.map_or(String::new(), |(low, high)| format!(", {low:.3}–{high:.3}"));
        dot(
            &mut out,
            (x.at(row.ratio), y),
            4.5,
            &class,
            &format!("{}: {:.3}×{interval}", row.name, row.ratio),
        );
    }
    out.push_str("</svg></div>");
    Some(out)
}

/// PSS over time: the median of each variant's runs, and the band between the smallest and the largest.
pub(super) fn over_time(experiment: &Experiment, traces: &[Trace]) -> Option<String> {
    const POINTS: usize = 160;
    const HEIGHT: f64 = 330.0;
    let times = range(traces.iter().flat_map(|t| t.points.iter().map(|p| p.0)));
    let highest = traces.iter().flat_map(|t| t.points.iter().map(|p| p.1)).fold(0.0, f64::max);
    if highest == 0.0 {
        return None;
    }
    let x = Scale { from: times, to: (LEFT - 60.0, WIDTH - RIGHT) };
    let y = Scale { from: (0.0, highest * 1.05), to: (HEIGHT - 34.0, 10.0) };
    let mut out = String::new();
    open(&mut out, HEIGHT, "memory of the server's processes over time, by variant");
    for tick in y.byte_ticks(5) {
        line(&mut out, (x.to.0, y.at(tick)), (x.to.1, y.at(tick)), "grid");
        text(&mut out, x.to.0 - 8.0, y.at(tick) + 4.0, "tick end", &mib(tick));
    }
    for tick in x.ticks(8) {
        text(&mut out, x.at(tick), HEIGHT - 16.0, "tick middle", &format!("{tick:.0} s"));
    }
    phase(&mut out, x, 0.0, "load", HEIGHT);
    if let Some(idle) = median(traces.iter().filter_map(|t| t.idle_at)) {
        phase(&mut out, x, idle, "idle", HEIGHT);
    }
    for index in 0..experiment.variants.len() {
        let own: Vec<&Trace> =
            traces.iter().filter(|t| t.slot.variant == index && !t.points.is_empty()).collect();
        let (mut upper, mut lower, mut middle) = (vec![], vec![], vec![]);
        for i in 0..POINTS {
            let time = times.0 + (times.1 - times.0) * i as f64 / (POINTS - 1) as f64;
            let values: Vec<f64> = own.iter().filter_map(|t| last_before(&t.points, time)).collect();
            let Some(center) = median(values.iter().copied()) else { continue };
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(0.0, f64::max);
            upper.push((x.at(time), y.at(high)));
            lower.push((x.at(time), y.at(low)));
            middle.push((x.at(time), y.at(center)));
        }
        let band: Vec<_> = upper.into_iter().chain(lower.into_iter().rev()).collect();
        path(&mut out, &band, &format!("band v{}", index % 10));
        path(&mut out, &middle, &format!("median v{}", index % 10));
    }
    out.push_str("</svg></div>");
    Some(out)
}

fn phase(out: &mut String, x: Scale, time: f64, name: &str, height: f64) {
    line(out, (x.at(time), 10.0), (x.at(time), height - 34.0), "phase");
    text(out, x.at(time) + 4.0, 20.0, "tick", name);
}

/// The value at a time: the last one before it; none before the first and long after the last.
fn last_before(points: &[(f64, f64)], time: f64) -> Option<f64> {
    let after = points.partition_point(|p| p.0 <= time);
    let inside = points.last().is_some_and(|last| time <= last.0 + 1.0);
    inside.then(|| points.get(after.checked_sub(1)?).map(|p| p.1)).flatten()
}

/// One variant's index, name and runs, as points of memory and cost.
type Cloud<'a> = (usize, &'a str, Vec<(f64, f64)>);

/// Memory against what it costs: each run a dot, each variant's medians a ring, the frontier a line.
pub(super) fn trade_off(experiment: &Experiment) -> Option<String> {
    const HEIGHT: f64 = 360.0;
    let rule = &experiment.plan.rule;
    let cost = rule.not_worse.iter().copied().find(|m| m.unit() == Unit::Seconds)?;
    let pairs = |variant: &VariantAnalysis| -> Option<Vec<(f64, f64)>> {
        let (memory, cost) = (variant.metrics.get(&rule.minimize)?, variant.metrics.get(&cost)?);
        Some(memory.values.iter().zip(&cost.values).map(|(m, c)| (m.1, c.1)).collect())
    };
    let all: Vec<Cloud> = experiment
        .analysis
        .variants
        .iter()
        .enumerate()
        .filter_map(|(i, v)| Some((i, v.name.as_str(), pairs(v)?)))
        .collect();
    let points = || all.iter().flat_map(|(_, _, points)| points.iter().copied());
    points().next()?;
    let x = Scale { from: range(points().map(|p| p.0)), to: (LEFT - 60.0, WIDTH - 120.0) };
    let y = Scale { from: range(points().map(|p| p.1).chain([0.0])), to: (HEIGHT - 40.0, 12.0) };
    let mut out = String::new();
    open(&mut out, HEIGHT, "memory against latency, each run a dot");
    for tick in y.ticks(5).into_iter().filter(|tick| *tick >= 0.0) {
        line(&mut out, (x.to.0, y.at(tick)), (x.to.1, y.at(tick)), "grid");
        text(&mut out, x.to.0 - 8.0, y.at(tick) + 4.0, "tick end", &value(cost, tick));
    }
    for tick in x.byte_ticks(6) {
        text(&mut out, x.at(tick), HEIGHT - 22.0, "tick middle", &mib(tick));
    }
    let centers: Vec<(usize, &str, (f64, f64))> = all
        .iter()
        .filter_map(|(i, name, points)| {
            let center = (median(points.iter().map(|p| p.0))?, median(points.iter().map(|p| p.1))?);
            Some((*i, *name, center))
        })
        .collect();
    path(
        &mut out,
        &frontier(&centers).iter().map(|&(m, c)| (x.at(m), y.at(c))).collect::<Vec<_>>(),
        "frontier",
    );
    for (index, name, points) in &all {
        for &(m, c) in points {
            let title = format!("{name}: {}, {}", value(rule.minimize, m), value(cost, c));
            dot(&mut out, (x.at(m), y.at(c)), 2.6, &format!("run v{}", index % 10), &title);
        }
    }
    for (index, name, (m, c)) in &centers {
        dot(&mut out, (x.at(*m), y.at(*c)), 6.0, &format!("v{}", index % 10), name);
        text(&mut out, x.at(*m) + 10.0, y.at(*c) + 4.0, "name", name);
    }
    text(&mut out, WIDTH - 120.0, HEIGHT - 4.0, "tick end", "less memory to the left, less latency below");
    out.push_str("</svg></div>");
    Some(out)
}

/// The medians that no other beats in both memory and cost, from the least memory on.
fn frontier(centers: &[(usize, &str, (f64, f64))]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = centers.iter().map(|c| c.2).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut best = f64::INFINITY;
    points.retain(|point| {
        let better = point.1 < best;
        best = best.min(point.1);
        better
    });
    points
}

/// p95 against the number of clients: the median over each variant's runs.
pub(super) fn by_clients(experiment: &Experiment) -> Option<String> {
    const HEIGHT: f64 = 300.0;
    let counting = || experiment.results.iter().filter(|r| r.excluded.is_none());
    let steps = || counting().flat_map(|r| r.steps.iter().copied());
    let several =
        steps().map(|s| s.0).fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), c| (l.min(c), h.max(c)));
    if several.0 >= several.1 {
        return None;
    }
    let lines: Vec<Vec<(f64, f64)>> = (0..experiment.variants.len())
        .map(|index| {
            let mut by_step: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for (clients, p95) in counting().filter(|r| r.slot.variant == index).flat_map(|r| &r.steps) {
                by_step.entry(*clients as u64).or_default().push(*p95);
            }
            let medians = by_step.into_iter();
            medians.filter_map(|(clients, p95)| Some((clients as f64, median(p95.into_iter())?))).collect()
        })
        .collect();
    let points = || lines.iter().flatten().copied();
    let x = Scale { from: range(points().map(|p| p.0)), to: (LEFT - 60.0, WIDTH - RIGHT) };
    let y = Scale { from: range(points().map(|p| p.1).chain([0.0])), to: (HEIGHT - 34.0, 10.0) };
    let mut out = String::new();
    open(&mut out, HEIGHT, "p95 latency against the number of clients, by variant");
    for tick in y.ticks(5).into_iter().filter(|tick| *tick >= 0.0) {
        line(&mut out, (x.to.0, y.at(tick)), (x.to.1, y.at(tick)), "grid");
        text(&mut out, x.to.0 - 8.0, y.at(tick) + 4.0, "tick end", &value(Metric::P95, tick));
    }
    for tick in x.ticks(8) {
        text(&mut out, x.at(tick), HEIGHT - 16.0, "tick middle", &format!("{tick:.0}"));
    }
    for (index, medians) in lines.iter().enumerate() {
        let drawn: Vec<_> = medians.iter().map(|&(clients, p95)| (x.at(clients), y.at(p95))).collect();
        path(&mut out, &drawn, &format!("median v{}", index % 10));
    }
    out.push_str("</svg></div>");
    Some(out)
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

    #[test]
    fn only_what_nothing_beats_is_on_the_frontier() {
        let centers =
            [(0, "a", (3.0, 1.0)), (1, "b", (1.0, 3.0)), (2, "c", (2.0, 4.0)), (3, "d", (2.0, 2.0))];
        assert_eq!(frontier(&centers), [(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]);
    }

    #[test]
    fn a_series_has_no_value_before_it_begins_and_long_after_it_ends() {
        let points = [(1.0, 10.0), (2.0, 20.0)];
        assert_eq!(last_before(&points, 0.5), None);
        assert_eq!(last_before(&points, 1.5), Some(10.0));
        assert_eq!(last_before(&points, 9.0), None);
    }
}
