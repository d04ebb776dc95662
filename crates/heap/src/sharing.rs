//! The memory that a forked process still shares with its parent.
//!
//! A fork lets the child share the parent's pages; whoever writes to one gets its own copy. Without root two
//! processes' pages cannot be compared (frame numbers are hidden), but the kernel says of each page whether
//! it is mapped exclusively. So memory counts as shared if both processes have a page at the same address of
//! a mapping that both have, and neither has it exclusively. Two workers that share a page which their master
//! has since replaced do not count: the master's copy is then exclusive.

use crate::model::Sharing;
use std::ops::Range;
use unbloat_process::{Maps, PageMap, Pid, Populated, Result, page_size};

/// Maximum range of one page-map query, to bound memory.
const WINDOW_BYTES: u64 = 256 << 20;

/// Compares the private anonymous memory of a process with its parent's.
///
/// # Errors
/// One of the two is gone or access to it is denied.
pub fn with_parent(parent: Pid, child: Pid) -> Result<Sharing> {
    let mut sharing = Sharing { parent, shared_bytes: 0, unshared_bytes: 0 };
    compare(parent, child, |page, shared| {
        let bytes = if shared { &mut sharing.shared_bytes } else { &mut sharing.unshared_bytes };
        *bytes += page.end - page.start;
    })?;
    Ok(sharing)
}

/// The pages that a process shares with its parent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedPages {
    /// Sorted, disjoint, not adjacent.
    ranges: Vec<Range<u64>>,
}

impl SharedPages {
    /// Finds them.
    ///
    /// # Errors
    /// One of the two is gone or may not be looked at.
    pub fn with_parent(parent: Pid, child: Pid) -> Result<Self> {
        let mut pages = SharedPages::default();
        compare(parent, child, |page, shared| match pages.ranges.last_mut() {
            _ if !shared => {}
            Some(last) if last.end == page.start => last.end = page.end,
            _ => pages.ranges.push(page),
        })?;
        Ok(pages)
    }

    /// Bytes of a range that lie on such pages.
    #[must_use]
    pub fn within(&self, start: u64, bytes: u64) -> u64 {
        let end = start.saturating_add(bytes);
        let first = self.ranges.partition_point(|range| range.end <= start);
        let overlaps = self.ranges[first..].iter().take_while(|range| range.start < end);
        overlaps.map(|range| range.end.min(end) - range.start.max(start)).sum()
    }
}

/// The private anonymous pages that both a process and its parent have, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Inherited {
    /// Bytes on common pages.
    pub(crate) shared_bytes: u64,
    /// Pages of which each has its own: sorted, disjoint, not adjacent.
    pub(crate) apart: Vec<Range<u64>>,
}

impl Inherited {
    /// Finds them.
    ///
    /// # Errors
    /// One of the two is gone or may not be looked at.
    pub(crate) fn from_parent(parent: Pid, child: Pid) -> Result<Self> {
        let mut pages = Inherited::default();
        compare(parent, child, |page, shared| match pages.apart.last_mut() {
            _ if shared => pages.shared_bytes += page.end - page.start,
            Some(last) if last.end == page.start => last.end = page.end,
            _ => pages.apart.push(page),
        })?;
        Ok(pages)
    }
}

/// Tells each page that both have, in order of address, and whether it is one page for both.
fn compare(parent: Pid, child: Pid, mut each: impl FnMut(Range<u64>, bool)) -> Result<()> {
    let (parent_maps, child_maps) = (Maps::of(parent)?, Maps::of(child)?);
    let (parent_pages, child_pages) = (PageMap::of(parent)?, PageMap::of(child)?);
    let populated = Populated::of(child, &child_pages, &child_maps)?;
    for range in common(&parent_maps, &child_maps) {
        for window in populated.windows(&range, WINDOW_BYTES) {
            let len = window.end - window.start;
            let theirs = parent_pages.residency_with_sharing(window.start, len)?;
            let ours = child_pages.residency_with_sharing(window.start, len)?;
            for page in ours.resident_runs().flat_map(|run| run.step_by(page_size() as usize)) {
                if !theirs.is_resident(page) {
                    continue;
                }
                let apart = theirs.is_exclusive(page) || ours.is_exclusive(page);
                each(page..page + page_size(), !apart);
            }
        }
    }
    Ok(())
}

/// Returns the addresses that are private anonymous memory in both.
fn common(a: &Maps, b: &Maps) -> Vec<Range<u64>> {
    let ranges = |maps: &Maps| -> Vec<Range<u64>> {
        maps.iter().filter(|mapping| mapping.is_private_anonymous()).map(|mapping| mapping.range()).collect()
    };
    let (a, b) = (ranges(a), ranges(b));
    let (mut i, mut j, mut both) = (0, 0, vec![]);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let overlap = x.start.max(y.start)..x.end.min(y.end);
        if !overlap.is_empty() {
            both.push(overlap);
        }
        if x.end <= y.end { i += 1 } else { j += 1 }
    }
    both
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bytes_within_shared_pages_are_counted_across_ranges() {
        let pages = SharedPages { ranges: vec![0x1000..0x3000, 0x5000..0x6000] };
        let within = |start, bytes| pages.within(start, bytes);
        assert_eq!([within(0, 0x800), within(0x2ff0, 0x20), within(0x2000, 0x10000)], [0, 0x10, 0x2000]);
        assert_eq!(within(0x5fff, u64::MAX), 1);
    }

    #[test]
    fn overlaps_are_found_once() {
        let maps = |text: &str| Maps::parse(Pid(1), text).unwrap();
        let a = maps("1000-5000 rw-p 0 0:0 0 \n8000-9000 r--p 0 0:0 0 \na000-f000 rw-p 0 0:0 0 \n");
        let b = maps(
            "3000-6000 rw-p 0 0:0 0 \n8000-9000 rw-p 0 0:0 0 \na000-b000 rw-p 0 0:0 0 \nd000-ff000 rw-p 0 0:0 0 \n",
        );
        assert_eq!(common(&a, &b), [0x3000..0x5000, 0xa000..0xb000, 0xd000..0xf000]);
    }
}
