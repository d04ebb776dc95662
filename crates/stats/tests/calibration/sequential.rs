//! The sequential rule: false answers, coverage after stopping, power and expected blocks.

use crate::noise::Shape;
use crate::simulation::{Effects, LIMITS, NONE, Setup, Tally, WORTH};
use crate::{doubt, repeated};
use unbloat_stats::power::ALPHA;

const LEAN: Effects = [0.78, 1.0, 1.0];

fn print_and_tally(name: &str, setup: &Setup, experiments: usize, seed: u64) -> Tally {
    let tally = Tally::of(setup, repeated(experiments), 4, seed);
    tally.print(name);
    tally
}

/// Each variant costs exactly a margin, or gains nothing, so using any of them is a mistake.
#[test]
fn at_most_one_plan_in_twenty_uses_a_variant_that_it_should_not() {
    let costly = [0.7, LIMITS[0], 1.0];
    let slow = [0.7, 1.0, LIMITS[1]];
    let usual = |variants: &[Effects]| Setup::usual(variants);
    let quiet = |variants: &[Effects]| Setup { log_sd: [0.01, 0.02, 0.03], ..Setup::usual(variants) };
    let cases = [
        ("no effect, 1 variant", Setup { drops: true, ..usual(&[NONE]) }),
        ("no effect, 4 variants", Setup { drops: true, ..usual(&[NONE; 4]) }),
        ("CPU at the margin, 1 variant", usual(&[costly])),
        ("CPU or p95 at the margin, 4 variants", usual(&[costly, costly, slow, slow])),
        ("the same, little noise", quiet(&[costly, costly, slow, slow])),
        ("the same, variants noisier twice", Setup { noisier: 2.0, ..usual(&[costly, costly, slow, slow]) }),
        ("the same, outliers", Setup { shape: Shape::HeavyTails, ..usual(&[costly, costly, slow, slow]) }),
        ("the same, bimodal", Setup { shape: Shape::Bimodal, ..usual(&[costly, costly, slow, slow]) }),
        ("the same, skewed", Setup { shape: Shape::Skewed, ..usual(&[costly, costly, slow, slow]) }),
        ("the same, disturbed runs", Setup { disturbed: 0.2, ..usual(&[costly, costly, slow, slow]) }),
    ];
    for ((name, setup), seed) in cases.iter().zip(1..) {
        let tally = print_and_tally(name, setup, if setup.variants.len() > 1 { 40 } else { 80 }, seed);
        assert!(tally.uses() <= ALPHA, "{name}: {}", tally.uses());
    }
}

/// One variant has exactly the worthwhile gain, at costs of exactly the margins, so it may not be ruled out.
#[test]
fn at_most_one_plan_in_twenty_keeps_the_control_though_a_variant_is_worth_it() {
    let worth_it = [WORTH, LIMITS[0], LIMITS[1]];
    let cases = [
        ("a gain worth having, costs at the margins", Setup::usual(&[worth_it])),
        ("the same beside two without effect", Setup::usual(&[NONE, worth_it, NONE])),
        ("the same, skewed", Setup { shape: Shape::Skewed, ..Setup::usual(&[worth_it]) }),
    ];
    for ((name, setup), seed) in cases.iter().zip(21..) {
        let tally = print_and_tally(name, setup, 40, seed);
        assert!(tally.keeps() <= ALPHA, "{name}: {}", tally.keeps());
    }
}

/// Optional stopping biases plain intervals most if the effect lies between no gain and a worthwhile one.
#[test]
fn intervals_reported_after_stopping_cover_as_often_as_they_say() {
    let one = |effects: Effects| Setup::usual(&[effects]);
    let cases = [
        ("gain 3 %: neither nothing nor worth having", one([0.97, 1.0, 1.0])),
        ("gain 22 %, CPU + 3 %", one([0.78, 1.03, 1.0])),
        ("gain 22 %, CPU + 10 %", one([0.78, 1.10, 1.0])),
        ("gain 22 %, outliers", Setup { shape: Shape::HeavyTails, ..one(LEAN) }),
        ("gain 22 %, bimodal", Setup { shape: Shape::Bimodal, ..one(LEAN) }),
        ("gain 22 %, disturbed runs", Setup { disturbed: 0.2, ..one(LEAN) }),
    ];
    for ((name, setup), seed) in cases.iter().zip(31..) {
        let tally = Tally::of(setup, repeated(80), 1, seed);
        tally.print(name);
        assert!(tally.covers(), "{name}: {}", tally.coverage());
    }
}

/// An answer comes at least as often as the last look alone would give it, by theory, and by then variants are dropped.
#[test]
fn plain_cases_are_answered() {
    let rivals: [Effects; 3] = [LEAN, [0.79, 1.03, 1.0], NONE];
    let quiet = Setup { log_sd: [0.015, 0.03, 0.05], ..Setup::usual(&[LEAN]) };
    let short_runs = Setup { log_sd: [0.03, 0.07, 0.08], ..Setup::usual(&[LEAN]) };
    let experiments = 40;
    let answered = [
        ("gain 22 %, no costs", Setup::usual(&[LEAN])),
        ("the same, little noise", quiet),
        ("the same, CPU noise of short runs, 7 %", short_runs),
        ("the same, two rivals, dropped if futile", Setup { drops: true, ..Setup::usual(&rivals) }),
        ("the same, two rivals, none dropped", Setup::usual(&rivals)),
    ];
    let mut runs = Vec::new();
    for ((name, setup), seed) in answered.into_iter().zip(41..) {
        let tally = print_and_tally(name, &setup, experiments, seed);
        let power = setup.power_of_the_last_look();
        println!("{:44} by theory at least {:5.1} %", "", 100.0 * power);
        // The permutation test takes a little of what t alone would show.
        let least = power - 0.05 - doubt(power, repeated(experiments));
        // The rival's CPU is within the margin, too: to use it is no mistake.
        assert!(tally.uses() >= least, "{name}: {} {power}", tally.uses());
        runs.push(tally.runs());
    }
    // In an experiment of so many blocks as these took, each variant that has left in between saves its runs.
    assert!(runs[3] < 1.05 * runs[4], "dropping variants saves runs: {runs:?}");
    let costly = Setup::usual(&[[0.78, 1.15, 1.0]]);
    let tally = print_and_tally("gain 22 %, CPU + 15 %", &costly, 100, 45);
    assert!(tally.keeps() >= 0.99, "{}", tally.keeps());
}
