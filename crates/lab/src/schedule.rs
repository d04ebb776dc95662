//! The order of the runs: blocks with every variant once and the control twice, each block shuffled
//! independently.
//!
//! The order is a function of the plan's seed and the block's number alone. A stopped experiment therefore
//! resumes in the order it would have had, and additional blocks are simply appended.

use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom as _;

/// One run's place in the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The block, from 0.
    pub block: usize,
    /// Index into the plan's variants; the control is 0.
    pub variant: usize,
    /// 0, or 1 for the second run of the control in a block.
    pub replica: usize,
}

/// Returns the runs of one block in order.
#[must_use]
pub fn block(seed: u64, block: usize, variants: usize) -> Vec<Slot> {
    let mut slots: Vec<Slot> = (0..variants).map(|variant| Slot { block, variant, replica: 0 }).collect();
    if variants > 0 {
        slots.push(Slot { block, variant: 0, replica: 1 });
    }
    // Neighboring seeds of this generator are unrelated; an odd factor keeps (seed, block) pairs distinct.
    let mut random =
        Xoshiro256PlusPlus::seed_from_u64(seed ^ (block as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    slots.shuffle(&mut random);
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_block_holds_every_variant_once_and_the_control_twice() {
        for number in 0..20 {
            let slots: BTreeSet<_> =
                block(1, number, 4).into_iter().map(|s| (s.variant, s.replica)).collect();
            assert_eq!(slots, [(0, 0), (0, 1), (1, 0), (2, 0), (3, 0)].into());
        }
    }

    #[test]
    fn blocks_differ_in_order_and_repeat_with_the_seed() {
        let orders: BTreeSet<Vec<_>> =
            (0..10).map(|b| block(1, b, 5).into_iter().map(|s| (s.variant, s.replica)).collect()).collect();
        assert!(orders.len() > 5);
        assert_eq!(block(7, 3, 5), block(7, 3, 5));
        assert_ne!(block(7, 3, 5), block(8, 3, 5));
    }

    /// Neither copy of the control, nor any variant, has a preferred place.
    #[test]
    fn every_place_is_as_likely_for_every_run() {
        let first = |variant, replica| {
            (0..3000).filter(|&b| block(b as u64, 0, 2)[0] == Slot { block: 0, variant, replica }).count()
        };
        for (variant, replica) in [(0, 0), (0, 1), (1, 0)] {
            let count = first(variant, replica);
            assert!((900..1100).contains(&count), "{variant} {replica}: {count} of 3000");
        }
    }
}
