//! Walks all extents, in address order.
//!
//! A leaf is read in pieces of 16 KiB. The extents that a piece names are read right after it, and the
//! residency of their pages right after those. Inconsistent descriptions (a thread was in the middle of a
//! change) are read again, one by one, at most [`ATTEMPTS`] times. Any that remain are left to
//! [`super::gaps`].
//!
//! Extents never overlap: each begins at or after the end of the previous one, so the walk ends.

use super::blocks::Blocks;
use super::extent::{Extent, Purpose};
use super::locate::Jemalloc;
use super::reader::{Reader, pages_of};
use super::rtree::{Element, Leaf, elements};
use std::ops::Range;
use unbloat_process::{Error, Memory, Residency, Result, page_size, resident_bytes};

/// Maximum number of reads of a changing extent.
const ATTEMPTS: usize = 8;
/// Bytes per residency query.
const STRIDE_BYTES: u64 = 64 << 20;

/// An extent with the residency of its pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The extent.
    pub extent: Extent,
    /// Its resident bytes.
    pub resident_bytes: u64,
    /// Resident bytes of its object, without the bytes before and after it.
    pub object_bytes: u64,
    /// The resident pages, for slabs.
    pub pages: Option<Residency>,
    /// Something else was seen inside the extent, so its size cannot be trusted.
    pub cut: bool,
}

/// The start of an extent that could not be settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsettled {
    /// Its first address.
    pub address: u64,
}

/// A walk in progress.
pub struct Walk<'a> {
    /// The jemalloc being walked.
    pub jemalloc: &'a Jemalloc,
    /// A reader of the target's memory.
    pub reader: &'a Reader<'a>,
    /// All metadata blocks: extents are described nowhere else.
    pub blocks: &'a Blocks,
    /// Memory that can have resident pages: sorted, disjoint.
    pub areas: &'a [Range<u64>],
    /// The extents found, in the order of discovery.
    pub extents: Vec<Placed>,
    /// Extents that could not be settled.
    pub unsettled: Vec<Unsettled>,
    /// Number of extents that were read more than once.
    pub rereadings: u64,
}

/// The result of reading one extent.
enum Settled {
    Extent(Extent),
    /// The element no longer names an extent.
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

    /// Adds the extents that a piece of a leaf names from `next_page` on, and returns the first page after
    /// them. An extent that reaches beyond `limit`, the page where something read earlier begins, is cut
    /// there.
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
        self.unsettled.extend(lost.map(|(page, _)| Unsettled { address: page * rtree.page_bytes() }));
        let addresses: Vec<u64> = named.iter().map(|(_, element)| element.extent).collect();
        let descriptions = self.reader.gather(&addresses, self.jemalloc.extents.bytes())?;
        let mut next_page = next_page;
        let mut found = Vec::new();
        for (i, (page, element)) in named.into_iter().enumerate() {
            if page < next_page {
                continue;
            }
            let first = descriptions.get(i).and_then(|bytes| self.parse(&element, bytes));
            match self.settle(leaf, page, next_page, element, first)? {
                Settled::Extent(extent) => {
                    next_page = extent.end() / rtree.page_bytes();
                    found.push(extent);
                }
                Settled::Gone => {}
                Settled::Never => self.unsettled.push(Unsettled { address: page * rtree.page_bytes() }),
            }
        }
        self.place(found, limit)?;
        Ok(next_page)
    }

    /// Returns whether an element points to a possible extent description: among the metadata.
    fn may_describe(&self, element: &Element) -> bool {
        self.blocks.hold(element.extent, self.jemalloc.extents.bytes() as u64)
    }

    /// Parses the extent described by these bytes, if it lies in memory that can hold one.
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
            if x.base == page * self.page_bytes() && x.is_sound() && x.agrees_with(&element) {
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

    /// Returns whether an extent named by an element inside it begins earlier, where its element was still
    /// empty when it was read.
    fn begins_before(&self, leaf: &Leaf, page: u64, next_page: u64, extent: &Extent) -> Result<bool> {
        let begin = extent.base / self.page_bytes();
        let inside = begin >= next_page.max(leaf.first_page)
            && begin < page
            && page * self.page_bytes() < extent.end();
        if !inside || !extent.is_sound() {
            return Ok(false);
        }
        Ok(self.element(leaf, begin)?.is_some_and(|element| element.extent == extent.description))
    }

    /// Reads a page's element in the leaf afresh.
    pub(super) fn element(&self, leaf: &Leaf, page: u64) -> Result<Option<Element>> {
        let address = leaf.element_of(page, self.jemalloc.rtree);
        let bytes = match self.jemalloc.rtree.element_bytes() {
            8 => self.reader.bytes_now::<8>(address)?.map(|bytes| bytes.to_vec()),
            _ => self.reader.bytes_now::<16>(address)?.map(|bytes| bytes.to_vec()),
        };
        Ok(bytes.and_then(|bytes| Element::parse(&bytes, self.jemalloc.rtree, self.jemalloc.extents)))
    }

    /// Reads the extent that an element names.
    pub(super) fn describe(&self, element: &Element) -> Result<Option<Extent>> {
        if !self.may_describe(element) {
            return Ok(None);
        }
        // A description of a build with large pages may reach over a page, and its end not be touched yet.
        let end = element.extent + self.jemalloc.extents.bytes() as u64;
        let bytes = self.reader.range(&(element.extent..end))?;
        Ok(self.parse(element, &bytes))
    }

    /// Adds extents with the residency of their pages. They are in order; residency of neighbors is queried
    /// at once.
    pub(super) fn place(&mut self, extents: Vec<Extent>, limit: u64) -> Result<()> {
        let mut window = Residency::default();
        let ends: Vec<u64> = extents.iter().map(Extent::end).collect();
        for (i, mut extent) in extents.into_iter().enumerate() {
            let limit = limit.saturating_mul(self.page_bytes());
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
                let end = end.unwrap_or(extent.base + self.page_bytes());
                window = self.reader.residency(&(extent.base..end))?;
            }
            let placed = self.placed(extent, &window, cut)?;
            self.extents.push(placed);
        }
        Ok(())
    }

    fn placed(&self, extent: Extent, window: &Residency, cut: bool) -> Result<Placed> {
        let start = extent.base + extent.offset;
        let object = start..(start + extent.usable_bytes(self.jemalloc.pad)).min(extent.end());
        if covers(window, &extent.range()) {
            let slab = matches!(extent.purpose, Purpose::Slab(_));
            return Ok(Placed {
                resident_bytes: window.resident_within(extent.range()),
                object_bytes: window.resident_within(object),
                pages: slab.then(|| part(window, &extent.range())),
                extent,
                cut,
            });
        }
        Ok(Placed {
            resident_bytes: resident_within(self.reader.memory(), self.areas, &extent.range())?,
            object_bytes: self.resident_bytes_of(&object)?,
            pages: None,
            extent,
            cut,
        })
    }

    /// Returns the resident bytes of a range that may begin and end within a page.
    fn resident_bytes_of(&self, range: &Range<u64>) -> Result<u64> {
        let Some(pages) = pages_of(range) else { return Ok(0) };
        let resident = resident_within(self.reader.memory(), self.areas, &pages)?;
        let beyond = |page: u64, bytes: u64| {
            let resident = self.reader.residency(&(page..page + page_size()))?.is_resident(page);
            Ok::<_, Error>(if resident { bytes } else { 0 })
        };
        let before = beyond(pages.start, range.start - pages.start)?;
        Ok(resident.saturating_sub(before + beyond(pages.end - page_size(), pages.end - range.end)?))
    }

    /// Returns the build's page size, in bytes.
    pub(super) fn page_bytes(&self) -> u64 {
        self.jemalloc.rtree.page_bytes()
    }
}

/// Returns the resident bytes of a range of any length, querying only mapped parts.
///
/// # Errors
/// The process is gone.
pub fn resident_within(memory: &dyn Memory, areas: &[Range<u64>], range: &Range<u64>) -> Result<u64> {
    let first = areas.partition_point(|area| area.end <= range.start);
    let mut sum = 0;
    for area in areas[first..].iter().take_while(|area| area.start < range.end) {
        sum += resident_bytes(memory, &(area.start.max(range.start)..area.end.min(range.end)))?;
    }
    Ok(sum)
}

fn covers(window: &Residency, range: &Range<u64>) -> bool {
    window.start() <= range.start && range.end <= window.start() + window.len()
}

/// Returns the pages of a part of a range.
fn part(window: &Residency, range: &Range<u64>) -> Residency {
    let mut part = Residency::none(range.start, range.end - range.start);
    for page in (range.start..range.end).step_by(page_size() as usize) {
        part.set_resident(page, window.is_resident(page));
    }
    part
}
