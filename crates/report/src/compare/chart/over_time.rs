//! Memory over time.

use super::super::Experiment;
use super::{LEFT, RIGHT, Scale, WIDTH, line, median, mib, open, path, range, text};
use unbloat_lab::trace::Trace;

/// PSS over time: the median of each variant's runs, and the band between the smallest and the largest.
pub(in crate::compare) fn over_time(experiment: &Experiment, traces: &[Trace]) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_has_no_value_before_it_begins_and_long_after_it_ends() {
        let points = [(1.0, 10.0), (2.0, 20.0)];
        assert_eq!(last_before(&points, 0.5), None);
        assert_eq!(last_before(&points, 1.5), Some(10.0));
        assert_eq!(last_before(&points, 9.0), None);
    }
}
