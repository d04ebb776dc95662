//! Memory against what it costs.

use super::super::Experiment;
use super::super::sentence::value;
use super::{LEFT, Scale, WIDTH, dot, line, median, mib, open, path, range, text};
use unbloat_lab::metric::Unit;
use unbloat_lab::result::RunResult;

/// One variant's index, name and runs, as points of memory and cost.
type Cloud<'a> = (usize, &'a str, Vec<(f64, f64)>);

/// Memory against what it costs: each run a dot, each variant's medians a ring, the frontier a line.
pub(in crate::compare) fn trade_off(experiment: &Experiment) -> Option<String> {
    const HEIGHT: f64 = 360.0;
    let rule = &experiment.plan.rule;
    let cost = rule.not_worse.iter().copied().find(|m| m.unit() == Unit::Seconds)?;
    // Runs that have both: one without latency would shift the others' pairs.
    let pairs = |variant: usize| -> Vec<(f64, f64)> {
        let counting =
            experiment.results.iter().filter(|r| r.slot.variant == variant && r.excluded.is_none());
        let pair = |r: &RunResult| Some((*r.metrics.get(&rule.minimize)?, *r.metrics.get(&cost)?));
        counting.filter_map(pair).collect()
    };
    let all: Vec<Cloud> =
        experiment.variants.iter().enumerate().map(|(i, v)| (i, v.name.as_str(), pairs(i))).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nothing_beats_is_on_the_frontier() {
        let centers =
            [(0, "a", (3.0, 1.0)), (1, "b", (1.0, 3.0)), (2, "c", (2.0, 4.0)), (3, "d", (2.0, 2.0))];
        assert_eq!(frontier(&centers), [(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]);
    }
}
