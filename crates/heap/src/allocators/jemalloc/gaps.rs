//! Walks the gaps between extents where pages are resident, a few rounds.
//!
//! During the first walk an extent may have been split (its remainder has elements now that were missing when
//! its piece was read) or grown over its neighbor (whose elements are gone). Memory of others lies between
//! extents, too: it has no elements and never becomes part of the result.

use super::extent::Purpose;
use super::rtree::Leaf;
use super::walk::{Placed, Unsettled, Walk, resident_within};
use crate::ranges::{joined, remaining};
use std::ops::Range;
use unbloat_process::Result;

/// Maximum number of rounds.
const ROUNDS: usize = 6;
/// Number of extents before a gap that are checked for having grown over it.
const NEIGHBORS: usize = 8;

impl Walk<'_> {
    /// Walks the gaps until nothing more is found. `others`: memory known to belong to somebody else.
    ///
    /// # Errors
    /// The process is gone.
    pub fn gaps(&mut self, leaves: &[Leaf], others: &[Range<u64>]) -> Result<()> {
        for _ in 0..ROUNDS {
            self.extents.sort_by_key(|placed| placed.extent.base);
            self.unsettled.clear();
            let before = self.extents.len();
            for gap in self.resident_gaps(others)? {
                let found = self.extents.len();
                self.gap(leaves, &gap)?;
                if self.extents.len() == found {
                    self.grown_over(leaves, &gap, before)?;
                }
            }
            if self.extents.len() == before {
                break;
            }
        }
        self.extents.sort_by_key(|placed| placed.extent.base);
        Ok(())
    }

    /// Returns the gaps between extents that have resident pages.
    fn resident_gaps(&self, others: &[Range<u64>]) -> Result<Vec<Range<u64>>> {
        let extents = self.extents.iter().map(|placed| placed.extent.range());
        let blocks = self.blocks.iter().map(super::blocks::Block::range);
        let covered = joined(extents.chain(blocks).chain(others.iter().cloned()).collect());
        let mut gaps = Vec::new();
        for area in self.areas {
            let first = self.extents.partition_point(|placed| placed.extent.base < area.start);
            if self.extents.get(first).is_none_or(|placed| placed.extent.base >= area.end) {
                continue;
            }
            for gap in remaining(area, &covered) {
                if resident_within(self.reader.memory(), std::slice::from_ref(&gap), &gap)? > 0 {
                    gaps.push(gap);
                }
            }
        }
        Ok(gaps)
    }

    /// Walks the extents that the leaves now name for the pages of a gap.
    fn gap(&mut self, leaves: &[Leaf], gap: &Range<u64>) -> Result<()> {
        let rtree = self.jemalloc.rtree;
        let pages = gap.start / self.page_bytes()..gap.end / self.page_bytes();
        let mut next_page = pages.start;
        let first = leaves.partition_point(|leaf| leaf.pages(rtree).end <= pages.start);
        for leaf in leaves[first..].iter().take_while(|leaf| leaf.first_page < pages.end) {
            let part = leaf.pages(rtree).start.max(pages.start)..leaf.pages(rtree).end.min(pages.end);
            let elements = leaf.element_of(part.start, rtree)..leaf.element_of(part.end, rtree);
            for piece in self.reader.pieces(&elements)? {
                next_page = self.piece(leaf, &piece, next_page, pages.end)?;
            }
        }
        Ok(())
    }

    /// Adds the growth of an extent before a gap since it was read. Its earlier bytes keep their use.
    fn grown_over(&mut self, leaves: &[Leaf], gap: &Range<u64>, known: usize) -> Result<()> {
        let before = self.extents[..known].partition_point(|placed| placed.extent.base < gap.start);
        for i in (before.saturating_sub(NEIGHBORS)..before).rev() {
            let Some(Placed { extent: old, .. }) = self.extents.get(i) else { continue };
            let (base, page) = (old.base, old.base / self.page_bytes());
            let leaf = leaves.iter().find(|leaf| leaf.pages(self.jemalloc.rtree).contains(&page));
            let Some(leaf) = leaf else { continue };
            let Some(element) = self.element(leaf, page)? else { continue };
            let Some(mut now) = self.describe(&element)? else { continue };
            let slab = matches!(now.purpose, Purpose::Slab(_));
            if now.base != base || now.end() <= gap.start || slab {
                continue;
            }
            now.bytes = now.end().min(gap.end) - gap.start;
            now.base = gap.start;
            let from = self.extents.len();
            self.place(vec![now], u64::MAX)?;
            for placed in &mut self.extents[from..] {
                placed.cut = placed.extent.purpose != Purpose::Free;
            }
            return Ok(());
        }
        Ok(())
    }

    /// Returns the ranges whose use could not be settled: from each unsettled address up to the next extent,
    /// minus memory of others.
    pub fn unsettled_ranges(&self, others: &[Range<u64>]) -> Vec<Range<u64>> {
        let from = |&Unsettled { address }: &Unsettled| {
            let next = self.extents.partition_point(|placed| placed.extent.end() <= address);
            let area = self.areas.iter().find(|area| area.contains(&address))?;
            let end = self.extents.get(next).map_or(area.end, |placed| placed.extent.base.min(area.end));
            (address < end).then_some(address..end)
        };
        let blocks = self.blocks.iter().map(super::blocks::Block::range);
        let others = joined(blocks.chain(others.iter().cloned()).collect());
        let ranges = joined(self.unsettled.iter().filter_map(from).collect());
        ranges.iter().flat_map(|range| remaining(range, &others).collect::<Vec<_>>()).collect()
    }
}
