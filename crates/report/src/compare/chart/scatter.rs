//! Scatter charts of two metrics: memory against latency, and latency against throughput.

use super::super::Experiment;
use super::super::figures::value;
use super::{BELOW, LEFT, WIDTH, class, median, ticks_of};
use crate::drawing::{Drawing, Point, Scale, axes, axis_name, fitting, range};
use maud::Markup;
use unbloat_lab::metric::{Metric, Unit};
use unbloat_lab::result::RunResult;

/// Width of a variant's name to the right of its medians.
const NAMES: f64 = 120.0;
/// Height of a line of names.
const LINE: f64 = 14.0;
/// Width of a letter, estimated generously.
const LETTER: f64 = 7.5;

/// One variant.
struct Cloud<'a> {
    index: usize,
    name: &'a str,
    /// Its runs.
    points: Vec<Point>,
    /// Their medians.
    center: Point,
}

/// Draws memory against latency, with the frontier of variants not beaten in both. `None` if no run has both.
pub(in crate::compare) fn trade_off(experiment: &Experiment) -> Option<Markup> {
    let minimized = experiment.plan.rule.minimize;
    let memory = if minimized.unit() == Unit::Bytes { minimized } else { Metric::PssEnd };
    draw(experiment, memory, latency(experiment), true)
}

/// Draws latency against the work per second of each run, for loads without steps. `None` if no run has both.
pub(in crate::compare) fn by_work(experiment: &Experiment) -> Option<Markup> {
    draw(experiment, Metric::Throughput, latency(experiment), false)
}

/// Returns the latency metric of the rule.
pub(in crate::compare) fn latency(experiment: &Experiment) -> Metric {
    let is_latency = |metric: &Metric| matches!(metric, Metric::P50 | Metric::P95 | Metric::P99);
    experiment.plan.rule.not_worse.iter().copied().find(is_latency).unwrap_or(Metric::P95)
}

fn draw(experiment: &Experiment, across: Metric, up: Metric, with_frontier: bool) -> Option<Markup> {
    const HEIGHT: f64 = 366.0;
    let clouds = clouds(experiment, across, up);
    let points = || clouds.iter().flat_map(|cloud| cloud.points.iter().copied());
    points().next()?;
    let x = Scale { from: range(points().map(|p| p.0)), to: (LEFT - 60.0, WIDTH - NAMES) };
    let y = Scale { from: range(points().map(|p| p.1).chain([0.0])), to: (HEIGHT - BELOW, 12.0) };
    let at = |(across, up): Point| (x.at(across), y.at(up));
    let mut drawing =
        Drawing::new(WIDTH, HEIGHT, &format!("{} against {}, each run a dot", up.words(), across.words()));
    axes(&mut drawing, (x, &ticks_of(x, across, 6)), (y, &ticks_of(y, up, 5)));
    axis_name(&mut drawing, x, y, across.words());
    if with_frontier {
        let centers = clouds.iter().map(|cloud| cloud.center).collect();
        drawing.path(&frontier(centers).into_iter().map(at).collect::<Vec<_>>(), "frontier");
    }
    for cloud in &clouds {
        for &point in &cloud.points {
            let title = format!("{}: {}, {}", cloud.name, value(across, point.0), value(up, point.1));
            drawing.dot(at(point), 2.6, &class("run", cloud.index), &title);
        }
    }
    for cloud in &clouds {
        drawing.dot(at(cloud.center), 6.0, &class("estimate", cloud.index), cloud.name);
    }
    for ((x, y), cloud) in apart(clouds.iter().map(|cloud| (at(cloud.center), cloud)).collect()) {
        drawing.text(
            (x + 10.0, y + 4.0),
            &class("name", cloud.index),
            &fitting(cloud.name, WIDTH - x - 10.0),
        );
    }
    Some(drawing.figure())
}

/// Returns the variants that have a run with both metrics. A run with only one of them would shift the
/// others' pairs.
fn clouds<'a>(experiment: &Experiment<'a>, across: Metric, up: Metric) -> Vec<Cloud<'a>> {
    let pair = |run: &RunResult| Some((*run.metrics.get(&across)?, *run.metrics.get(&up)?));
    let cloud = |(index, name): (usize, &'a str)| {
        let counting = experiment.results.iter().filter(|run| run.counts_for(index));
        let points: Vec<Point> = counting.filter_map(pair).collect();
        let center = (median(points.iter().map(|p| p.0))?, median(points.iter().map(|p| p.1))?);
        Some(Cloud { index, name, points, center })
    };
    experiment.variants.iter().map(|variant| variant.name.as_str()).enumerate().filter_map(cloud).collect()
}

/// Returns clouds with the places of their names, moved down to avoid overlaps.
fn apart<'a>(mut names: Vec<(Point, &'a Cloud<'a>)>) -> Vec<(Point, &'a Cloud<'a>)> {
    let by_height = |a: &(Point, &Cloud), b: &(Point, &Cloud)| a.0.1.total_cmp(&b.0.1);
    let end = |x: f64, cloud: &Cloud| x + LETTER * cloud.name.chars().count() as f64;
    names.sort_by(by_height);
    let mut placed: Vec<(Point, &Cloud)> = Vec::with_capacity(names.len());
    for ((x, mut y), cloud) in names {
        // From top to bottom: a name moved away from one above may then overlap the next.
        for ((other_x, other_y), other) in &placed {
            let beside = end(x, cloud) < *other_x || end(*other_x, other) < x;
            if !beside && (y - other_y).abs() < LINE {
                y = other_y + LINE;
            }
        }
        placed.push(((x, y), cloud));
        placed.sort_by(by_height);
    }
    placed
}

/// Returns the medians that no other beats in both metrics, from the least memory on.
fn frontier(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut best = f64::INFINITY;
    points.retain(|point| {
        let better = point.1 < best;
        best = best.min(point.1);
        better
    });
    points
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::super::fixture::Owned;
    use super::*;

    #[test]
    fn only_what_nothing_beats_is_on_the_frontier() {
        let points = vec![(3.0, 1.0), (1.0, 3.0), (2.0, 4.0), (2.0, 2.0)];
        assert_eq!(frontier(points), [(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]);
    }

    #[test]
    fn names_that_would_lie_on_each_other_are_moved_apart() {
        let clouds = ["lean", "jemalloc", "glibc"].map(|name| Cloud {
            index: 0,
            name,
            points: vec![],
            center: (0.0, 0.0),
        });
        let placed = apart([(0.0, 10.0), (5.0, 12.0), (200.0, 11.0)].into_iter().zip(&clouds).collect());
        let placed: Vec<_> = placed.into_iter().map(|(place, cloud)| (cloud.name, place)).collect();
        assert_eq!(placed, [("lean", (0.0, 10.0)), ("glibc", (200.0, 11.0)), ("jemalloc", (5.0, 24.0))]);
    }

    #[test]
    fn every_run_is_a_dot() {
        let owned = Owned::new(6);
        let svg = trade_off(&owned.experiment()).unwrap().into_string();
        assert_eq!(svg.matches("class=\"run ").count(), owned.results.len());
        assert!(svg.contains("class=\"frontier\""));
        let svg = by_work(&owned.experiment()).unwrap().into_string();
        assert_eq!(svg.matches("class=\"run ").count(), owned.results.len());
        assert!(!svg.contains("class=\"frontier\""), "more work a second is no cost");
    }
}
