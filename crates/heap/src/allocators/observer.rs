//! Observers of a walk: who hears of blocks and bytes while a heap is read.
//!
//! Nothing is told before it was checked, and nothing twice.

use crate::model::Category;
use std::ops::Range;

/// Whoever wants to know where blocks and bytes lie: the heap map, and the matching of blocks to their Ruby owners.
pub trait Observer {
    /// Tells whether anything is to be done with what it is told. A walk that need not tell is faster.
    fn is_listening(&self) -> bool {
        true
    }

    /// Memory of the arena whose structure lies at this address. The blocks and bytes that follow lie in it.
    fn memory(&mut self, range: Range<u64>, arena: u64) {
        let _ = (range, arena);
    }

    /// A block that the program holds: the addresses that it may use, and how many of these bytes are resident.
    fn block(&mut self, usable: Range<u64>, resident_bytes: u64) {
        let _ = (usable, resident_bytes);
    }

    /// Bytes, resident or not, that belong to one category. Ranges are disjoint and, together with the claims (Ruby
    /// pages), cover the memory that was announced.
    fn bytes(&mut self, range: Range<u64>, category: Category) {
        let _ = (range, category);
    }
}

/// An observer that wants to know nothing.
impl Observer for () {
    fn is_listening(&self) -> bool {
        false
    }
}
