//! Series from real Ruby programs, as recorded by `bench/growth`: bytes by census, in seconds since the
//! start.
#![allow(clippy::unwrap_used)]

use unbloat_stats::growth::{Shape, judge};

fn shape(text: &str) -> Shape {
    let point = |line: &str| {
        let (time, bytes) = line.split_once(',')?;
        Some((time.parse().ok()?, bytes.trim().parse().ok()?))
    };
    let points: Vec<(f64, f64)> = text.lines().map(|line| point(line).unwrap()).collect();
    judge(&points).shape
}

#[test]
fn a_leak_is_linear() {
    let live = shape(include_str!("growth/leak-live.csv"));
    assert!(matches!(live, Shape::Linear { rate } if rate.low > 0.0), "{live:?}");
}

#[test]
fn fragmentation_saturates() {
    let bloat = shape(include_str!("growth/fragment-bloat.csv"));
    assert!(matches!(bloat, Shape::Saturating { limit, .. } if limit.low > 15e6), "{bloat:?}");
}

#[test]
fn a_plateau_is_flat() {
    for text in [include_str!("growth/plateau-live.csv"), include_str!("growth/plateau-bloat.csv")] {
        let shape = shape(text);
        assert!(matches!(shape, Shape::None { .. }), "{shape:?}");
    }
}
