//! Finding a jemalloc without symbols: by the shape of its radix tree.
//!
//! The tree's root is an array in the writable data of the library or program that carries jemalloc. Each word of that
//! data that points into a block of metadata is tried as an element of a root: what lies below names extents, each
//! extent's address says which index of the root must lead to it, and so where the root begins. The place that most
//! extents agree on is the root. A program may carry several jemallocs.

use super::blocks::Blocks;
use super::extent::{Extent, Purpose};
use super::layout::{EXTENT_BYTES, EXTENTS, ExtentLayout, RTREES, RtreeLayout};
use super::reader::{Reader, word_at};
use super::rtree::{Element, elements, leaves, leaves_below};
use super::sizes::SizeClass;
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use unbloat_process::elf::first_mappings;
use unbloat_process::{Image, Maps, Memory, PAGE_SIZE, Pid, Result};

/// Extents below one word that may vote.
const VOTERS: usize = 40;
/// Extents by which the layout is told, and objects by which the pad is.
const SAMPLE: usize = 1000;
/// Votes that a root needs: each extent may vote once for each layout.
const QUORUM: usize = 4;

/// The writable data of a file that may carry a jemalloc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageData {
    /// Its name in the target.
    pub path: PathBuf,
    /// Run-time addresses of its writable segments, `.bss` included.
    pub writable: Vec<Range<u64>>,
}

/// A jemalloc that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jemalloc {
    /// The file that carries it.
    pub image: ImageData,
    /// The shape of its radix tree.
    pub rtree: &'static RtreeLayout,
    /// The address of the tree's root.
    pub root: u64,
    /// How it describes extents.
    pub extents: &'static ExtentLayout,
    /// Bytes that each large object has behind it (`sz_large_pad`): a page, or none without `cache_oblivious`.
    pub pad: u64,
}

/// What looking for a jemalloc came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// The jemallocs, and their blocks of metadata.
    pub found: Vec<Jemalloc>,
    /// All blocks of metadata of the process.
    pub blocks: Blocks,
}

impl Search {
    /// Looks for jemallocs in a process.
    ///
    /// # Errors
    /// The process is gone.
    pub fn of(pid: Pid, maps: &Maps, memory: &dyn Memory) -> Result<Self> {
        let reader = Reader::new(memory);
        let blocks = Blocks::find(&reader, maps)?;
        let images = if blocks.is_empty() { Vec::new() } else { images(pid, maps) };
        Self::within(images, blocks, &reader)
    }

    /// Looks for jemallocs in the data of these images.
    ///
    /// # Errors
    /// The process is gone.
    pub fn within(images: Vec<ImageData>, blocks: Blocks, reader: &Reader<'_>) -> Result<Self> {
        let mut found = Vec::new();
        for image in images {
            for rtree in &RTREES {
                let Some(root) = root_in(&image, &blocks, reader, rtree)? else { continue };
                if let Some(extents) = layout_of(&blocks, reader, rtree, root)? {
                    let pad = pad_of(&blocks, reader, rtree, root, extents)?;
                    found.push(Jemalloc { image, rtree, root, extents, pad });
                    break;
                }
            }
        }
        Ok(Search { found, blocks })
    }
}

/// The files that are mapped and have room for the smallest root in their data.
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

/// The root in an image's data, by vote.
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

/// The indexes of the root that the extents below a word prove.
fn indexes_below(child: u64, blocks: &Blocks, reader: &Reader<'_>, rtree: &RtreeLayout) -> Result<Vec<u64>> {
    let mut indexes = Vec::new();
    for leaf in leaves_below(reader, blocks, rtree, child)?.into_iter().take(4) {
        // Which layout the extents have is not known yet: the finer alignment fits both.
        for layout in &EXTENTS {
            let mut sample = Sample { blocks, reader, rtree, layout, seen: Vec::new(), wanted: VOTERS };
            sample.add(leaf.address, 0, |_| true)?;
            let pages = |(place, _, bytes): &(u64, Element, [u8; EXTENT_BYTES])| {
                let word = |at| word_at(bytes, at).unwrap_or(0) / PAGE_SIZE;
                index_proved_by(rtree, *place, word(8), word(16))
            };
            indexes.extend(sample.seen.iter().filter_map(pages));
        }
    }
    Ok(indexes)
}

/// The index of the root under which a page lies that is the `place`th of its leaf and belongs to an extent of `count`
/// pages from `first` on.
fn index_proved_by(rtree: &RtreeLayout, place: u64, first: u64, count: u64) -> Option<u64> {
    // The page itself, or one of the extent's that lie behind the leaf's end.
    let page = first / rtree.leaf_pages() * rtree.leaf_pages() + place;
    let inside = page >= first && page < first.checked_add(count)?;
    inside.then_some(page / rtree.root_span_pages())
}

/// The layout that the descriptions of slabs fit: class as in the leaf, as many free regions as are counted.
fn layout_of(
    blocks: &Blocks,
    reader: &Reader<'_>,
    rtree: &RtreeLayout,
    root: u64,
) -> Result<Option<&'static ExtentLayout>> {
    let mut best = None;
    for layout in &EXTENTS {
        let (mut sound, mut unsound) = (0_i64, 0_i64);
        for (_, element, bytes) in sample(blocks, reader, rtree, root, layout, |_| true)? {
            let extent = Extent::parse(element.extent, &bytes, layout);
            match extent {
                Some(x) if !matches!(x.purpose, Purpose::Slab(_)) => {
                    sound += i64::from(x.agrees_with(&element))
                }
                Some(x) if x.is_sound() && x.agrees_with(&element) => sound += 1,
                _ => unsound += 1,
            }
        }
        let score = sound - unsound;
        if score > best.map_or(0, |(score, _)| score) {
            best = Some((score, layout));
        }
    }
    Ok(best.map(|(_, layout)| layout))
}

/// The pad that explains the classes of large objects: that of the size without it.
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
            !class.is_small()
                && extent.offset <= pad
                && SizeClass::holding(extent.bytes.saturating_sub(pad)) == Some(class)
        };
        padded += u64::from(explained(PAGE_SIZE));
        bare += u64::from(explained(0));
    }
    Ok(if bare > padded { 0 } else { PAGE_SIZE })
}

/// A sample of all extents below a root that are `wanted`: page, element and description.
fn sample(
    blocks: &Blocks,
    reader: &Reader<'_>,
    rtree: &RtreeLayout,
    root: u64,
    layout: &ExtentLayout,
    wanted: fn(&Element) -> bool,
) -> Result<Vec<(u64, Element, [u8; EXTENT_BYTES])>> {
    let mut sample = Sample { blocks, reader, rtree, layout, seen: Vec::new(), wanted: SAMPLE };
    for leaf in leaves(reader, blocks, rtree, root)? {
        sample.add(leaf.address, leaf.first_page, wanted)?;
    }
    Ok(sample.seen)
}

/// Extents being sampled.
struct Sample<'a> {
    blocks: &'a Blocks,
    reader: &'a Reader<'a>,
    rtree: &'a RtreeLayout,
    layout: &'a ExtentLayout,
    seen: Vec<(u64, Element, [u8; EXTENT_BYTES])>,
    wanted: usize,
}

impl Sample<'_> {
    /// Adds extents of a leaf that are `chosen`, until there are as many as wanted.
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
                    && self.blocks.hold(element.extent, EXTENT_BYTES as u64)
            });
            named.truncate(self.wanted - self.seen.len());
            let addresses: Vec<u64> = named.iter().map(|(_, element)| element.extent).collect();
            let read = self.reader.gather(&addresses, EXTENT_BYTES)?;
            let described = |(i, (page, element))| Some((page, element, read.get(i)?.try_into().ok()?));
            self.seen.extend(named.into_iter().enumerate().filter_map(described));
        }
        Ok(())
    }
}
