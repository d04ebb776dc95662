//! Residency of the pages of a range.

use crate::page_size;
use std::ops::Range;

/// Residency of the pages of one contiguous range.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Residency {
    start: u64,
    /// One byte per page, with the bits below.
    pub(super) pages: Vec<u8>,
}

pub(crate) const RESIDENT: u8 = 1;
pub(super) const FILE: u8 = 2;
pub(super) const EXCLUSIVE: u8 = 4;

impl Residency {
    /// Creates a range of `len` bytes from `start` on without resident pages.
    #[must_use]
    pub fn none(start: u64, len: u64) -> Self {
        Residency { start, pages: vec![0; (len / page_size()) as usize] }
    }

    /// Creates a fully resident range of `len` bytes from `start` on, for synthetic memory.
    #[must_use]
    pub fn all(start: u64, len: u64) -> Self {
        Residency { start, pages: vec![RESIDENT; (len / page_size()) as usize] }
    }

    /// First address of the range.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Size of the range in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.pages.len() as u64 * page_size()
    }

    /// Returns whether the range has no pages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Marks the page of `address` as resident or not.
    pub fn set_resident(&mut self, address: u64, resident: bool) {
        if let Some(page) = self.index(address).and_then(|i| self.pages.get_mut(i)) {
            *page = if resident { *page | RESIDENT } else { *page & !RESIDENT };
        }
    }

    /// Returns whether the page of `address` is resident; false outside the range.
    #[must_use]
    pub fn is_resident(&self, address: u64) -> bool {
        self.bits(address) & RESIDENT != 0
    }

    /// Returns whether the page of `address` belongs to a file or to shared memory rather than to private
    /// anonymous memory. Known only from [`super::PageMap::residency_with_files`] or
    /// [`super::PageMap::residency_with_sharing`].
    #[must_use]
    pub fn is_file(&self, address: u64) -> bool {
        self.bits(address) & FILE != 0
    }

    /// Returns whether the page of `address` is resident and mapped exclusively by this process. Known only
    /// from [`super::PageMap::residency_with_sharing`].
    #[must_use]
    pub fn is_exclusive(&self, address: u64) -> bool {
        self.bits(address) & (RESIDENT | EXCLUSIVE) == RESIDENT | EXCLUSIVE
    }

    /// Returns the resident bytes of the range.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.pages.iter().filter(|&&page| page & RESIDENT != 0).count() as u64 * page_size()
    }

    /// Returns the resident bytes within `range` (any addresses; partly covered pages count in part).
    #[must_use]
    pub fn resident_within(&self, range: Range<u64>) -> u64 {
        self.within(range, RESIDENT)
    }

    /// Returns the resident bytes within `range` on pages of files or of shared memory, if known.
    #[must_use]
    pub fn file_within(&self, range: Range<u64>) -> u64 {
        self.within(range, RESIDENT | FILE)
    }

    /// Returns the bytes within `range` on pages that have all these bits.
    fn within(&self, range: Range<u64>, bits: u8) -> u64 {
        let end = range.end.min(self.start + self.len());
        let (mut at, mut sum) = (range.start.max(self.start), 0);
        while at < end {
            let next = ((at / page_size() + 1) * page_size()).min(end);
            if self.bits(at) & bits == bits {
                sum += next - at;
            }
            at = next;
        }
        sum
    }

    /// Iterates over the maximal runs of resident pages, in address order.
    pub fn resident_runs(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.resident_runs_from(self.start)
    }

    /// Like [`Residency::resident_runs`], without the pages before `address`.
    pub fn resident_runs_from(&self, address: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = self.index(address).unwrap_or(0);
        std::iter::from_fn(move || {
            let first = at + self.pages.get(at..)?.iter().position(|p| p & RESIDENT != 0)?;
            let len = self.pages[first..].iter().take_while(|&p| p & RESIDENT != 0).count();
            at = first + len;
            let address = |page: usize| self.start + page as u64 * page_size();
            Some(address(first)..address(at))
        })
    }

    fn index(&self, address: u64) -> Option<usize> {
        Some((address.checked_sub(self.start)? / page_size()) as usize)
    }

    fn bits(&self, address: u64) -> u8 {
        self.index(address).and_then(|i| self.pages.get(i)).copied().unwrap_or(0)
    }

    pub(super) fn mark(&mut self, range: Range<u64>, bits: u8) {
        let end = range.end.min(self.start + self.len());
        let mut at = range.start.max(self.start);
        while at < end {
            if let Some(page) = self.index(at).and_then(|i| self.pages.get_mut(i)) {
                *page |= bits;
            }
            at += page_size();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_partial_pages() {
        let page = page_size();
        let mut r = Residency::none(page, 5 * page);
        for number in [1, 2, 4] {
            r.set_resident(number * page, true);
        }
        assert_eq!(r.resident_runs().collect::<Vec<_>>(), [page..3 * page, 4 * page..5 * page]);
        assert_eq!(r.resident_bytes(), 3 * page);
        assert_eq!(r.resident_within(page * 3 / 2..page * 17 / 4), page / 2 + page + page / 4);
        assert_eq!(r.resident_within(0..u64::MAX), 3 * page);
    }
}
