//! The walk: all extents, in order of address.
//!
//! A leaf is read in pieces of 16 KiB, right after each piece the extents that it names, right after those the residency
//! of their pages. What does not agree (a thread was half way through a change) is read again, alone, at most
//! [`ATTEMPTS`] times. What remains is left to [`super::gaps`].
//!
//! Extents never overlap: each begins at or behind the end of the one before, so the walk ends.

use super::blocks::Blocks;
use super::extent::{Extent, Purpose};
use super::layout::EXTENT_BYTES;
use super::locate::Jemalloc;
use super::reader::Reader;
use super::rtree::{Element, Leaf, elements};
use std::ops::Range;
use unbloat_process::{Error, Memory, PAGE_SIZE, Residency, Result};

/// How often an extent that changes is read.
const ATTEMPTS: usize = 8;
/// Bytes of residency that are asked for at once.
const STRIDE_BYTES: u64 = 64 << 20;

/// An extent and which of its pages are resident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The extent.
    pub extent: Extent,
    /// Resident bytes of it.
    pub resident_bytes: u64,
    /// Its first page is resident.
    pub first_resident: bool,
    /// Its last page is resident.
    pub last_resident: bool,
    /// Which pages are resident, for slabs.
    pub pages: Option<Residency>,
    /// Something else was seen where it continues: its size is not to be believed.
    pub cut: bool,
}

/// A place where an extent is that could not be settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsettled {
    /// Its first address.
    pub address: u64,
}

/// A walk under way.
pub struct Walk<'a> {
    /// What is walked.
    pub jemalloc: &'a Jemalloc,
    /// The memory.
    pub reader: &'a Reader<'a>,
    /// All blocks of metadata: no extent is described elsewhere.
    pub blocks: &'a Blocks,
    /// Where pages can be resident: sorted, disjoint.
    pub areas: &'a [Range<u64>],
    /// What was found, in the order of finding.
    pub extents: Vec<Placed>,
    /// What could not be settled.
    pub unsettled: Vec<Unsettled>,
    /// Extents that were read more than once.
    pub rereadings: u64,
}

/// What reading one extent came to.
enum Settled {
    Extent(Extent),
    /// The element no longer names one.
    Gone,
    Never,
}

impl Walk<'_> {
    /// Walks all leaves.
    ///
    /// # Errors
    /// The process is gone.
    pub fn all(&mut self, leaves: &[Leaf]) -> Result<()> {
        let mut next_page = 0;
        for leaf in leaves {
            for piece in self.reader.pieces(&leaf.range(self.jemalloc.rtree))? {
                next_page = self.piece(leaf, &piece, next_page, u64::MAX)?;
            }
        }
        Ok(())
    }

    /// Adds the extents that a piece of a leaf names from `next_page` on, and returns the first page behind them. An extent
    /// that reaches over `limit`, the page where something begins that was read before, is cut there.
    ///
    /// # Errors
    /// The process is gone.
    pub fn piece(&mut self, leaf: &Leaf, piece: &Range<u64>, next_page: u64, limit: u64) -> Result<u64> {
        let rtree = self.jemalloc.rtree;
        let bytes = self.reader.piece(piece)?;
        let named = elements(&bytes, leaf.page_of(piece.start, rtree), rtree, self.jemalloc.extents);
        let (named, elsewhere): (Vec<_>, Vec<_>) =
            named.into_iter().partition(|(_, element)| self.may_describe(element));
        let lost = elsewhere.into_iter().filter(|(page, _)| *page >= next_page);
        self.unsettled.extend(lost.map(|(page, _)| Unsettled { address: page * PAGE_SIZE }));
        let addresses: Vec<u64> = named.iter().map(|(_, element)| element.extent).collect();
        let descriptions = self.reader.gather(&addresses, EXTENT_BYTES)?;
        let mut next_page = next_page;
        let mut found = Vec::new();
        for (i, (page, element)) in named.into_iter().enumerate() {
            if page < next_page {
                continue;
            }
            let first = descriptions.get(i).and_then(|bytes| self.parse(&element, bytes));
            match self.settle(leaf, page, next_page, element, first)? {
                Settled::Extent(extent) => {
                    next_page = extent.end() / PAGE_SIZE;
                    found.push(extent);
                }
                Settled::Gone => {}
                Settled::Never => self.unsettled.push(Unsettled { address: page * PAGE_SIZE }),
            }
        }
        self.place(found, limit)?;
        Ok(next_page)
    }

    /// Whether an extent can be described where an element says: among the metadata.
    fn may_describe(&self, element: &Element) -> bool {
        self.blocks.hold(element.extent, EXTENT_BYTES as u64)
    }

    /// The extent that is described by these bytes, if it lies in memory that can hold one.
    fn parse(&self, element: &Element, bytes: &[u8]) -> Option<Extent> {
        let extent = Extent::parse(element.extent, bytes, self.jemalloc.extents)?;
        let area = self.areas.partition_point(|area| area.end <= extent.base);
        self.areas.get(area).filter(|area| area.contains(&extent.base)).map(|_| extent)
    }

    /// Reads until element and description agree.
    fn settle(
        &mut self,
        leaf: &Leaf,
        page: u64,
        next_page: u64,
        mut element: Element,
        mut extent: Option<Extent>,
    ) -> Result<Settled> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                let Some(again) = self.element(leaf, page)? else { return Ok(Settled::Gone) };
                element = again;
                extent = self.describe(&element)?;
                self.rereadings += u64::from(attempt == 1);
            }
            let Some(x) = extent.take() else { continue };
            if x.base == page * PAGE_SIZE && x.is_sound() && x.agrees_with(&element) {
                if attempt > 0 {
                    let now = self.element(leaf, page)?;
                    if !now.is_some_and(|now| now.is_unchanged(&element)) {
                        continue;
                    }
                }
                return Ok(Settled::Extent(x));
            }
            if self.begins_before(leaf, page, next_page, &x)? {
                return Ok(Settled::Extent(x));
            }
        }
        Ok(Settled::Never)
    }

    /// Whether an extent that an element inside of it names begins before, where its element was empty when it was read.
    fn begins_before(&self, leaf: &Leaf, page: u64, next_page: u64, extent: &Extent) -> Result<bool> {
        let begin = extent.base / PAGE_SIZE;
        let inside =
            begin >= next_page.max(leaf.first_page) && begin < page && page * PAGE_SIZE < extent.end();
        if !inside || !extent.is_sound() {
            return Ok(false);
        }
        Ok(self.element(leaf, begin)?.is_some_and(|element| element.extent == extent.description))
    }

    /// What the leaf says of a page now.
    pub(super) fn element(&self, leaf: &Leaf, page: u64) -> Result<Option<Element>> {
        let address = leaf.element_of(page, self.jemalloc.rtree);
        let bytes = match self.jemalloc.rtree.element_bytes() {
            8 => self.reader.bytes_now::<8>(address)?.map(|bytes| bytes.to_vec()),
            _ => self.reader.bytes_now::<16>(address)?.map(|bytes| bytes.to_vec()),
        };
        Ok(bytes.and_then(|bytes| Element::parse(&bytes, self.jemalloc.rtree, self.jemalloc.extents)))
    }

    /// The extent that an element names, read now.
    pub(super) fn describe(&self, element: &Element) -> Result<Option<Extent>> {
        if !self.may_describe(element) {
            return Ok(None);
        }
        let bytes = self.reader.bytes_now::<EXTENT_BYTES>(element.extent)?;
        Ok(bytes.and_then(|bytes| self.parse(element, &bytes)))
    }

    /// Adds extents with the residency of their pages. They are in order; those close together are asked for at once.
    pub(super) fn place(&mut self, extents: Vec<Extent>, limit: u64) -> Result<()> {
        let mut window = Residency::default();
        let ends: Vec<u64> = extents.iter().map(Extent::end).collect();
        for (i, mut extent) in extents.into_iter().enumerate() {
            let limit = limit.saturating_mul(PAGE_SIZE);
            let cut = extent.end() > limit;
            if cut {
                extent.bytes = limit.saturating_sub(extent.base);
            }
            if extent.bytes == 0 {
                continue;
            }
            if !covers(&window, &extent.range()) {
                let end =
                    ends[i..].iter().copied().take_while(|end| end - extent.base <= STRIDE_BYTES).last();
                let end = end.unwrap_or(extent.base + PAGE_SIZE);
                window = self.reader.residency(&(extent.base..end))?;
            }
            let placed = self.placed(extent, &window, cut)?;
            self.extents.push(placed);
        }
        Ok(())
    }

    fn placed(&self, extent: Extent, window: &Residency, cut: bool) -> Result<Placed> {
        let (first, last) = (extent.base, extent.end() - PAGE_SIZE);
        if covers(window, &extent.range()) {
            let slab = matches!(extent.purpose, Purpose::Slab(_));
            return Ok(Placed {
                resident_bytes: window.resident_within(extent.range()),
                first_resident: window.is_resident(first),
                last_resident: window.is_resident(last),
                pages: slab.then(|| part(window, &extent.range())),
                extent,
                cut,
            });
        }
        let is_resident =
            |page: u64| Ok::<_, Error>(self.reader.residency(&(page..page + PAGE_SIZE))?.is_resident(page));
        Ok(Placed {
            resident_bytes: resident_within(self.reader.memory(), self.areas, &extent.range())?,
            first_resident: is_resident(first)?,
            last_resident: is_resident(last)?,
            pages: None,
            extent,
            cut,
        })
    }
}

/// Resident bytes of a range of any length, asked for only where something is mapped.
///
/// # Errors
/// The process is gone.
pub fn resident_within(memory: &dyn Memory, areas: &[Range<u64>], range: &Range<u64>) -> Result<u64> {
    let first = areas.partition_point(|area| area.end <= range.start);
    let mut sum = 0;
    for area in areas[first..].iter().take_while(|area| area.start < range.end) {
        let (mut at, end) = (area.start.max(range.start), area.end.min(range.end));
        while at < end {
            let next = (at / STRIDE_BYTES * STRIDE_BYTES + STRIDE_BYTES).min(end);
            sum += memory.residency(at, next - at)?.resident_bytes();
            at = next;
        }
    }
    Ok(sum)
}

fn covers(window: &Residency, range: &Range<u64>) -> bool {
    window.start() <= range.start && range.end <= window.start() + window.len()
}

/// The pages of a part of a range.
fn part(window: &Residency, range: &Range<u64>) -> Residency {
    let mut part = Residency::none(range.start, range.end - range.start);
    for page in (range.start..range.end).step_by(PAGE_SIZE as usize) {
        part.set_resident(page, window.is_resident(page));
    }
    part
}
