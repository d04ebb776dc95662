//! Field offsets of jemalloc's structures, by version and build. A new version is a new row.
//!
//! `I/` is `include/jemalloc/internal/` of 5.3.0 unless another version is named.
//!
//! | row | fact | source |
//! |---|---|---|
//! | [`RTREES`] | levels and leaf elements of the radix tree, by jemalloc's pages | `I/rtree.h` `rtree_levels`, `rtree_leaf_elm_s` |
//! | [`EXTENTS`] | `e_bits` of `edata_t`, of 5.2's `extent_t` | `I/edata.h`, 5.2.1 `I/extent_structs.h` |
//! | [`BASES`] | `blocks` and the counters of `base_t` | `I/base.h` `base_s`, 5.2.1 `I/base_structs.h` |
//! | [`CACHES`] | `tcache_slow_t` | `I/tcache_structs.h` |
//!
//! The version string is not used: each row is tested against memory, and the one that passes every check
//! applies.
//!
//! The page size is that of the build (`LG_PAGE`): the kernel's or larger. Debian's arm64 package has 64 KiB on
//! every kernel.

use super::sizes::SizeClass;

/// The alignment of the blocks of metadata (`HUGEPAGE`: x86-64, and aarch64 with pages of 4 KiB).
pub const BLOCK_ALIGNMENT: u64 = 2 << 20;
/// Offset of a slab's bitmap in its `edata_t` (`e_slab_data`).
pub const BITMAP_AT: usize = 64;

/// The shape of the radix tree that maps pages to extents. `LG_VADDR` is taken from the processor of the
/// build machine (`configure.ac`), so both shapes occur on the same machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtreeLayout {
    /// Significant bits of an address (`LG_VADDR`).
    pub address_bits: u32,
    /// Bits of an address within a page of the build (`LG_PAGE`).
    pub page_bits: u32,
    /// Key bits of each level, the root first.
    pub levels: &'static [u32],
    /// The layout of a leaf element.
    pub element: ElementLayout,
}

/// The layout of a leaf element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementLayout {
    /// One word: class, pointer and flags (`RTREE_LEAF_COMPACT`).
    Packed,
    /// A pointer and a word of flags.
    Wide,
}

/// All shapes.
pub const RTREES: [RtreeLayout; 6] = [
    RtreeLayout { address_bits: 48, page_bits: 12, levels: &[18, 18], element: ElementLayout::Packed },
    RtreeLayout { address_bits: 57, page_bits: 12, levels: &[15, 15, 15], element: ElementLayout::Wide },
    RtreeLayout { address_bits: 48, page_bits: 14, levels: &[17, 17], element: ElementLayout::Packed },
    RtreeLayout { address_bits: 57, page_bits: 14, levels: &[14, 14, 15], element: ElementLayout::Wide },
    RtreeLayout { address_bits: 48, page_bits: 16, levels: &[16, 16], element: ElementLayout::Packed },
    RtreeLayout { address_bits: 57, page_bits: 16, levels: &[13, 14, 14], element: ElementLayout::Wide },
];

impl RtreeLayout {
    /// Returns the build's page size, in bytes.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        1 << self.page_bits
    }

    /// Returns the extent layouts of builds with this page size.
    pub fn extents(&self) -> impl Iterator<Item = &'static ExtentLayout> + use<> {
        let page_bits = self.page_bits;
        EXTENTS.iter().filter(move |layout| layout.page_bits == page_bits)
    }

    /// Size of the root's array.
    #[must_use]
    pub fn root_bytes(&self) -> u64 {
        self.levels.first().map_or(0, |bits| 8 << bits)
    }

    /// Size of the array of an inner node below the root.
    #[must_use]
    pub fn node_bytes(&self) -> u64 {
        self.levels.get(1).map_or(0, |bits| 8 << bits)
    }

    /// Number of pages described by a leaf.
    #[must_use]
    pub fn leaf_pages(&self) -> u64 {
        self.levels.last().map_or(0, |bits| 1 << bits)
    }

    /// Size of a leaf element.
    #[must_use]
    pub fn element_bytes(&self) -> u64 {
        match self.element {
            ElementLayout::Packed => 8,
            ElementLayout::Wide => 16,
        }
    }

    /// Size of a leaf.
    #[must_use]
    pub fn leaf_bytes(&self) -> u64 {
        self.leaf_pages() * self.element_bytes()
    }

    /// Returns whether there are nodes between root and leaves.
    #[must_use]
    pub fn has_nodes(&self) -> bool {
        self.levels.len() > 2
    }

    /// Number of pages described by one word of the root.
    #[must_use]
    pub fn root_span_pages(&self) -> u64 {
        1 << self.levels.iter().skip(1).sum::<u32>()
    }
}

/// `edata_t` and its `e_bits`. In all versions the arena's index takes bits 0 to 11, `slab` 12, `pai` 14.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentLayout {
    /// The structure's name.
    pub name: &'static str,
    /// The versions that use it.
    pub versions: &'static str,
    /// Its alignment.
    pub alignment: u64,
    /// Bits of an address within a page of the build (`LG_PAGE`).
    pub page_bits: u32,
    /// The first bit of the state; class (8 bits) and count of free regions follow.
    pub state_bit: u32,
    /// Number of bits of the state.
    pub state_bits: u32,
    /// Leaf elements carry the state, and bit 14 names the page provider (`pai`).
    pub leaf_has_state: bool,
}

/// All layouts of extents.
pub const EXTENTS: [ExtentLayout; 6] = [edata(12), extent(12), edata(14), extent(14), edata(16), extent(16)];

const fn edata(page_bits: u32) -> ExtentLayout {
    ExtentLayout {
        name: "edata_t",
        versions: "5.3",
        alignment: 128,
        page_bits,
        state_bit: 17,
        state_bits: 3,
        leaf_has_state: true,
    }
}

const fn extent(page_bits: u32) -> ExtentLayout {
    ExtentLayout {
        name: "extent_t",
        versions: "5.2",
        alignment: 64,
        page_bits,
        state_bit: 16,
        state_bits: 2,
        leaf_has_state: false,
    }
}

impl ExtentLayout {
    /// Returns the build's page size, in bytes.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        1 << self.page_bits
    }

    /// Returns the binary logarithm of the maximum number of regions: a page of the smallest class, 8 bytes
    /// (`SC_LG_SLAB_MAXREGS`, `I/sc.h`).
    fn region_bits(&self) -> u32 {
        self.page_bits - 3
    }

    /// Returns the maximum size of a slab's bitmap, in words.
    #[must_use]
    pub fn bitmap_words(&self) -> usize {
        1 << (self.region_bits() - 6)
    }

    /// Returns the size of a description up to the end of its bitmap, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        BITMAP_AT + 8 * self.bitmap_words()
    }

    /// Returns the size of the whole structure, in bytes. A bitmap of more than 512 bits is followed by one word for
    /// each 64 of its words, and so on (`BITMAP_USE_TREE`, `I/bitmap.h`).
    fn structure_bytes(&self) -> u64 {
        let mut words = self.bitmap_words();
        let mut bytes = self.bytes();
        while words > 1 && self.region_bits() > 9 {
            words = words.div_ceil(64);
            bytes += 8 * words;
        }
        bytes as u64
    }

    /// Returns the mask of the number of free regions (`EDATA_BITS_NFREE_WIDTH`).
    #[must_use]
    pub fn free_mask(&self) -> u64 {
        (2 << self.region_bits()) - 1
    }

    /// Returns the number of classes allocated in slabs (`SC_NBINS`, `I/sc.h`): all below four pages.
    #[must_use]
    pub fn small_classes(&self) -> usize {
        SizeClass::holding(4 * self.page_bytes()).map_or(0, SizeClass::index)
    }

    /// Returns whether a class is allocated in slabs.
    #[must_use]
    pub fn is_small(&self, class: SizeClass) -> bool {
        class.index() < self.small_classes()
    }

    /// Returns the offset of `base_t` in its oldest block: after `size`, `next` and the block's own extent, on a
    /// cache line.
    #[must_use]
    pub fn base_at(&self) -> u64 {
        (16 + self.structure_bytes()).next_multiple_of(64)
    }
}

/// `base_t`, which owns the metadata blocks of one arena. It follows the header of its oldest block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseLayout {
    /// The versions that use it.
    pub versions: &'static str,
    /// Offset of `blocks`.
    pub blocks: u64,
    /// Offset of `allocated`, which follows `avail[232]`, whose heaps have 8 bytes in 5.2 and 16 since, and
    /// 5.3.1's `edata_avail`.
    pub allocated: u64,
    /// Offset of `mapped`. `resident` is the word before it.
    pub mapped: u64,
}

/// All layouts of `base_t`. The sizes of a chain's blocks must add up to `mapped`.
pub const BASES: [BaseLayout; 3] = [
    BaseLayout { versions: "5.3.0", blocks: 160, allocated: 3880, mapped: 3896 },
    BaseLayout { versions: "5.3.1", blocks: 160, allocated: 3896, mapped: 3928 },
    BaseLayout { versions: "5.2", blocks: 144, allocated: 2008, mapped: 2024 },
];

/// The end of `tcache_slow_t`; all versions begin with the ring's link (0), `bins` (32) and `arena` (40).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLayout {
    /// The versions that use it.
    pub versions: &'static str,
    /// Offset of the arrays with an element for each class that has slabs.
    pub arrays: u64,
    /// Size of these elements together.
    pub class_bytes: u64,
    /// Number of bins in a `tcache_t`.
    pub bins: usize,
}

/// All layouts of `tcache_slow_t`. `tcache` points to a word that points back.
pub const CACHES: [CacheLayout; 2] = [
    CacheLayout { versions: "5.3.0", arrays: 52, class_bytes: 3, bins: 73 },
    CacheLayout { versions: "5.3.1", arrays: 76, class_bytes: 4, bins: 41 },
];

impl CacheLayout {
    /// Returns the offset of `tcache`, which follows the arrays and `dyn_alloc`, the start of the memory of the bins'
    /// stacks.
    #[must_use]
    pub fn tcache(&self, extents: &ExtentLayout) -> u64 {
        (self.arrays + self.class_bytes * extents.small_classes() as u64).next_multiple_of(8) + 8
    }
}
