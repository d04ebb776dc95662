#![allow(clippy::unwrap_used)]
//! Small experiments with known answers.

use super::*;

const TWO: &[f64] = &[1.0, 1.0];

fn blocks(runs: &[(&[f64], f64)]) -> Vec<Block> {
    runs.iter().map(|&(controls, variant)| Block { controls: controls.to_vec(), variant }).collect()
}

#[test]
fn the_ratio_is_the_geometric_mean_within_blocks() {
    // The second block's machine is ten times slower, which must not matter.
    let contrast = contrast(&blocks(&[(&[2.0, 8.0], 2.0), (&[40.0], 20.0)]), 0.05, 1).unwrap();
    assert!((contrast.ratio - 0.5).abs() < 1e-12);
    assert_eq!((contrast.blocks, contrast.interval), (2, None));
}

#[test]
fn one_control_makes_the_sign_flip_test() {
    let contrast = contrast(&blocks(&[(&[1.0], 2.0), (&[1.0], 3.0), (&[1.0], 4.0)]), 0.05, 1).unwrap();
    assert_eq!((contrast.p, contrast.smallest_p), (2.0 / 8.0, 2.0 / 8.0));
}

#[test]
fn two_controls_give_three_relabelings_a_block() {
    let contrast = contrast(&blocks(&[(TWO, 2.0); 5]), 0.05, 1).unwrap();
    assert_eq!((contrast.p, contrast.smallest_p), (1.0 / 243.0, 1.0 / 243.0));
    assert_eq!(contrast.interval.map(|(low, high)| (low.round(), high.round())), Some((2.0, 2.0)));
}

#[test]
fn identical_runs_show_nothing() {
    let runs: &[f64] = &[3.0, 3.0];
    let contrast = contrast(&blocks(&[(runs, 3.0); 6]), 0.05, 1).unwrap();
    assert_eq!((contrast.p, contrast.interval), (1.0, Some((1.0, 1.0))));
}

/// Rounding leaves their ratios some 1e-17 apart, which is no spread.
#[test]
fn blocks_of_one_ratio_have_it_as_their_interval() {
    for ratio in [0.9, 0.7, 1.1, 3.3, 1e-9, 1e12] {
        for count in 5..9 {
            let runs: Vec<Block> = (1..=count)
                .map(|i| f64::from(i) * 1.7)
                .map(|c| Block { controls: vec![c, c], variant: c * ratio })
                .collect();
            let contrast = contrast(&runs, 0.05, 1).unwrap();
            let (low, high) = contrast.interval.unwrap();
            assert!((low / ratio - 1.0).abs() < 1e-9 && (high / ratio - 1.0).abs() < 1e-9, "{contrast:?}");
        }
    }
}

#[test]
fn a_control_that_is_missing_costs_relabelings() {
    let mut runs = blocks(&[(TWO, 2.0); 5]);
    runs[0].controls.pop();
    let contrast = contrast(&runs, 0.05, 1).unwrap();
    assert_eq!((contrast.p, contrast.smallest_p), (1.0 / 162.0, 1.0 / 162.0));
    assert!(contrast.can_decide(8, 0.05) && !contrast.can_decide(9, 0.05));
}

#[test]
fn a_variant_that_is_only_noisier_is_not_different() {
    // Whatever it does, it does more of it than the control, and by chance always to the same side.
    let runs: Vec<Block> = [1.05, 1.9, 1.1, 3.0, 1.02, 1.3]
        .map(|variant| Block { controls: vec![1.0, 1.001], variant })
        .to_vec();
    assert_eq!(permutation::two_sided_p(&LogRatios::of(&runs), 1), 1.0 / 729.0);
    assert!(contrast(&runs, 0.05, 1).unwrap().p > 0.05);
}

#[test]
fn a_difference_needs_both_a_small_p_and_an_interval_without_one() {
    let contrast = contrast(&blocks(&[(TWO, 0.5); 5]), 0.05, 1).unwrap();
    assert_eq!(contrast.shown(0.05, 0.05), Some(Ordering::Less));
    assert_eq!(contrast.shown(0.06, 0.05), None);
    assert_eq!(Contrast { interval: Some((0.5, 1.01)), ..contrast }.shown(0.01, 0.05), None);
    assert_eq!(
        Contrast { interval: Some((1.01, 2.0)), ..contrast }.shown(0.01, 0.05),
        Some(Ordering::Greater)
    );
    assert_eq!(Contrast { interval: None, ..contrast }.shown(0.01, 0.05), None);
}

#[test]
fn bounds_widen_with_the_level_and_need_five_blocks() {
    let spread = |i: usize| 1.0 + 0.05 * (i as f64 * 2.3).sin();
    for count in 5..12 {
        let runs: Vec<Block> =
            (0..count).map(|i| Block { controls: vec![1.0], variant: spread(i) }).collect();
        assert_eq!(bounds(&runs, 0.05), contrast(&runs, 0.05, 1).unwrap().interval);
        let (wider, narrower) = (bounds(&runs, 0.01).unwrap(), bounds(&runs, 0.05).unwrap());
        assert!(wider.0 < narrower.0 && narrower.1 < wider.1);
    }
    assert_eq!(bounds(&blocks(&[(TWO, 0.5); 4]), 0.05), None);
}

/// Student's quantile for four degrees of freedom is 2.776; the log ratios' mean is 0 and their standard deviation 0.1·√2.5.
#[test]
fn the_interval_is_the_textbook_s() {
    let runs: Vec<Block> =
        (-2..=2).map(|i| Block { controls: vec![1.0, 1.0], variant: (0.1 * f64::from(i)).exp() }).collect();
    let (low, high) = contrast(&runs, 0.05, 1).unwrap().interval.unwrap();
    let half = 2.776 * 0.1 * 2.5f64.sqrt() / 5f64.sqrt();
    assert!((high.ln() - half).abs() < 1e-3 && (low.ln() + half).abs() < 1e-3, "{low} {high}");
}

#[test]
fn a_margin_is_held_at_a_wider_interval_the_more_variants_might_pass() {
    assert_eq!([1, 2, 4].map(|variants| margin_alpha(0.05, variants)), [0.05, 0.05, 0.025]);
}

#[test]
fn unusable_blocks_do_not_count() {
    let contrast =
        contrast(&blocks(&[(&[], 1.0), (&[0.0], 1.0), (&[f64::NAN], 1.0), (&[1.0], 2.0)]), 0.05, 1);
    assert_eq!(contrast.unwrap().blocks, 1);
    assert_eq!(super::contrast(&[], 0.05, 1), None);
}

#[test]
fn the_seed_repeats_a_test_whose_relabelings_are_drawn() {
    let wobble = |i: usize, f: f64| 1.0 + 0.05 * (i as f64 * f).sin();
    let runs: Vec<Block> = (0..25)
        .map(|i| Block { controls: vec![1.0, wobble(i, 1.7)], variant: 1.02 * wobble(i, 2.3) })
        .collect();
    assert_eq!(contrast(&runs, 0.05, 7), contrast(&runs, 0.05, 7));
    let p = |seed| permutation::two_sided_p(&LogRatios::of(&runs), seed);
    assert!(p(7) != p(8) && (p(7) - p(8)).abs() < 0.01);
}

#[test]
fn limits_are_shown_within_the_bounds_only() {
    let mut shown = 0;
    for seed in 0..40 {
        let wobble = |i: usize| 1.0 + 0.06 * ((i * 7 + seed) as f64 * 2.3).sin();
        let runs: Vec<Block> = (0..8)
            .map(|i| Block { controls: vec![1.0, wobble(i + 31)], variant: 1.03 * wobble(i) })
            .collect();
        let (low, high) = bounds(&runs, 0.05).unwrap();
        for limit in [0.9, 0.97, 1.0, 1.03, 1.06, 1.1, 1.2] {
            let (below, above) = (is_below(&runs, limit, 0.05, 1), is_above(&runs, limit, 0.05, 1));
            assert!(!below || high <= limit, "{seed}: {high} {limit}");
            assert!(!above || low >= limit, "{seed}: {low} {limit}");
            shown += usize::from(below) + usize::from(above);
        }
        let p = p_value(&runs, 1);
        assert_eq!(p_value_up_to(&runs, 1.0, 1), p);
        assert!(p_value_up_to(&runs, p / 2.0, 1) > p / 2.0);
    }
    assert!(shown > 100, "{shown}");
    assert!(!is_below(&blocks(&[(TWO, 0.5); 4]), 0.9, 0.05, 1));
    assert!(is_below(&blocks(&[(TWO, 0.5); 5]), 0.5001, 0.05, 1));
    assert!(is_above(&blocks(&[(TWO, 0.5); 5]), 0.4999, 0.05, 1));
}

#[test]
fn a_limit_is_not_shown_with_fewer_relabelings_than_its_level_needs() {
    let one_control: &[f64] = &[1.0];
    assert!(!is_below(&blocks(&[(one_control, 0.5); 5]), 0.9, 0.05, 1), "1/32 is more than 0.025");
    assert!(is_below(&blocks(&[(one_control, 0.5); 6]), 0.9, 0.05, 1), "1/64 is less");
}
