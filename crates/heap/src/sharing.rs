//! The memory that a forked process still shares with its parent.
//!
//! Fork gives the child the parent's pages to share; whoever writes to one gets a page of its own. Which page two
//! processes have cannot be compared without root (the frame numbers are hidden), but the kernel tells for each page
//! whether one process alone has it. So memory counts as shared where both have a page at the same address of a mapping
//! that both have, and neither has it alone. Two workers that share a page which their master has since replaced do not
//! count: the master's is then its alone.

use crate::model::Sharing;
use std::ops::Range;
use unbloat_process::{Maps, PAGE_SIZE, PageMap, Pid, Result};

/// What one question to the page maps covers at most, to bound memory.
const WINDOW_BYTES: u64 = 256 << 20;

/// Compares a process with its parent, in their private anonymous memory.
///
/// # Errors
/// One of the two is gone or may not be looked at.
pub fn with_parent(parent: Pid, child: Pid) -> Result<Sharing> {
    let (parent_maps, child_maps) = (Maps::of(parent)?, Maps::of(child)?);
    let (parent_pages, child_pages) = (PageMap::of(parent)?, PageMap::of(child)?);
    let mut sharing = Sharing { parent, shared_bytes: 0, unshared_bytes: 0 };
    for range in common(&parent_maps, &child_maps) {
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).min(WINDOW_BYTES);
            let theirs = parent_pages.residency_with_sharing(at, len)?;
            let ours = child_pages.residency_with_sharing(at, len)?;
            for page in (at..at + len).step_by(PAGE_SIZE as usize) {
                if !theirs.is_resident(page) || !ours.is_resident(page) {
                    continue;
                }
                let apart = theirs.is_exclusive(page) || ours.is_exclusive(page);
                let bytes = if apart { &mut sharing.unshared_bytes } else { &mut sharing.shared_bytes };
                *bytes += PAGE_SIZE;
            }
            at += len;
        }
    }
    Ok(sharing)
}

/// Addresses that are private anonymous memory in both.
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
    fn overlaps_are_found_once() {
        let maps = |text: &str| Maps::parse(Pid(1), text).unwrap();
        let a = maps("1000-5000 rw-p 0 0:0 0 \n8000-9000 r--p 0 0:0 0 \na000-f000 rw-p 0 0:0 0 \n");
        let b = maps(
            "3000-6000 rw-p 0 0:0 0 \n8000-9000 rw-p 0 0:0 0 \na000-b000 rw-p 0 0:0 0 \nd000-ff000 rw-p 0 0:0 0 \n",
        );
        assert_eq!(common(&a, &b), [0x3000..0x5000, 0xa000..0xb000, 0xd000..0xf000]);
    }
}
