//! Latency against the number of clients.

use super::super::Experiment;
use super::{BELOW, LEFT, RIGHT, WIDTH, class, median, ticks_of};
use crate::chart::scale::Unit;
use crate::compare::figures::value;
use crate::drawing::{Drawing, Scale, axes, axis_name, range};
use maud::Markup;
use std::collections::BTreeMap;
use unbloat_lab::metric::Metric;
use unbloat_lab::result::RunResult;

/// Draws p95 against the number of clients: each run's steps as dots, each variant's medians as a line.
/// `None` for a load without steps.
pub(in crate::compare) fn by_clients(experiment: &Experiment) -> Option<Markup> {
    const HEIGHT: f64 = 310.0;
    let runs = |index: usize| experiment.results.iter().filter(move |run| run.counts_for(index));
    let steps = || (0..experiment.variants.len()).flat_map(runs).flat_map(|run| run.steps.iter().copied());
    let (fewest, most) = steps()
        .map(|step| step.0)
        .fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), clients| (l.min(clients), h.max(clients)));
    if fewest >= most {
        return None;
    }
    let x = Scale { from: range([fewest, most].into_iter()), to: (LEFT - 60.0, WIDTH - RIGHT) };
    let y = Scale { from: range(steps().map(|p| p.1).chain([0.0])), to: (HEIGHT - BELOW, 10.0) };
    let mut drawing = Drawing::new(WIDTH, HEIGHT, "p95 latency against the number of clients, by variant");
    axes(&mut drawing, (x, &x.ticks(Unit::Number, 8)), (y, &ticks_of(y, Metric::P95, 5)));
    axis_name(&mut drawing, x, y, "clients");
    for (index, variant) in experiment.variants.iter().enumerate() {
        for &(clients, p95) in runs(index).flat_map(|run| &run.steps) {
            let title = format!("{}: {clients:.0} clients, {}", variant.name, value(Metric::P95, p95));
            drawing.dot((x.at(clients), y.at(p95)), 2.6, &class("run", index), &title);
        }
        let medians = medians(runs(index));
        let drawn: Vec<_> = medians.into_iter().map(|(clients, p95)| (x.at(clients), y.at(p95))).collect();
        drawing.path(&drawn, &class("line", index));
    }
    Some(drawing.figure())
}

/// Returns the median over runs at each number of clients.
fn medians<'a>(runs: impl Iterator<Item = &'a RunResult>) -> Vec<(f64, f64)> {
    let mut by_step: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (clients, p95) in runs.flat_map(|run| &run.steps) {
        by_step.entry(*clients as u64).or_default().push(*p95);
    }
    let medians = by_step.into_iter();
    medians.filter_map(|(clients, p95)| Some((clients as f64, median(p95.into_iter())?))).collect()
}
