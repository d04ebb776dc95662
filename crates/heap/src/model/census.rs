//! The census: every resident byte in exactly one category.

use super::{Category, Segment};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes per category. The sum is the process's RSS; what it misses is `unattributed_bytes` of the report.
///
/// Sums stop at the largest number instead of wrapping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Census {
    bytes: BTreeMap<Category, u64>,
    /// The heap of the live allocator was walked, so freed memory is told from live.
    walked: bool,
}

impl Census {
    /// A census without bytes yet, of a process whose allocator's heap was walked.
    #[must_use]
    pub fn of_walked_heap() -> Self {
        Census { walked: true, ..Census::default() }
    }

    /// A census without bytes yet, that knows as much of the heap as this one.
    #[must_use]
    pub fn like(&self) -> Self {
        Census { bytes: BTreeMap::new(), walked: self.walked }
    }

    /// Says that the heap of the live allocator was walked.
    pub fn set_walked(&mut self) {
        self.walked = true;
    }

    /// The heap of the live allocator was walked, so freed memory is told from live.
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

    /// Adds another census. The sum tells freed memory from live only if both do.
    pub fn merge(&mut self, other: &Census) {
        self.walked &= other.walked;
        self.add_all(other.iter());
    }

    /// Bytes of one category.
    #[must_use]
    pub fn bytes(&self, category: Category) -> u64 {
        self.bytes.get(&category).copied().unwrap_or(0)
    }

    /// Categories that have bytes, in the order of the enumeration.
    pub fn iter(&self) -> impl Iterator<Item = (Category, u64)> + '_ {
        self.bytes.iter().map(|(&category, &bytes)| (category, bytes))
    }

    /// The sum over some categories.
    pub fn sum(&self, belongs: impl Fn(Category) -> bool) -> u64 {
        let bytes = self.iter().filter(|&(category, _)| belongs(category)).map(|(_, bytes)| bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// The sum over all categories.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.sum(|_| true)
    }

    /// What the program is known to hold: malloc blocks in use, mapped ones included, and Ruby slots with an object. Where
    /// the allocator's heap was not walked, the Ruby slots alone.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.sum(|category| category.segment().is_live())
    }

    /// Ruby slots with an object, of all types.
    #[must_use]
    pub fn ruby_live(&self) -> u64 {
        Segment::RubyObjects.bytes(self)
    }

    /// cached + trimmable + stranded; `None` where the heap was not walked.
    #[must_use]
    pub fn bloat(&self) -> Option<u64> {
        self.walked.then(|| self.sum(|category| category.segment().is_bloat()))
    }

    /// Freed blocks in thread caches and fastbins; `None` where the heap was not walked.
    #[must_use]
    pub fn cached(&self) -> Option<u64> {
        self.walked.then(|| Segment::Cached.bytes(self))
    }

    /// What a trim would return; `None` where the heap was not walked.
    #[must_use]
    pub fn trimmable(&self) -> Option<u64> {
        self.walked.then(|| Segment::Trimmable.bytes(self))
    }

    /// Freed memory that nothing returns, holes included; `None` where the heap was not walked.
    #[must_use]
    pub fn stranded(&self) -> Option<u64> {
        self.walked.then(|| Segment::Stranded.bytes(self))
    }

    /// Of what is stranded, whole pages; `None` where the heap was not walked.
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
