//! The sequential rule: false answers, coverage after stopping, power and expected blocks.

use crate::noise::Shape;
use crate::repeated;
use crate::simulation::{Effects, LIMITS, NONE, Setup, Tally, WORTH};
use unbloat_stats::power::ALPHA;

const LEAN: Effects = [0.78, 1.0, 1.0];

fn print_and_tally(name: &str, setup: &Setup, experiments: usize, seed: u64) -> Tally {
    let tally = Tally::of(setup, repeated(experiments), 4, seed);
    tally.print(name);
    tally
}

/// Each variant costs exactly a margin, or gains nothing: to use any of them is a mistake.
#[test]
fn at_most_one_plan_in_twenty_uses_a_variant_that_it_should_not() {
    let costly = [0.7, LIMITS[0], 1.0];
    let slow = [0.7, 1.0, LIMITS[1]];
    let usual = |variants: &[Effects]| Setup::usual(variants);
    let quiet = |variants: &[Effects]| Setup { log_sd: [0.01, 0.02, 0.03], ..Setup::usual(variants) };
    let cases = [
        ("no effect, 1 variant", usual(&[NONE])),
        ("no effect, 4 variants", usual(&[NONE; 4])),
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

/// One variant gains exactly what is worth having, at costs of exactly the margins: it may not be ruled out.
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

/// Optional stopping biases plain intervals most where the effect lies between no gain and a gain worth having.
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

/// What users will meet: an answer, and how soon.
#[test]
fn plain_cases_are_answered_soon() {
    let rivals: [Effects; 3] = [LEAN, [0.79, 1.03, 1.0], NONE];
    let quiet = Setup { log_sd: [0.015, 0.03, 0.05], ..Setup::usual(&[LEAN]) };
    let short_runs = Setup { log_sd: [0.03, 0.07, 0.08], ..Setup::usual(&[LEAN]) };
    let answered = [
        ("gain 22 %, no costs", Setup::usual(&[LEAN]), 0.85, 15.0),
        ("the same, little noise", quiet, 0.99, 10.0),
        ("the same, CPU noise of short runs, 7 %", short_runs, 0.3, 19.0),
        (
            "the same, two rivals, dropped if futile",
            Setup { drops: true, ..Setup::usual(&rivals) },
            0.7,
            16.0,
        ),
        ("the same, two rivals, none dropped", Setup::usual(&rivals), 0.7, 16.0),
    ];
    let mut runs = Vec::new();
    for ((name, setup, least, blocks), seed) in answered.into_iter().zip(41..) {
        let tally = print_and_tally(name, &setup, 40, seed);
        // The rival's CPU is within the margin, too: to use it is no mistake.
        assert!(tally.uses() >= least && tally.blocks() <= blocks, "{name}: {}", tally.uses());
        runs.push(tally.runs());
    }
    assert!(runs[3] < 1.05 * runs[4], "dropping variants saves runs: {runs:?}");
    let costly = print_and_tally("gain 22 %, CPU + 15 %", &Setup::usual(&[[0.78, 1.15, 1.0]]), 100, 45);
    assert!(costly.keeps() >= 0.99 && costly.blocks() <= 9.0, "{}", costly.keeps());
}
