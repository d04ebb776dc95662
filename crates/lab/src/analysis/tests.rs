#![allow(clippy::unwrap_used)]
//! Tests with synthetic runs.

use super::*;
use crate::plan::Margins;
use crate::result::Exclusion;
use crate::schedule::Slot;

/// Creates runs with the given effect per variant on PSS and p95; the noise is a fixed pattern of about 1 %.
pub(crate) fn runs(blocks: usize, effects: &[(f64, f64)]) -> Vec<RunResult> {
    let mut results = Vec::new();
    for block in 0..blocks {
        let slots = (0..effects.len()).map(|v| (v, 0)).chain([(0, 1)]);
        for (variant, replica) in slots {
            let phase = (block * 7 + variant * 3 + replica * 5) as f64;
            let noise = |f: f64| 1.0 + 0.01 * (phase * f).sin();
            let (memory, latency) = effects[variant];
            results.push(RunResult {
                slot: Slot { block, variant, replica },
                repeat: 0,
                wall_s: 10.0,
                metrics: [
                    (Metric::PssEnd, 3e8 * memory * noise(1.3)),
                    (Metric::P95, 0.1 * latency * noise(2.1)),
                    (Metric::Throughput, 100.0 / latency * noise(0.7)),
                ]
                .into(),
                steps: vec![(100.0, latency)],
                proof: vec![],
                harness_cpu: 0.001,
                other_cpu: Some(0.02),
                stalled: [None; 3],
                excluded: None,
            });
        }
    }
    results
}

pub(crate) fn settings() -> Settings {
    let rule = Rule {
        not_worse: vec![Metric::P95, Metric::Throughput],
        margin: Margins::All(0.03),
        ..Rule::default()
    };
    Settings { rule, seed: 1, looks: Looks::Once }
}

pub(crate) fn names(n: usize) -> Vec<String> {
    ["control", "a", "b", "c"].iter().take(n).map(ToString::to_string).collect()
}

#[test]
fn a_difference_is_found_and_sameness_is_shown() {
    let analysis = analyze(&names(3), &runs(8, &[(1.0, 1.0), (0.6, 1.0), (1.0, 1.3)]), settings());
    let verdict = |v: usize, m| analysis.variants[v].metrics[&m].verdict;
    assert_eq!(verdict(0, Metric::PssEnd), Finding::Control);
    assert_eq!(verdict(1, Metric::PssEnd), Finding::Better);
    assert_eq!(verdict(1, Metric::P95), Finding::Same);
    assert_eq!(verdict(2, Metric::P95), Finding::Worse);
    assert_eq!(verdict(2, Metric::Throughput), Finding::Worse);
    assert!(analysis.warnings.is_empty(), "{:?}", analysis.warnings);
    let mde = analysis.aa[&Metric::PssEnd].minimum_detectable_ratio.unwrap();
    assert!(mde > 1.0 && mde < 1.05, "{mde}");
}

#[test]
fn a_look_before_its_time_claims_nothing_and_an_early_one_pays_more() {
    let effects = [(1.0, 1.0), (0.6, 1.0)];
    let sequential = || Settings { looks: Looks::every_block(20, 3, ALPHA), ..settings() };
    let of = |blocks: usize, settings| analyze(&names(2), &runs(blocks, &effects), settings);
    let early = of(5, sequential());
    let memory = &early.variants[1].metrics[&Metric::PssEnd];
    assert_eq!((memory.verdict, memory.bounds, memory.p_adjusted), (Finding::NotShown, None, Some(1.0)));
    let (fixed, looked) = (of(8, settings()), of(8, sequential()));
    let of = |analysis: &Analysis| analysis.variants[1].metrics[&Metric::PssEnd].clone();
    let (fixed, looked) = (of(&fixed), of(&looked));
    assert_eq!((fixed.verdict, looked.verdict), (Finding::Better, Finding::Better));
    assert!(looked.p_adjusted > fixed.p_adjusted);
    assert!(looked.bounds.unwrap().1 > fixed.bounds.unwrap().1);
    assert_eq!((sequential().look_count(), settings().look_count()), (15, 1));
}

#[test]
fn excluded_runs_are_counted_and_left_out() {
    let mut results = runs(6, &[(1.0, 1.0), (0.5, 1.0)]);
    let bad = results.iter_mut().find(|r| r.slot.variant == 1).unwrap();
    bad.metrics.insert(Metric::PssEnd, 1e15);
    bad.excluded = Some(Exclusion::Dirty("3 messages lost".into()));
    let analysis = analyze(&names(2), &results, settings());
    assert_eq!((analysis.variants[1].runs, analysis.variants[1].excluded), (5, 1));
    assert_eq!(analysis.variants[1].metrics[&Metric::PssEnd].values.len(), 5);
}

#[test]
fn only_the_metrics_of_the_rule_are_claimed_and_all_of_them_share_one_correction() {
    let mut results = runs(6, &[(1.0, 1.0), (0.6, 1.0), (0.5, 1.0)]);
    for run in &mut results {
        run.metrics.insert(Metric::PssIdle, run.metrics[&Metric::PssEnd]);
    }
    let analysis = analyze(&names(3), &results, settings());
    assert_eq!(analysis.comparisons, 6);
    let of = |metric| &analysis.variants[2].metrics[&metric];
    let smallest = 1.0 / 729.0;
    assert_eq!(of(Metric::PssEnd).p_adjusted, Some(6.0 * smallest));
    assert_eq!(of(Metric::PssEnd).verdict, Finding::Better);
    // The same figures, without claims.
    assert_eq!(of(Metric::PssIdle).p_adjusted, Some(2.0 * smallest));
    assert_eq!((of(Metric::PssIdle).verdict, of(Metric::PssIdle).bounds), (Finding::Exploratory, None));
    assert!(of(Metric::PssIdle).contrast.is_some_and(|c| c.interval.is_some()));
}

#[test]
fn the_bounds_that_are_held_against_the_margin_widen_with_the_variants() {
    let same = (1.0, 1.0);
    let worst = |variants: usize| {
        let analysis = analyze(&names(variants), &runs(6, &[same; 4][..variants]), settings());
        let cost = &analysis.variants[1].metrics[&Metric::P95];
        (cost.worst(Metric::P95).unwrap(), cost.contrast.unwrap().interval.unwrap().1)
    };
    let (two, four) = (worst(3), worst(4));
    // The same runs and variant: only the number of the other variants matters.
    assert_eq!(two.1, four.1, "the interval that is shown");
    assert!(two.0 >= two.1 && four.0 > two.0, "{two:?} {four:?}");
}
