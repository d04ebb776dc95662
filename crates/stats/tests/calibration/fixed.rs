//! A fixed number of blocks: false differences, coverage, and the minimum detectable effect.

use crate::noise::{Shape, normal};
use crate::{doubt, repeated};
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;
use unbloat_stats::contrast::{Block, bounds, contrast, margin_alpha, p_value};
use unbloat_stats::holm;
use unbloat_stats::power::{ALPHA, Design, POWER};

/// Standard deviation of a run's logarithm.
const NOISE: f64 = 0.05;

/// An experiment according to a plan.
#[derive(Debug, Clone, Copy)]
struct Setup {
    blocks: usize,
    variants: usize,
    /// Number of metrics in the rule.
    metrics: usize,
    /// Noise of the variants relative to the control.
    noisier: f64,
    shape: Shape,
    /// Number of blocks with only one control run.
    one_control: usize,
}

/// The rule's metrics of four variants in the default number of blocks.
const USUAL: Setup =
    Setup { blocks: 6, variants: 4, metrics: 3, noisier: 1.0, shape: Shape::Normal, one_control: 0 };

struct Experiment {
    /// Metric by metric, and within each variant by variant.
    comparisons: Vec<Vec<Block>>,
    /// The control against itself in the first metric.
    aa: Vec<Block>,
}

impl Setup {
    fn design(self) -> Design {
        Design { blocks: self.blocks, comparisons: self.variants * self.metrics, alpha: ALPHA }
    }

    fn error(self, random: &mut Xoshiro256PlusPlus) -> f64 {
        NOISE * self.shape.draw(random)
    }

    /// Simulates an experiment. The conditions of a block vary far more than the runs within it. Comparisons
    /// without a given effect have none.
    fn experiment(self, effects: &[f64], random: &mut Xoshiro256PlusPlus) -> Experiment {
        let mut comparisons = vec![Vec::new(); self.variants * self.metrics];
        let mut aa = Vec::new();
        for (metric, variants) in comparisons.chunks_mut(self.variants).enumerate() {
            for block in 0..self.blocks {
                let common = 200.0 * (0.3 * normal(random)).exp();
                let mut controls: Vec<f64> = (0..2).map(|_| common * self.error(random).exp()).collect();
                if block < self.one_control {
                    controls.pop();
                } else if metric == 0 {
                    aa.push(Block { controls: vec![controls[0]], variant: controls[1] });
                }
                for (variant, blocks) in variants.iter_mut().enumerate() {
                    let effect = effects.get(metric * self.variants + variant).unwrap_or(&1.0);
                    let run = common * effect * (self.noisier * self.error(random)).exp();
                    blocks.push(Block { controls: controls.clone(), variant: run });
                }
            }
        }
        Experiment { comparisons, aa }
    }
}

impl Experiment {
    /// Returns the comparisons shown to differ, by the decision rule of `unbloat compare`. To save time,
    /// intervals are computed only where p is small enough.
    fn shown(&self) -> Vec<bool> {
        let p: Vec<f64> = self.comparisons.iter().map(|blocks| p_value(blocks, 1)).collect();
        let adjusted = holm::adjust(&p);
        let shown = |(blocks, p): (&Vec<Block>, f64)| {
            p <= ALPHA && contrast(blocks, ALPHA, 1).unwrap().shown(p, ALPHA).is_some()
        };
        self.comparisons.iter().zip(adjusted).map(shown).collect()
    }
}

/// Returns the share of `count` simulated experiments with a property.
fn share(count: usize, seed: u64, mut holds: impl FnMut(&mut Xoshiro256PlusPlus) -> bool) -> f64 {
    let (mut random, count) = (Xoshiro256PlusPlus::seed_from_u64(seed), repeated(count));
    (0..count).filter(|_| holds(&mut random)).count() as f64 / count as f64
}

/// Intervals of a simulated coverage.
const INTERVALS: usize = 4_000;

/// Returns the share of intervals that cover the effect.
fn coverage(setup: Setup, effects: &[f64], seed: u64) -> f64 {
    let setup = Setup { variants: 1, metrics: 1, ..setup };
    let mut turn = effects.iter().cycle();
    share(INTERVALS, seed, |random| {
        let effect = *turn.next().unwrap();
        let blocks = &setup.experiment(&[effect], random).comparisons[0];
        let (low, high) = bounds(blocks, ALPHA).unwrap();
        low <= effect && effect <= high
    })
}

/// Returns the share of plans without any effect that show one.
fn false_positives(setup: Setup, seed: u64) -> f64 {
    share(4_000, seed, |random| setup.experiment(&[], random).shown().contains(&true))
}

#[test]
fn without_any_effect_intervals_cover_one_and_at_most_one_plan_in_twenty_calls_something_different() {
    let covered = coverage(USUAL, &[1.0], 1);
    assert!((0.94..=0.96).contains(&covered), "coverage {covered}");
    // A few comparisons use more of the 5 % than many, whose p values are coarse.
    for setup in [USUAL, Setup { variants: 5, ..USUAL }, Setup { variants: 2, metrics: 1, ..USUAL }] {
        let false_plans = false_positives(setup, 2);
        assert!(false_plans <= ALPHA, "{setup:?}: false positives in {false_plans} of the plans");
    }
}

#[test]
fn with_known_effects_intervals_cover_them() {
    for (blocks, seed) in [(5, 3), (7, 4), (10, 5)] {
        let covered = coverage(Setup { blocks, ..USUAL }, &[0.35, 0.97, 1.2], seed);
        assert!((0.94..=0.96).contains(&covered), "{blocks} blocks: coverage {covered}");
    }
}

/// The shape of the noise must not matter much: far outliers, missing controls, variants that are noisier
/// than the control but otherwise equal.
#[test]
fn outliers_missing_controls_and_noisier_variants_make_no_false_plans() {
    let setups = [
        Setup { shape: Shape::HeavyTails, ..USUAL },
        Setup { one_control: 2, ..USUAL },
        Setup { one_control: 9, blocks: 9, ..USUAL },
        Setup { noisier: 2.0, ..USUAL },
        Setup { noisier: 4.0, ..USUAL },
    ];
    for (setup, seed) in setups.into_iter().zip(6..) {
        let false_plans = false_positives(setup, seed);
        assert!(false_plans <= ALPHA, "{setup:?}: false positives in {false_plans} of the plans");
    }
    for (setup, seed) in [setups[0], setups[1], setups[4]].into_iter().zip(11..) {
        let covered = coverage(setup, &[1.0, 0.6], seed);
        // Outliers make a spread look larger than it is in most experiments: intervals get wider, not narrower.
        assert!((0.94..=0.97).contains(&covered), "{setup:?}: coverage {covered}");
    }
}

/// The difference of a run and the mean of two is nearly symmetric where the runs' noise is not.
#[test]
fn intervals_cover_under_skew_and_two_modes() {
    for shape in [Shape::Skewed, Shape::Bimodal] {
        for (blocks, seed) in [(6, 21), (10, 22), (20, 23)] {
            let covered = coverage(Setup { shape, blocks, ..USUAL }, &[1.0, 0.6], seed);
            let doubt = doubt(ALPHA, repeated(INTERVALS));
            assert!(
                (0.94 - doubt..=0.96 + doubt).contains(&covered),
                "{shape:?}, {blocks} blocks: coverage {covered}"
            );
        }
    }
}

/// The limit of what intervals promise: a variant that is several times as noisy as the control, with skewed noise. Then nothing
/// cancels, and with few blocks the interval is that of a skewed mean.
#[test]
fn a_variant_with_far_more_skewed_noise_than_the_control_is_the_limit() {
    let setup = Setup { shape: Shape::Skewed, noisier: 4.0, ..USUAL };
    let covered = coverage(setup, &[1.0], 24);
    println!("skewed, variant noisier four times, 6 blocks: coverage {:.1} %", 100.0 * covered);
    assert!((0.86..0.94).contains(&covered), "coverage {covered}: say so in docs/method/compare.md");
}

#[test]
fn the_minimum_detectable_effect_is_detected_as_often_as_stated() {
    for (blocks, variants, metrics) in [(5, 1, 1), (5, 4, 3), (6, 2, 1), (6, 4, 3), (8, 4, 3)] {
        let setup = Setup { blocks, variants, metrics, ..USUAL };
        let power = share(1_000, 3, |random| {
            let mut experiment = setup.experiment(&[], random);
            // Known only from the experiment's own A/A runs.
            let log_sd = contrast(&experiment.aa, ALPHA, 1).unwrap().log_sd.unwrap();
            let ratio = setup.design().minimum_detectable_ratio(log_sd).unwrap();
            experiment.comparisons[0].iter_mut().for_each(|block| block.variant *= ratio);
            experiment.shown()[0]
        });
        // The permutation test, and its coarse p values, take a little of what t alone would show; Holm gives a little back.
        assert!((power - POWER).abs() < 0.03 + doubt(POWER, 1_000), "{setup:?}: found in {power}");
    }
}

/// Each variant costs exactly the margin in one metric, so accepting any of them is a mistake.
#[test]
fn hardly_any_plan_lets_a_variant_pass_that_costs_more_than_the_margin() {
    for variants in [1, 4] {
        let setup = Setup { variants, metrics: 1, ..USUAL };
        let margin: f64 = 1.03;
        let passing = share(2_000, 4, |random| {
            let experiment = setup.experiment(&[margin; 4][..variants], random);
            let alpha = margin_alpha(ALPHA, variants);
            experiment.comparisons.iter().any(|blocks| bounds(blocks, alpha).unwrap().1 <= margin)
        });
        assert!(passing <= ALPHA, "{variants} variants: {passing}");
    }
}
