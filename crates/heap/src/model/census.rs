//! The census: every resident byte in exactly one category.

use super::{Category, Segment};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes per category. The sum is the process's RSS, except for the `unattributed_bytes` of the report.
///
/// Sums saturate instead of wrapping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Census {
    bytes: BTreeMap<Category, u64>,
    /// The heap of the live allocator was walked, which tells freed memory from live.
    walked: bool,
}

impl Census {
    /// Creates an empty census of a process whose allocator's heap was walked.
    #[must_use]
    pub fn of_walked_heap() -> Self {
        Census { walked: true, ..Census::default() }
    }

    /// Creates an empty census that is marked as walked if this one is.
    #[must_use]
    pub fn like(&self) -> Self {
        Census { bytes: BTreeMap::new(), walked: self.walked }
    }

    /// Marks the heap of the live allocator as walked.
    pub fn set_walked(&mut self) {
        self.walked = true;
    }

    /// Returns whether the heap of the live allocator was walked, which tells freed memory from live.
    #[must_use]
    pub fn is_walked(&self) -> bool {
        self.walked
    }

    /// Adds bytes to a category.
    pub fn add(&mut self, category: Category, bytes: u64) {
        if bytes > 0 {
            let sum = self.bytes.entry(category).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }

    /// Adds bytes to several categories.
    pub fn add_all(&mut self, parts: impl IntoIterator<Item = (Category, u64)>) {
        parts.into_iter().for_each(|(category, bytes)| self.add(category, bytes));
    }

    /// Adds another census. The sum counts as walked only if both do.
    pub fn merge(&mut self, other: &Census) {
        self.walked &= other.walked;
        self.add_all(other.iter());
    }

    /// Returns the bytes of one category.
    #[must_use]
    pub fn bytes(&self, category: Category) -> u64 {
        self.bytes.get(&category).copied().unwrap_or(0)
    }

    /// Iterates over the categories that have bytes, in declaration order.
    pub fn iter(&self) -> impl Iterator<Item = (Category, u64)> + '_ {
        self.bytes.iter().map(|(&category, &bytes)| (category, bytes))
    }

    /// Returns the sum over some categories.
    pub fn sum(&self, belongs: impl Fn(Category) -> bool) -> u64 {
        let bytes = self.iter().filter(|&(category, _)| belongs(category)).map(|(_, bytes)| bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Returns the sum over all categories.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.sum(|_| true)
    }

    /// Returns the memory that the program is known to hold: malloc blocks in use, including mapped ones, and
    /// Ruby slots with an object. If the allocator's heap was not walked, only the Ruby slots.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.sum(|category| category.segment().is_live())
    }

    /// Returns the bytes of Ruby slots with an object, of all types.
    #[must_use]
    pub fn ruby_live(&self) -> u64 {
        Segment::RubyObjects.bytes(self)
    }

    /// Returns cached + trimmable + stranded; `None` if the heap was not walked.
    #[must_use]
    pub fn bloat(&self) -> Option<u64> {
        self.walked.then(|| self.sum(|category| category.segment().is_bloat()))
    }

    /// Returns the bytes of freed blocks in thread caches and fastbins; `None` if the heap was not walked.
    #[must_use]
    pub fn cached(&self) -> Option<u64> {
        self.walked.then(|| Segment::Cached.bytes(self))
    }

    /// Returns the bytes that a trim would return; `None` if the heap was not walked.
    #[must_use]
    pub fn trimmable(&self) -> Option<u64> {
        self.walked.then(|| Segment::Trimmable.bytes(self))
    }

    /// Returns the bytes of freed memory that nothing returns, including holes; `None` if the heap was not
    /// walked.
    #[must_use]
    pub fn stranded(&self) -> Option<u64> {
        self.walked.then(|| Segment::Stranded.bytes(self))
    }

    /// Returns the part of the stranded bytes on wholly free pages; `None` if the heap was not walked.
    #[must_use]
    pub fn holes(&self) -> Option<u64> {
        self.walked.then(|| self.bytes(Category::MallocHoles))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_walked_is_absent_and_not_0() {
        let mut census = Census::default();
        census.add(Category::AllocatorOther, 4096);
        assert_eq!(
            (census.bloat(), census.trimmable(), census.cached(), census.holes()),
            (None, None, None, None)
        );
        census.set_walked();
        assert_eq!((census.bloat(), census.stranded()), (Some(0), Some(0)));
    }

    #[test]
    fn a_sum_with_a_heap_that_was_not_walked_has_no_bloat() {
        let mut sum = Census::of_walked_heap();
        sum.add(Category::MallocStranded, 10);
        sum.add(Category::MallocHoles, 5);
        assert_eq!((sum.bloat(), sum.stranded(), sum.holes()), (Some(15), Some(15), Some(5)));
        sum.merge(&Census::default());
        assert_eq!((sum.bloat(), sum.total()), (None, 15));
    }

    #[test]
    fn sums_stop_at_the_largest_number() {
        let mut census = Census::of_walked_heap();
        census.add(Category::MallocLive, u64::MAX);
        census.add(Category::MallocLive, 5);
        census.add(Category::MallocCached, 7);
        assert_eq!((census.total(), census.live(), census.bloat()), (u64::MAX, u64::MAX, Some(7)));
    }
}
