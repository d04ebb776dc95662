//! Ratios with their intervals: of each variant to the control, block by block and altogether, and of two experiments.

use super::super::Experiment;
use super::{LEFT, RIGHT, WIDTH, class};
use crate::chart::scale::Unit;
use crate::drawing::{Drawing, Scale, fitting, range};
use maud::Markup;
use std::fmt::Write as _;
use unbloat_lab::analysis::{Comparison, VariantAnalysis};
use unbloat_lab::metric::Metric;
use unbloat_lab::schedule::Slot;
use unbloat_stats::contrast::Contrast;

/// One row of the chart: a variant, the control against itself, or a metric of two experiments.
pub(in crate::compare) struct Row<'a> {
    /// The variant's index, which determines its color.
    pub(in crate::compare) index: usize,
    pub(in crate::compare) name: &'a str,
    /// One per block; none where blocks are not paired.
    pub(in crate::compare) dots: Vec<f64>,
    pub(in crate::compare) ratio: f64,
    pub(in crate::compare) interval: Option<(f64, f64)>,
}

const ROW: f64 = 30.0;

/// Draws ratios to the control: one dot per block, the estimate and its interval, the margin as a band around
/// 1. The last row is the control's second run of each block against its first.
pub(in crate::compare) fn ratios(experiment: &Experiment, metric: Metric) -> Option<Markup> {
    let label = format!("{} of each variant as a ratio to the control", metric.name());
    let margin = 1.0 + experiment.plan.rule.margin(metric);
    drawn(&rows(experiment, metric), margin, &label)
}

/// Ratios one below the other, around a band from 1 ÷ `margin` to `margin`; `None` without rows.
pub(in crate::compare) fn drawn(rows: &[Row], margin: f64, label: &str) -> Option<Markup> {
    if rows.is_empty() {
        return None;
    }
    let x = Scale { from: shown(rows, margin), to: (LEFT, WIDTH - RIGHT) };
    let height = 34.0 + ROW * rows.len() as f64;
    let bottom = height - 24.0;
    let mut drawing = Drawing::new(WIDTH, height, label);
    let (low, high) = (x.at(1.0 / margin), x.at(margin));
    drawing.rectangle((low, 4.0), (high - low, bottom - 4.0), "margin");
    for (tick, words) in x.ticks(Unit::Number, 8) {
        let kind = if (tick - 1.0).abs() < 1e-9 { "one" } else { "grid" };
        drawing.line((x.at(tick), 4.0), (x.at(tick), bottom), kind);
        drawing.text((x.at(tick), bottom + 16.0), "tick middle", &format!("{words}×"));
    }
    for (i, row) in rows.iter().enumerate() {
        draw(&mut drawing, row, x, 20.0 + ROW * i as f64);
    }
    Some(drawing.figure())
}

fn rows<'a>(experiment: &Experiment<'a>, metric: Metric) -> Vec<Row<'a>> {
    let variants = &experiment.analysis.variants;
    let Some(control) = variants.first().and_then(|v| v.metrics.get(&metric)) else { return Vec::new() };
    let row = |(index, variant): (usize, &'a VariantAnalysis)| {
        let comparison = variant.metrics.get(&metric)?;
        let (name, dots) = (variant.name.as_str(), block_ratios(control, comparison));
        let Contrast { ratio, interval, .. } = comparison.contrast?;
        Some(Row { index, name, dots, ratio, interval })
    };
    let mut rows: Vec<Row> = variants.iter().enumerate().skip(1).filter_map(row).collect();
    if let Some(aa) = experiment.analysis.aa.get(&metric).filter(|_| !rows.is_empty()) {
        let (name, dots) = ("control to itself", control_ratios(experiment, metric));
        rows.push(Row { index: 0, name, dots, ratio: aa.contrast.ratio, interval: aa.contrast.interval });
    }
    rows
}

/// Returns the ratios of one variant's runs to the control in the same block.
fn block_ratios(control: &Comparison, other: &Comparison) -> Vec<f64> {
    let of_block = |block: usize| {
        let logs: Vec<f64> = control.values.iter().filter(|v| v.0 == block).map(|v| v.1.ln()).collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    };
    let ratios = other.values.iter().filter_map(|&(block, value)| Some(value / of_block(block)?));
    ratios.filter(|ratio| ratio.is_finite()).collect()
}

/// Returns the control's second run ÷ its first, for each block in which both count.
fn control_ratios(experiment: &Experiment, metric: Metric) -> Vec<f64> {
    let value = |block, replica| {
        let slot = Slot { block, variant: 0, replica };
        let run = experiment.results.iter().find(|run| run.counts_for(0) && run.slot == slot)?;
        run.metrics.get(&metric).copied()
    };
    let ratio = |block| Some(value(block, 1)? / value(block, 0)?);
    (0..experiment.analysis.blocks).filter_map(ratio).filter(|ratio| ratio.is_finite()).collect()
}

/// Returns the range of ratios to draw. An interval may be far wider than the measurements, so the dots
/// decide, up to a factor.
fn shown(rows: &[Row], margin: f64) -> (f64, f64) {
    let of_row = |row: &Row| {
        let widest = row.dots.iter().copied().fold(row.ratio.max(1.0), f64::max) * 1.5;
        let ends = row.interval.map_or(vec![], |(low, high)| vec![low, high]);
        let ends = ends.into_iter().map(move |end| end.clamp(0.2, widest));
        row.dots.iter().copied().chain(ends).chain([row.ratio]).collect::<Vec<_>>()
    };
    range(rows.iter().flat_map(of_row).chain([1.0 / margin, margin]))
}

fn draw(drawing: &mut Drawing, row: &Row, x: Scale, y: f64) {
    let (ratio, interval) = (row.ratio, row.interval);
    drawing.text((LEFT - 12.0, y + 4.0), "end", &fitting(row.name, LEFT - 12.0));
    for dot_ratio in &row.dots {
        let title = format!("{}: {dot_ratio:.3}×", row.name);
        drawing.dot((x.at(*dot_ratio), y + 7.0), 2.6, &class("run", row.index), &title);
    }
    let mut title = format!("{}: {ratio:.3}×", row.name);
    if let Some((low, high)) = interval {
        let _ = write!(title, ", {low:.3}–{high:.3}");
        let (low, high) = (x.at(low).max(LEFT), x.at(high).min(WIDTH - RIGHT));
        drawing.line((low, y), (high, y), &class("interval", row.index));
    }
    drawing.dot((x.at(ratio), y), 4.5, &class("estimate", row.index), &title);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::super::fixture::Owned;
    use super::*;
    use unbloat_lab::result::Exclusion;

    #[test]
    fn every_block_is_a_dot_and_the_control_against_itself_too() {
        let mut owned = Owned::new(6);
        let svg = ratios(&owned.experiment(), Metric::PssEnd).unwrap().into_string();
        assert_eq!(svg.matches("class=\"run s0\"").count(), 6);
        assert_eq!(svg.matches("class=\"run neutral\"").count(), 6);
        assert_eq!(svg.matches("control to itself: ").count(), 7, "its dots and its estimate");

        owned.results[0].excluded = Some(Exclusion::Dirty("3 lost".into()));
        assert_eq!(control_ratios(&owned.experiment(), Metric::PssEnd).len(), 5, "that block has no pair");
    }

    #[test]
    fn a_metric_that_no_run_has_is_not_drawn() {
        assert!(ratios(&Owned::new(6).experiment(), Metric::CpuPerUnit).is_none());
    }
}
