//! Whole looks at processes that are made up and damaged: each ends within a budget, and its parts are what is resident.
#![allow(clippy::unwrap_used, missing_docs)]

mod made_up;

use proptest::prelude::*;

#[test]
fn a_whole_process_is_accounted_for() {
    (0..=u8::MAX).for_each(|shape| made_up::look(&[shape, shape]));
}

/// The short form of `make fuzz`.
#[test]
fn what_the_fuzzer_has_found_is_looked_at_within_its_budget() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/whole_look");
    let mut inputs = 0;
    for entry in std::fs::read_dir(&corpus).unwrap() {
        made_up::look(&std::fs::read(entry.unwrap().path()).unwrap());
        inputs += 1;
    }
    assert!(inputs > 10, "the corpus is missing: {}", corpus.display());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_process_is_looked_at_within_its_budget(bytes in prop::collection::vec(any::<u8>(), 2..400)) {
        made_up::look(&bytes);
    }
}
