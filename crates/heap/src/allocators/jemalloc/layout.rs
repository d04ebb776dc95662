//! Places of the fields of jemalloc's structures, by version and build. A new version is a new row.
//!
//! `I/` is `include/jemalloc/internal/` of 5.3.0 unless another version is named.
//!
//! | row | fact | source |
//! |---|---|---|
//! | [`RTREES`] | levels and leaf elements of the radix tree | `I/rtree.h` `rtree_levels`, `rtree_leaf_elm_s` |
//! | [`EXTENTS`] | `e_bits` of `edata_t`, of 5.2's `extent_t` | `I/edata.h`, 5.2.1 `I/extent_structs.h` |
//! | [`BASES`] | `blocks` and the counters of `base_t` | `I/base.h` `base_s`, 5.2.1 `I/base_structs.h` |
//! | [`CACHES`] | `tcache_slow_t` | `I/tcache_structs.h` |
//!
//! No version string is asked: each row is held against memory, and the one whose every check passes is taken.

use unbloat_process::PAGE_SIZE;

/// Bits of an address within a page.
pub const LG_PAGE: u32 = PAGE_SIZE.trailing_zeros();
/// The alignment of the blocks of metadata (`HUGEPAGE`: x86-64, and aarch64 with pages of 4 KiB).
pub const BLOCK_ALIGNMENT: u64 = 2 << 20;
/// Bytes of `edata_t` and of `extent_t`.
pub const EXTENT_BYTES: usize = 128;
/// Bytes of a slab's bitmap at most: 512 regions.
pub const BITMAP_WORDS: usize = 8;
/// Where the bitmap of a slab stands in its `edata_t` (`e_slab_data`).
pub const BITMAP_AT: usize = 64;

/// The shape of the radix tree that maps pages to extents. `LG_VADDR` is that of the machine on which jemalloc was
/// built (`configure.ac`: asked of the processor), so both occur on the same machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtreeLayout {
    /// Significant bits of an address (`LG_VADDR`).
    pub address_bits: u32,
    /// Key bits of each level, the root first.
    pub levels: &'static [u32],
    /// How a leaf's element is laid out.
    pub element: ElementLayout,
}

/// A leaf's element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementLayout {
    /// One word: class, pointer and flags (`RTREE_LEAF_COMPACT`).
    Packed,
    /// A pointer and a word of flags.
    Wide,
}

/// All shapes.
pub const RTREES: [RtreeLayout; 2] = [
    RtreeLayout { address_bits: 48, levels: &[18, 18], element: ElementLayout::Packed },
    RtreeLayout { address_bits: 57, levels: &[15, 15, 15], element: ElementLayout::Wide },
];

impl RtreeLayout {
    /// Bytes of the root's array.
    #[must_use]
    pub fn root_bytes(&self) -> u64 {
        self.levels.first().map_or(0, |bits| 8 << bits)
    }

    /// Bytes of the array of a node below the root that is no leaf.
    #[must_use]
    pub fn node_bytes(&self) -> u64 {
        self.levels.get(1).map_or(0, |bits| 8 << bits)
    }

    /// Pages that a leaf describes.
    #[must_use]
    pub fn leaf_pages(&self) -> u64 {
        self.levels.last().map_or(0, |bits| 1 << bits)
    }

    /// Bytes of a leaf's element.
    #[must_use]
    pub fn element_bytes(&self) -> u64 {
        match self.element {
            ElementLayout::Packed => 8,
            ElementLayout::Wide => 16,
        }
    }

    /// Bytes of a leaf.
    #[must_use]
    pub fn leaf_bytes(&self) -> u64 {
        self.leaf_pages() * self.element_bytes()
    }

    /// Whether nodes lie between root and leaves.
    #[must_use]
    pub fn has_nodes(&self) -> bool {
        self.levels.len() > 2
    }

    /// Pages that one word of the root describes.
    #[must_use]
    pub fn root_span_pages(&self) -> u64 {
        1 << self.levels.iter().skip(1).sum::<u32>()
    }
}

/// `e_bits` of an extent's description. In all versions the arena's index takes bits 0 to 11, `slab` 12, `pai` 14.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentLayout {
    /// The structure's name.
    pub name: &'static str,
    /// The versions that have it.
    pub versions: &'static str,
    /// Its alignment.
    pub alignment: u64,
    /// The first bit of the state; class (8 bits) and count of free regions (10 bits) follow.
    pub state_bit: u32,
    /// How many bits the state has.
    pub state_bits: u32,
    /// Leaf elements carry the state, and bit 14 tells who gave the pages (`pai`).
    pub leaf_has_state: bool,
}

/// All layouts of extents.
pub const EXTENTS: [ExtentLayout; 2] = [
    ExtentLayout {
        name: "edata_t",
        versions: "5.3",
        alignment: 128,
        state_bit: 17,
        state_bits: 3,
        leaf_has_state: true,
    },
    ExtentLayout {
        name: "extent_t",
        versions: "5.2",
        alignment: 64,
        state_bit: 16,
        state_bits: 2,
        leaf_has_state: false,
    },
];

/// `base_t`, which owns the blocks of metadata of one arena. It stands behind the header of its oldest block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseLayout {
    /// The versions that have it.
    pub versions: &'static str,
    /// Where `blocks` is.
    pub blocks: u64,
    /// Where `allocated` is: behind `avail[232]`, whose heaps have 8 bytes in 5.2 and 16 since, and 5.3.1's `edata_avail`.
    pub allocated: u64,
    /// Where `mapped` is. `resident` is the word before it.
    pub mapped: u64,
}

/// All layouts of `base_t`. Each chain's blocks must add up to `mapped`.
pub const BASES: [BaseLayout; 3] = [
    BaseLayout { versions: "5.3.0", blocks: 160, allocated: 3880, mapped: 3896 },
    BaseLayout { versions: "5.3.1", blocks: 160, allocated: 3896, mapped: 3928 },
    BaseLayout { versions: "5.2", blocks: 144, allocated: 2008, mapped: 2024 },
];

/// Where `base_t` stands in its oldest block: behind `size`, `next` and the block's own extent, on a cache line.
pub const BASE_AT: u64 = 192;

/// The end of `tcache_slow_t`; all versions begin with the ring's link (0), `bins` (32) and `arena` (40).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLayout {
    /// The versions that have it.
    pub versions: &'static str,
    /// Where `tcache` is; `dyn_alloc`, the start of the memory that the bins' stacks take, is the word before.
    pub tcache: u64,
    /// How many bins `tcache_t` has.
    pub bins: usize,
}

/// All layouts of `tcache_slow_t`. `tcache` points to a word that points back.
pub const CACHES: [CacheLayout; 2] = [
    CacheLayout { versions: "5.3.0", tcache: 168, bins: 73 },
    CacheLayout { versions: "5.3.1", tcache: 232, bins: 41 },
];
