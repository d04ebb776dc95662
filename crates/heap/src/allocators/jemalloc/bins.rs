//! The occupancy of slabs by size class, which shows where stranded memory lies.

use super::account::{Contents, Knowledge};
use super::extent::Purpose;
use super::sizes::SizeClass;
use super::walk::Placed;
use std::collections::BTreeMap;

/// The slabs of one size class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bin {
    /// Number of slabs.
    pub slabs: u64,
    /// Their regions.
    pub regions: u64,
    /// Regions that are not free: in use or in a thread cache.
    pub used: u64,
    /// Resident bytes of free regions.
    pub stranded_bytes: u64,
    /// The part of `stranded_bytes` on pages without anything in use.
    pub hole_bytes: u64,
}

/// The slabs by arena and size class.
pub type Bins = BTreeMap<(u32, SizeClass), Bin>;

/// Adds an extent to its bin.
pub(super) fn add(bins: &mut Bins, knowledge: &Knowledge<'_>, placed: &Placed, contents: &Contents) {
    let Purpose::Slab(slab) = &placed.extent.purpose else { return };
    let Some(class) = SizeClass::holding(slab.region_bytes).filter(|_| !placed.cut) else { return };
    let tally = knowledge.tally(placed, contents);
    let bin = bins.entry((placed.extent.arena, class)).or_default();
    bin.slabs += 1;
    bin.regions += slab.regions;
    bin.used += slab.regions - slab.free_regions();
    bin.stranded_bytes += tally.stranded;
    bin.hole_bytes += tally.holes;
}

/// Returns the slabs of all arenas by size class, those that strand most first.
#[must_use]
pub fn by_class(bins: &Bins) -> Vec<(SizeClass, Bin)> {
    let mut classes: BTreeMap<SizeClass, Bin> = BTreeMap::new();
    for (&(_, class), bin) in bins {
        let sum = classes.entry(class).or_default();
        sum.slabs += bin.slabs;
        sum.regions += bin.regions;
        sum.used += bin.used;
        sum.stranded_bytes += bin.stranded_bytes;
        sum.hole_bytes += bin.hole_bytes;
    }
    let mut classes: Vec<_> = classes.into_iter().collect();
    classes.sort_by_key(|&(class, bin)| (std::cmp::Reverse(bin.stranded_bytes), class));
    classes
}
