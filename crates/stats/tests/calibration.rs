//! Thousands of simulated experiments with known effects: the claims of the comparison must hold on average.
#![allow(clippy::unwrap_used)]

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use unbloat_stats::contrast::{Block, Contrast, contrast};
use unbloat_stats::holm;
use unbloat_stats::power::{ALPHA, Design, POWER};

const NOISE: f64 = 0.05;

fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let (u, v): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// One experiment: what each block has in common varies far more than the runs within it.
fn experiment(design: Design, effects: &[f64], random: &mut Xoshiro256PlusPlus) -> Vec<Contrast> {
    let mut blocks = vec![Vec::new(); effects.len()];
    for _ in 0..design.blocks {
        let common = 200.0 * (0.3 * normal(random)).exp();
        let mut run = |effect: f64| common * effect * (NOISE * normal(random)).exp();
        let controls = vec![run(1.0), run(1.0)];
        for (variant, &effect) in effects.iter().enumerate() {
            blocks[variant].push(Block { controls: controls.clone(), variant: run(effect) });
        }
    }
    blocks.iter().map(|blocks| contrast(blocks, design.alpha, random.random()).unwrap()).collect()
}

/// The decision that `unbloat compare` takes: which variants are called different.
fn called_different(contrasts: &[Contrast]) -> Vec<bool> {
    let p: Vec<f64> = contrasts.iter().map(|contrast| contrast.p).collect();
    holm::adjust(&p).iter().map(|&p| p <= ALPHA).collect()
}

#[test]
fn without_any_effect_intervals_cover_one_and_at_most_one_plan_in_twenty_calls_something_different() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let design = Design { blocks: 6, variants: 5, alpha: ALPHA };
    let (mut covered, mut false_plans) = (0, 0);
    const PLANS: usize = 4_000;
    for _ in 0..PLANS {
        let contrasts = experiment(design, &[1.0; 5], &mut random);
        covered += contrasts
            .iter()
            .filter(|c| c.interval.is_some_and(|(low, high)| low <= 1.0 && 1.0 <= high))
            .count();
        false_plans += usize::from(called_different(&contrasts).contains(&true));
    }
    let coverage = covered as f64 / (PLANS * 5) as f64;
    assert!((0.94..=0.96).contains(&coverage), "coverage {coverage}");
    let false_positives = false_plans as f64 / PLANS as f64;
    assert!(false_positives <= ALPHA, "false positives in {false_positives} of the plans");
}

#[test]
fn with_known_effects_intervals_cover_them() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    for blocks in [5, 7, 10] {
        let effects = [0.35, 0.97, 1.2];
        let covers = |contrast: &Contrast, effect: f64| {
            contrast.interval.is_some_and(|(low, high)| low <= effect && effect <= high)
        };
        const PLANS: usize = 1_500;
        let covered: usize = (0..PLANS)
            .map(|_| {
                let contrasts =
                    experiment(Design { blocks, variants: 3, alpha: ALPHA }, &effects, &mut random);
                contrasts.iter().zip(effects).filter(|(c, effect)| covers(c, *effect)).count()
            })
            .sum();
        let coverage = covered as f64 / (PLANS * effects.len()) as f64;
        assert!((0.94..=0.96).contains(&coverage), "{blocks} blocks: coverage {coverage}");
    }
}

#[test]
fn the_minimum_detectable_effect_is_detected_as_often_as_stated() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    for (blocks, variants) in [(5, 3), (6, 5), (8, 2)] {
        let design = Design { blocks, variants, alpha: ALPHA };
        let ratio = design.minimum_detectable_ratio(NOISE * 2f64.sqrt()).unwrap();
        let mut effects = vec![1.0; variants];
        effects[0] = ratio;
        const PLANS: usize = 600;
        let found =
            (0..PLANS).filter(|_| called_different(&experiment(design, &effects, &mut random))[0]).count();
        let power = found as f64 / PLANS as f64;
        assert!(power >= POWER, "{blocks} blocks, {variants} variants: {ratio} found in {power}");
    }
}
