//! Finds a jemalloc without symbols, by the shape of its radix tree.
//!
//! The tree's root is an array in the writable data of the library or program that carries jemalloc. Each
//! word of that data that points into a metadata block is tried as an element of a root: the nodes below it
//! name extents, each extent's address implies which index of the root must lead to it, and so where the root
//! begins. The address that most extents agree on is the root. A program may carry several jemallocs.

use super::blocks::Blocks;
use super::extent::{Extent, Purpose};
use super::layout::{ExtentLayout, RTREES, RtreeLayout};
use super::reader::{Reader, word_at};
use super::rtree::{Element, elements, leaves, leaves_below};
use super::sizes::SizeClass;
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use unbloat_process::elf::first_mappings;
use unbloat_process::{Image, Maps, Memory, Pid, Result};

/// Maximum number of voting extents below one word.
const VOTERS: usize = 40;
/// Number of extents sampled to identify the layout, and of objects sampled to identify the pad.
const SAMPLE: usize = 1000;
/// Votes needed for a root: each extent may vote once for each layout.
const QUORUM: usize = 4;

/// The writable data of a file that may carry a jemalloc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageData {
    /// Its name in the target.
    pub path: PathBuf,
    /// Run-time addresses of its writable segments, `.bss` included.
    pub writable: Vec<Range<u64>>,
}

/// A located jemalloc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jemalloc {
    /// The file that carries it.
    pub image: ImageData,
    /// The shape of its radix tree.
    pub rtree: &'static RtreeLayout,
    /// The address of the tree's root.
    pub root: u64,
    /// The layout of its extents' descriptions.
    pub extents: &'static ExtentLayout,
    /// Bytes after each large object (`sz_large_pad`): a page, or none without `cache_oblivious`.
    pub pad: u64,
}

/// The result of a search for jemallocs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// The jemallocs.
    pub jemallocs: Vec<Jemalloc>,
    /// All metadata blocks of the process.
    pub blocks: Blocks,
}

impl Search {
    /// Searches a process for jemallocs.
    ///
    /// # Errors
    /// The process is gone.
    pub fn of(pid: Pid, maps: &Maps, memory: &dyn Memory) -> Result<Self> {
        let reader = Reader::new(memory);
        let blocks = Blocks::find(&reader, maps)?;
        let images = if blocks.is_empty() { Vec::new() } else { images(pid, maps) };
        Self::within(images, blocks, &reader)
    }

    /// Searches the data of these images for jemallocs.
    ///
    /// # Errors
    /// The process is gone.
    pub fn within(images: Vec<ImageData>, blocks: Blocks, reader: &Reader<'_>) -> Result<Self> {
        let mut jemallocs = Vec::new();
        for image in images {
            let mut best: Option<(Fit, Jemalloc)> = None;
            for rtree in &RTREES {
                let Some(root) = root_in(&image, &blocks, reader, rtree)? else { continue };
                let Some((fit, extents)) = layout_of(&blocks, reader, rtree, root)? else { continue };
                if best.as_ref().is_some_and(|(best, _)| best.score() >= fit.score()) {
                    continue;
                }
                let pad = pad_of(&blocks, reader, rtree, root, extents)?;
                let image = image.clone();
                best = Some((fit, Jemalloc { image, rtree, root, extents, pad }));
                if fit.is_good() {
                    break;
                }
            }
            jemallocs.extend(best.map(|(_, jemalloc)| jemalloc));
        }
        Ok(Search { jemallocs, blocks })
    }
}

/// Returns the mapped files whose data is large enough for the smallest root.
fn images(pid: Pid, maps: &Maps) -> Vec<ImageData> {
    let smallest = RTREES.iter().map(RtreeLayout::root_bytes).min().unwrap_or(0);
    let data = |mapping| {
        let image = Image::of_mapping(pid, mapping).ok()?;
        let writable: Vec<_> = image.writable().filter(|range| range.start < range.end).collect();
        let roomy = writable.iter().any(|range| range.end - range.start >= smallest);
        roomy.then_some(ImageData { path: image.path, writable })
    };
    first_mappings(maps).filter_map(data).collect()
}

/// Determines the root in an image's data, by vote.
fn root_in(
    image: &ImageData,
    blocks: &Blocks,
    reader: &Reader<'_>,
    rtree: &RtreeLayout,
) -> Result<Option<u64>> {
    let mut votes: HashMap<u64, usize> = HashMap::new();
    for data in image.writable.iter().filter(|data| data.end - data.start >= rtree.root_bytes()) {
        let mut words = reader.nonzero_words(data)?;
        words.retain(|&(_, word)| word.is_multiple_of(64) && blocks.at(word).is_some());
        for (slot, child) in words {
            for index in indexes_below(child, blocks, reader, rtree)? {
                let root = slot.wrapping_sub(8 * index);
                let fits = root >= data.start && root <= data.end - rtree.root_bytes();
                *votes.entry(root).or_default() += usize::from(fits);
            }
        }
    }
    let best = votes.into_iter().max_by_key(|&(root, count)| (count, root));
    Ok(best.filter(|&(_, count)| count >= QUORUM).map(|(root, _)| root))
}

/// Returns the indexes of the root that are implied by the extents below a word.
fn indexes_below(child: u64, blocks: &Blocks, reader: &Reader<'_>, rtree: &RtreeLayout) -> Result<Vec<u64>> {
    let mut indexes = Vec::new();
    for leaf in leaves_below(reader, blocks, rtree, child)?.into_iter().take(4) {
        // The extents' layout is still unknown; the finer alignment fits both.
        for layout in rtree.extents() {
            let mut sample = Sample { blocks, reader, rtree, layout, seen: Vec::new(), wanted: VOTERS };
            sample.add(leaf.address, 0, |_| true)?;
            let pages = |(place, _, bytes): &Sampled| {
                let word = |at| word_at(bytes, at).unwrap_or(0) / rtree.page_bytes();
                index_proved_by(rtree, *place, word(8), word(16))
            };
            indexes.extend(sample.seen.iter().filter_map(pages));
        }
    }
    Ok(indexes)
}

/// Returns the index of the root under which a page must lie that is the `place`th of its leaf and belongs to
/// an extent of `count` pages from `first` on.
fn index_proved_by(rtree: &RtreeLayout, place: u64, first: u64, count: u64) -> Option<u64> {
    // The page itself, or one of the extent's pages past the leaf's end.
    let page = first / rtree.leaf_pages() * rtree.leaf_pages() + place;
    let inside = page >= first && page < first.checked_add(count)?;
    inside.then_some(page / rtree.root_span_pages())
}

/// The fit of a layout: the number of descriptions that agree with themselves and the tree, and of others.
#[derive(Debug, Clone, Copy, Default)]
struct Fit {
    sound: i64,
    unsound: i64,
}

impl Fit {
    fn score(self) -> i64 {
        self.sound - self.unsound
    }

    /// Returns whether nearly all agree. The others were being changed by a thread; no further layout needs to be
    /// tried.
    fn is_good(self) -> bool {
        self.sound > 8 * self.unsound
    }
}

/// Returns the layout that fits the descriptions of slabs: the class matches the leaf's, and the free regions
/// match their count.
fn layout_of(
    blocks: &Blocks,
    reader: &Reader<'_>,
    rtree: &RtreeLayout,
    root: u64,
) -> Result<Option<(Fit, &'static ExtentLayout)>> {
    let mut best: Option<(Fit, &'static ExtentLayout)> = None;
    for layout in rtree.extents() {
        let mut fit = Fit::default();
        for (_, element, bytes) in sample(blocks, reader, rtree, root, layout, |_| true)? {
            let extent = Extent::parse(element.extent, &bytes, layout);
            match extent {
                Some(x) if !matches!(x.purpose, Purpose::Slab(_)) => {
                    fit.sound += i64::from(x.agrees_with(&element))
                }
                Some(x) if x.is_sound() && x.agrees_with(&element) => fit.sound += 1,
                _ => fit.unsound += 1,
            }
        }
        if fit.score() > best.map_or(0, |(best, _)| best.score()) {
            best = Some((fit, layout));
        }
    }
    Ok(best)
}

/// Returns the pad that explains the classes of large objects, which are those of the sizes without it.
fn pad_of(
    blocks: &Blocks,
    reader: &Reader<'_>,
    rtree: &RtreeLayout,
    root: u64,
    layout: &'static ExtentLayout,
) -> Result<u64> {
    let (mut padded, mut bare) = (0, 0);
    for (_, element, bytes) in sample(blocks, reader, rtree, root, layout, |element| !element.slab)? {
        let Some(extent) = Extent::parse(element.extent, &bytes, layout) else { continue };
        let Purpose::Object(class) = extent.purpose else { continue };
        let explained = |pad| {
            !layout.is_small(class)
                && extent.offset <= pad
                && SizeClass::holding(extent.bytes.saturating_sub(pad)) == Some(class)
        };
        padded += u64::from(explained(layout.page_bytes()));
        bare += u64::from(explained(0));
    }
    Ok(if bare > padded { 0 } else { layout.page_bytes() })
}

/// Samples the `wanted` extents below a root: page, element and description.
fn sample(
    blocks: &Blocks,
    reader: &Reader<'_>,
    rtree: &RtreeLayout,
    root: u64,
    layout: &ExtentLayout,
    wanted: fn(&Element) -> bool,
) -> Result<Vec<Sampled>> {
    let mut sample = Sample { blocks, reader, rtree, layout, seen: Vec::new(), wanted: SAMPLE };
    for leaf in leaves(reader, blocks, rtree, root)? {
        sample.add(leaf.address, leaf.first_page, wanted)?;
    }
    Ok(sample.seen)
}

/// A page, its element in the tree, and the description of its extent.
type Sampled = (u64, Element, Box<[u8]>);

/// A sample of extents under construction.
struct Sample<'a> {
    blocks: &'a Blocks,
    reader: &'a Reader<'a>,
    rtree: &'a RtreeLayout,
    layout: &'a ExtentLayout,
    seen: Vec<Sampled>,
    wanted: usize,
}

impl Sample<'_> {
    /// Adds the `chosen` extents of a leaf, until the sample is full.
    fn add(&mut self, leaf: u64, first_page: u64, chosen: fn(&Element) -> bool) -> Result<()> {
        for piece in self.reader.pieces(&(leaf..leaf + self.rtree.leaf_bytes()))? {
            if self.seen.len() >= self.wanted {
                break;
            }
            let page = first_page + (piece.start - leaf) / self.rtree.element_bytes();
            let mut named = elements(&self.reader.piece(&piece)?, page, self.rtree, self.layout);
            named.retain(|(_, element)| {
                chosen(element)
                    && element.is_plausible(self.rtree)
                    && self.blocks.hold(element.extent, self.layout.bytes() as u64)
            });
            named.truncate(self.wanted - self.seen.len());
            let addresses: Vec<u64> = named.iter().map(|(_, element)| element.extent).collect();
            let read = self.reader.gather(&addresses, self.layout.bytes())?;
            let described = |(i, (page, element))| Some((page, element, read.get(i)?.into()));
            self.seen.extend(named.into_iter().enumerate().filter_map(described));
        }
        Ok(())
    }
}
