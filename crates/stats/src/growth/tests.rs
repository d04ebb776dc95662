#![allow(clippy::unwrap_used)]
//! Series as produced by servers: saw-teeth from garbage collection, noise with a memory, deploys, days.

use super::*;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

const MIB: f64 = 1_048_576.0;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    None,
    Linear,
    Saturating,
}

/// Creates a synthetic series of this kind.
fn series(kind: Kind, seed: u64) -> Vec<(f64, f64)> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut uniform = |low: f64, high: f64| low + (high - low) * random.random::<f64>();
    let span = [1800.0, 7200.0, 28_800.0, 3.0 * 86_400.0][(seed % 4) as usize];
    let base = uniform(80.0, 600.0) * MIB;
    let rise = base * uniform(0.25, 1.0);
    let tau = span * uniform(0.08, 0.35);
    let tooth = (uniform(0.01, 0.06) * base, uniform(3.0, 0.02 * span));
    let noise = base * uniform(0.002, 0.012);
    let memory = uniform(0.0, 0.9);
    let day = if span > 86_400.0 { base * uniform(0.0, 0.08) } else { 0.0 };
    let phase = uniform(0.0, std::f64::consts::TAU);
    let warm = (base * uniform(0.0, 0.4), span * uniform(0.003, 0.015));
    let deploy =
        (uniform(0.25, 0.75) * span, if seed.is_multiple_of(3) { base * uniform(-0.15, 0.15) } else { 0.0 });
    let count = 1500;
    let mut wander = 0.0;
    (0..count)
        .map(|i| {
            let t = span * f64::from(i) / f64::from(count - 1);
            wander = memory * wander + noise * (1.0 - memory * memory).sqrt() * 1.73 * uniform(-1.0, 1.0);
            let trend = match kind {
                Kind::None => 0.0,
                Kind::Linear => rise * t / span,
                Kind::Saturating => rise * (1.0 - (-t / tau).exp()),
            };
            let y = base
                + trend
                + tooth.0 * (t / tooth.1).fract()
                + wander
                + day * (std::f64::consts::TAU * t / 86_400.0 + phase).sin()
                - warm.0 * (-t / warm.1).exp()
                + if t >= deploy.0 { deploy.1 } else { 0.0 };
            (t, y)
        })
        .collect()
}

fn kind(growth: &Growth) -> Option<Kind> {
    match growth.shape {
        Shape::None { .. } => Some(Kind::None),
        Shape::Linear { .. } => Some(Kind::Linear),
        Shape::Saturating { .. } => Some(Kind::Saturating),
        Shape::NotEnough { .. } => None,
    }
}

#[test]
fn ninety_nine_of_a_hundred_are_told_right() {
    for truth in [Kind::None, Kind::Linear, Kind::Saturating] {
        let wrong: Vec<_> = (0..100)
            .map(|seed| (seed, judge(&series(truth, seed))))
            .filter(|(_, growth)| kind(growth) != Some(truth))
            .collect();
        assert!(wrong.len() <= 1, "{truth:?}: {} of 100 wrong: {wrong:#?}", wrong.len());
    }
}

#[test]
fn rates_and_limits_are_within_their_intervals() {
    let (mut inside, mut all) = (0, 0);
    for seed in 0..60 {
        let points: Vec<_> = (0..1200)
            .map(f64::from)
            .scan(StdRng::seed_from_u64(seed), |random, t| {
                Some((t, 200.0 * MIB + 5_000.0 * t + MIB * random.random::<f64>()))
            })
            .collect();
        if let Shape::Linear { rate } = judge(&points).shape {
            all += 1;
            inside += usize::from(rate.low <= 5_000.0 && 5_000.0 <= rate.high);
        }
    }
    assert_eq!(all, 60);
    assert!(inside >= 52, "{inside} of 60 intervals hold the truth");

    let points: Vec<_> = (0..2000)
        .map(f64::from)
        .map(|t| (t, MIB * (100.0 + 80.0 * (1.0 - (-t / 400.0).exp()) + 0.5 * (t * 0.9).sin())))
        .collect();
    let Shape::Saturating { limit, time_constant_s, .. } = judge(&points).shape else {
        panic!("not saturating")
    };
    assert!((limit.value / MIB - 180.0).abs() < 4.0, "{limit:?}");
    assert!((time_constant_s - 400.0).abs() < 120.0, "{time_constant_s}");
}

#[test]
fn too_little_data_is_said_to_be_too_little() {
    let shape = |points: &[(f64, f64)]| judge(points).shape;
    assert_eq!(shape(&[]), Shape::NotEnough { reason: Shortfall::Points });
    assert_eq!(shape(&[(0.0, 1.0)]), Shape::NotEnough { reason: Shortfall::Points });
    let short: Vec<_> = (0..300).map(|i| (f64::from(i) * 0.1, f64::from(i))).collect();
    assert_eq!(shape(&short), Shape::NotEnough { reason: Shortfall::Time });
    let few: Vec<_> = (0..10).map(|i| (f64::from(i) * 60.0, f64::from(i))).collect();
    assert_eq!(shape(&few), Shape::NotEnough { reason: Shortfall::Points });
    let broken: Vec<_> = (0..300).map(|i| (f64::from(i), f64::NAN)).collect();
    assert_eq!(shape(&broken), Shape::NotEnough { reason: Shortfall::Points });
}

#[test]
fn a_constant_does_not_grow() {
    let flat: Vec<_> = (0..300).map(|i| (f64::from(i), 7.0)).collect();
    assert!(matches!(judge(&flat).shape, Shape::None { level, .. } if level == 7.0));
}
