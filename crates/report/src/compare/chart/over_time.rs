//! Memory over time.

use super::super::Experiment;
use super::{LEFT, RIGHT, WIDTH, class, median, ticks_of};
use crate::chart::scale::Unit;
use crate::drawing::{Drawing, LETTER, Scale, Tick, axes, range, width_of};
use maud::Markup;
use std::collections::BTreeMap;
use unbloat_lab::metric::Metric;
use unbloat_lab::trace::Trace;

const HEIGHT: f64 = 340.0;
/// Space above the curves: the names of the marks.
const TOP: f64 = 28.0;
const BOTTOM: f64 = HEIGHT - 30.0;

/// Draws PSS over time: the median of each variant's runs, and the band between minimum and maximum. `None`
/// without samples.
pub(in crate::compare) fn over_time(experiment: &Experiment, traces: &[Trace]) -> Option<Markup> {
    let times = range(traces.iter().flat_map(|t| t.points.iter().map(|p| p.0)));
    let highest = traces.iter().flat_map(|t| t.points.iter().map(|p| p.1)).fold(0.0, f64::max);
    if highest == 0.0 {
        return None;
    }
    let x = Scale { from: times, to: (LEFT - 60.0, WIDTH - RIGHT) };
    let y = Scale { from: (0.0, highest * 1.03), to: (BOTTOM, TOP) };
    let mut drawing = Drawing::new(WIDTH, HEIGHT, "memory of the server's processes over time, by variant");
    axes(&mut drawing, (x, &x.ticks(Unit::Seconds, 8)), (y, &ticks_of(y, Metric::PssEnd, 5)));
    marks(&mut drawing, x, &moments(traces));
    for index in 0..experiment.variants.len() {
        let own: Vec<&Trace> = traces.iter().filter(|t| t.slot.variant == index).collect();
        curve(&mut drawing, &own, x, y, index);
    }
    Some(drawing.figure())
}

/// Draws the median of some runs, and the band that contains them all.
fn curve(drawing: &mut Drawing, runs: &[&Trace], x: Scale, y: Scale, variant: usize) {
    const POINTS: usize = 160;
    let (mut upper, mut lower, mut middle) = (vec![], vec![], vec![]);
    for i in 0..POINTS {
        let time = x.from.0 + (x.from.1 - x.from.0) * i as f64 / (POINTS - 1) as f64;
        let values: Vec<f64> = runs.iter().filter_map(|t| last_before(&t.points, time)).collect();
        let Some(center) = median(values.iter().copied()) else { continue };
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        upper.push((x.at(time), y.at(high)));
        lower.push((x.at(time), y.at(low)));
        middle.push((x.at(time), y.at(center)));
    }
    drawing.area(&upper, &lower, &class("band", variant));
    drawing.path(&middle, &class("line", variant));
}

/// Returns events in chronological order, with medians over the runs: the load, or its steps by their number
/// of clients, and the idle tail.
fn moments(traces: &[Trace]) -> Vec<Tick> {
    let mut starts: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (start, clients) in traces.iter().flat_map(|trace| &trace.steps) {
        starts.entry(*clients as u64).or_default().push(*start);
    }
    let steps = starts
        .into_iter()
        .filter_map(|(clients, starts)| Some((median(starts.into_iter())?, clients.to_string())));
    let mut moments: Vec<Tick> = steps.collect();
    if moments.is_empty() {
        moments.push((0.0, "load".to_owned()));
    }
    let idle = median(traces.iter().filter_map(|t| t.idle_at));
    moments.extend(idle.map(|at| (at, "idle".to_owned())));
    moments
}

/// Draws a line at each moment, and its name if there is room.
fn marks(drawing: &mut Drawing, x: Scale, moments: &[Tick]) {
    let mut free_from = f64::NEG_INFINITY;
    for (time, name) in moments {
        let at = x.at(*time);
        drawing.line((at, TOP - 16.0), (at, BOTTOM), "mark");
        if at >= free_from {
            drawing.text((at + 4.0, TOP - 8.0), "tick", name);
            free_from = at + LETTER + width_of(name);
        }
    }
}

/// Returns the last value before a time; `None` before the first and long after the last.
fn last_before(points: &[(f64, f64)], time: f64) -> Option<f64> {
    let after = points.partition_point(|p| p.0 <= time);
    let inside = points.last().is_some_and(|last| time <= last.0 + 1.0);
    inside.then(|| points.get(after.checked_sub(1)?).map(|p| p.1)).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::Owned;
    use super::*;

    #[test]
    fn steps_are_marked_where_they_begin_by_their_clients() {
        let names = |traces: &[Trace]| {
            moments(traces).into_iter().map(|(at, name)| format!("{at} {name}")).collect::<Vec<_>>()
        };
        let mut traces = Owned::new(6).about().traces;
        assert_eq!(names(&traces), ["0 100", "10 200", "20 idle"]);
        traces.iter_mut().for_each(|trace| trace.steps.clear());
        assert_eq!(names(&traces), ["0 load", "20 idle"]);
    }

    #[test]
    fn a_name_without_room_is_left_out_and_its_line_is_not() {
        let x = Scale { from: (0.0, 100.0), to: (0.0, 100.0) };
        let mut drawing = Drawing::new(100.0, HEIGHT, "");
        marks(&mut drawing, x, &[(0.0, "1000".into()), (10.0, "2000".into()), (50.0, "idle".into())]);
        let out = drawing.figure().into_string();
        assert_eq!(out.matches("class=\"mark\"").count(), 3);
        assert!(out.contains(">1000<") && !out.contains(">2000<") && out.contains(">idle<"), "{out}");
    }

    #[test]
    fn a_series_has_no_value_before_it_begins_and_long_after_it_ends() {
        let points = [(1.0, 10.0), (2.0, 20.0)];
        assert_eq!(last_before(&points, 0.5), None);
        assert_eq!(last_before(&points, 1.5), Some(10.0));
        assert_eq!(last_before(&points, 9.0), None);
    }
}
