//! Observers of a walk, which receive blocks and bytes while a heap is read.
//!
//! Everything is checked before it is reported, and nothing is reported twice.

use crate::model::Category;
use std::ops::Range;

/// A receiver of the locations of blocks and bytes: the heap map, and the matching of blocks to their Ruby
/// owners.
pub trait Observer {
    /// Returns whether the observer uses what it receives. A walk that need not report is faster.
    fn is_listening(&self) -> bool {
        true
    }

    /// Receives memory of the arena whose structure lies at this address. The blocks and bytes that follow
    /// lie in it.
    fn memory(&mut self, range: Range<u64>, arena: u64) {
        let _ = (range, arena);
    }

    /// Receives a block held by the program: the usable addresses and how many of those bytes are resident.
    fn block(&mut self, usable: Range<u64>, resident_bytes: u64) {
        let _ = (usable, resident_bytes);
    }

    /// Receives bytes, resident or not, that belong to one category. Ranges are disjoint and, together with
    /// the claims (Ruby pages), cover the announced memory.
    fn bytes(&mut self, range: Range<u64>, category: Category) {
        let _ = (range, category);
    }
}

/// An observer that ignores everything.
impl Observer for () {
    fn is_listening(&self) -> bool {
        false
    }
}
