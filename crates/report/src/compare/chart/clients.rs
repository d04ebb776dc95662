//! Latency against the number of clients.

use super::super::Experiment;
use super::super::sentence::value;
use super::{LEFT, RIGHT, Scale, WIDTH, line, median, open, path, range, text};
use std::collections::BTreeMap;
use unbloat_lab::metric::Metric;

/// p95 against the number of clients: the median over each variant's runs.
pub(in crate::compare) fn by_clients(experiment: &Experiment) -> Option<String> {
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
