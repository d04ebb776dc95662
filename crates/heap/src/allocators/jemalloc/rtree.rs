//! The radix tree, from the root in the library's data to the leaves, whose elements name the extent of each
//! page.

use super::blocks::Blocks;
use super::layout::{ElementLayout, ExtentLayout, RtreeLayout};
use super::reader::{Reader, word_at};
use super::sizes::{CLASSES, SizeClass};
use std::ops::Range;
use unbloat_process::Result;

/// Upper bound on the nodes below the root, where a level of nodes exists: 256 TiB of address space.
const MAX_NODES: usize = 64;

/// A leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leaf {
    /// The number of the first page it describes.
    pub first_page: u64,
    /// Its address.
    pub address: u64,
}

impl Leaf {
    /// Returns the page described by the element at an address.
    #[must_use]
    pub fn page_of(&self, element: u64, layout: &RtreeLayout) -> u64 {
        self.first_page + element.saturating_sub(self.address) / layout.element_bytes()
    }

    /// Returns the address of a page's element.
    #[must_use]
    pub fn element_of(&self, page: u64, layout: &RtreeLayout) -> u64 {
        self.address + page.saturating_sub(self.first_page) * layout.element_bytes()
    }

    /// Returns the pages it describes.
    #[must_use]
    pub fn pages(&self, layout: &RtreeLayout) -> Range<u64> {
        self.first_page..self.first_page + layout.leaf_pages()
    }

    /// Returns its addresses.
    #[must_use]
    pub fn range(&self, layout: &RtreeLayout) -> Range<u64> {
        self.address..self.address + layout.leaf_bytes()
    }
}

/// A leaf's entry for one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// Its words as read from memory.
    words: [u64; 2],
    /// The address of the extent's description; never 0.
    pub extent: u64,
    /// The extent's class, if any.
    pub class: Option<SizeClass>,
    /// The extent is a slab.
    pub slab: bool,
    /// The extent's state, in versions that keep it here.
    pub state: Option<u64>,
}

impl Element {
    /// Parses the element at the start of `bytes`; `None` if it names no extent. A cleared element has the
    /// class that means "none" and no pointer (`src/emap.c`).
    #[must_use]
    pub fn parse(bytes: &[u8], rtree: &RtreeLayout, extents: &ExtentLayout) -> Option<Self> {
        let words = [word_at(bytes, 0)?, word_at(bytes, 8).unwrap_or(0)];
        let (words, pointer, class, flags) = match rtree.element {
            ElementLayout::Packed => {
                ([words[0], 0], words[0] & ((1 << rtree.address_bits) - 1), words[0] >> 48, words[0])
            }
            // I/rtree.h `rtree_leaf_elm_write`: class, state, head and slab in one word; in 5.2 class and slab apart.
            ElementLayout::Wide if extents.leaf_has_state => {
                (words, words[0], words[1] >> 5 & 0xff, words[1])
            }
            ElementLayout::Wide => (words, words[0], words[1] & 0xffff_ffff, words[1] >> 32),
        };
        let extent = pointer / extents.alignment * extents.alignment;
        (extent != 0).then_some(Element {
            words,
            extent,
            class: SizeClass::new(class),
            slab: flags & 1 == 1,
            state: extents.leaf_has_state.then_some(flags >> 2 & 7),
        })
    }

    /// Returns whether both were read from the same words.
    #[must_use]
    pub fn is_unchanged(&self, again: &Element) -> bool {
        self.words == again.words
    }

    /// Returns whether its class is valid: an index up to the one that means "none".
    #[must_use]
    pub fn is_plausible(&self, rtree: &RtreeLayout) -> bool {
        match rtree.element {
            ElementLayout::Packed => self.words[0] >> 48 <= CLASSES as u64,
            ElementLayout::Wide => true,
        }
    }
}

/// Returns all leaves below a root, in the order of the pages they describe. Words that lead out of the
/// metadata blocks are skipped, and so are leaves that overlap another, so together they are never larger
/// than the blocks.
///
/// # Errors
/// The process is gone.
pub fn leaves(reader: &Reader<'_>, blocks: &Blocks, rtree: &RtreeLayout, root: u64) -> Result<Vec<Leaf>> {
    let mut leaves = Vec::new();
    let mut children = reader.nonzero_words(&(root..root + rtree.root_bytes()))?;
    children.retain(|&(_, child)| blocks.at(child).is_some());
    children.truncate(if rtree.has_nodes() { MAX_NODES } else { usize::MAX });
    for (slot, child) in children {
        let first_page = (slot - root) / 8 * rtree.root_span_pages();
        let below = leaves_below(reader, blocks, rtree, child)?;
        leaves
            .extend(below.into_iter().map(|leaf| Leaf { first_page: first_page + leaf.first_page, ..leaf }));
    }
    leaves.sort_unstable_by_key(|leaf| leaf.address);
    let mut end = 0;
    leaves.retain(|leaf| {
        let disjoint = leaf.address >= end;
        end = if disjoint { leaf.range(rtree).end } else { end };
        disjoint
    });
    leaves.sort_unstable();
    Ok(leaves)
}

/// Returns the leaves below a child of the root, with pages counted from the child's first.
///
/// # Errors
/// The process is gone.
pub fn leaves_below(
    reader: &Reader<'_>,
    blocks: &Blocks,
    rtree: &RtreeLayout,
    child: u64,
) -> Result<Vec<Leaf>> {
    let holds = |address: u64, bytes| address.is_multiple_of(64) && blocks.hold(address, bytes);
    if !rtree.has_nodes() {
        let leaf = Leaf { first_page: 0, address: child };
        return Ok(holds(child, rtree.leaf_bytes()).then_some(leaf).into_iter().collect());
    }
    if !holds(child, rtree.node_bytes()) {
        return Ok(Vec::new());
    }
    let words = reader.nonzero_words(&(child..child + rtree.node_bytes()))?;
    let leaf = |(slot, word): (u64, u64)| Leaf {
        first_page: (slot - child) / 8 * rtree.leaf_pages(),
        address: word,
    };
    Ok(words.into_iter().filter(|&(_, word)| holds(word, rtree.leaf_bytes())).map(leaf).collect())
}

/// Returns the elements in a piece of a leaf that name an extent, each with its page. Of neighbors that name
/// the same extent (the pages of a slab) only the first is kept.
#[must_use]
pub fn elements(
    bytes: &[u8],
    first_page: u64,
    rtree: &RtreeLayout,
    extents: &ExtentLayout,
) -> Vec<(u64, Element)> {
    let size = rtree.element_bytes() as usize;
    let mut elements: Vec<(u64, Element)> = Vec::new();
    for (page, bytes) in (first_page..).zip(bytes.chunks_exact(size)) {
        let Some(element) = Element::parse(bytes, rtree, extents) else { continue };
        if elements.last().is_none_or(|(_, last)| last.extent != element.extent) {
            elements.push((page, element));
        }
    }
    elements
}
