//! Layouts of the garbage collector's structures that are read from outside, by version.
//!
//! All offsets are for LP64 Linux. Sources are CRuby's own files at the release tags named below; the
//! structures did not change between the patch releases of a minor version. Every layout is verified by
//! structural checks at run time before it is used ([`super::pages`], [`super::objspace`]).

/// The shape of heap pages (`struct heap_page` and `struct heap_page_body`): `gc.c` up to 3.3,
/// `gc/default/default.c` from 3.4 on. Offsets are bytes into `struct heap_page`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    /// `HEAP_PAGE_ALIGN`: the alignment of bodies.
    pub page_bytes: u64,
    /// `HEAP_PAGE_SIZE`: 40 bytes less in 2.7, which left them for the header of malloc's next chunk
    /// (`REQUIRED_SIZE_BY_MALLOC`).
    pub body_bytes: u64,
    /// `slot_size`; before 3.1 all slots have [`RVALUE_BYTES`].
    pub slot_size: Option<usize>,
    /// `total_slots`.
    pub total_slots: usize,
    /// `free_slots`.
    pub free_slots: usize,
    /// `flags`, whose bit 3 is `in_tomb` up to 3.3; 3.4 has no tomb but a list of empty pages.
    pub tomb_flags: Option<usize>,
    /// `size_pool` (3.1 to 3.3) or `heap` (from 3.4 on): a pointer into `rb_objspace_t`.
    pub pool: Option<usize>,
    /// `body`, from 3.4 on.
    pub body: Option<usize>,
    /// `start`: the first slot.
    pub start: usize,
    /// `page_node`: next and previous page of the same heap; the list's head lies in `rb_objspace_t`.
    pub node: usize,
}

/// `sizeof(RVALUE)`, the smallest slot, in all versions.
pub const RVALUE_BYTES: u64 = 40;
/// Number of bytes read of a `struct heap_page`: the longest shape up to the end of `page_node`.
pub const PAGE_HEAD_BYTES: usize = 72;
/// `in_tomb` in `struct heap_page`'s flags (`before_sweep`, `has_remembered_objects`, `has_uncollectible…`, `in_tomb`).
pub const IN_TOMB: u32 = 1 << 3;

/// v2_7_8 gc.c:832-845; pages come from `posix_memalign`, so they lie inside malloc chunks.
pub(super) const PAGE_2_7: PageLayout = PageLayout { body_bytes: (16 << 10) - 40, ..PAGE_3_0 };
/// v3_0_7 gc.c:813-825; likewise inside malloc chunks.
pub(super) const PAGE_3_0: PageLayout = PageLayout {
    page_bytes: 16 << 10,
    body_bytes: 16 << 10,
    slot_size: None,
    total_slots: 0,
    free_slots: 2,
    tomb_flags: Some(8),
    pool: None,
    body: None,
    start: 24,
    node: 40,
};
/// v3_1_2 gc.c:855-903; from here on pages have their own mappings.
pub(super) const PAGE_3_1: PageLayout = PageLayout {
    page_bytes: 16 << 10,
    body_bytes: 16 << 10,
    slot_size: Some(0),
    total_slots: 2,
    free_slots: 4,
    tomb_flags: Some(12),
    pool: Some(16),
    body: None,
    start: 32,
    node: 48,
};
/// v3_2_11 gc.c:882-962: no `pinned_slots`, so the flags lie four bytes earlier.
pub(super) const PAGE_3_2: PageLayout =
    PageLayout { page_bytes: 64 << 10, body_bytes: 64 << 10, tomb_flags: Some(8), ..PAGE_3_1 };
/// v3_3_8 gc.c:961-1045.
pub(super) const PAGE_3_3: PageLayout = PageLayout { tomb_flags: Some(12), ..PAGE_3_2 };
/// v3_4_9 gc/default/default.c:609-730 and v4.0.5 gc/default/default.c:648-771.
pub(super) const PAGE_3_4: PageLayout =
    PageLayout { tomb_flags: None, body: Some(32), start: 40, node: 56, ..PAGE_3_3 };

/// The shapes to try for an unknown version, strictest first.
pub const PAGE_LAYOUTS: [PageLayout; 6] = [PAGE_3_4, PAGE_3_3, PAGE_3_2, PAGE_3_1, PAGE_3_0, PAGE_2_7];

/// Offsets in `rb_objspace_t` of the counters that are read, relative to the first size pool: `size_pools[0]`
/// (3.1 to 3.3), `heaps[0]` (from 3.4 on), `eden_heap`, followed by `tomb_heap` (before 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjspaceLayout {
    /// Number of size pools (`SIZE_POOL_COUNT`, `HEAP_COUNT`).
    pub pools: usize,
    /// Size of one pool.
    pub pool_bytes: u64,
    /// Offset in the pool of the head of eden's page list; only used where pages do not point to their pool.
    pub list_head: u64,
    /// Offset in a pool of eden's `total_pages`; `total_slots` follows.
    pub eden_totals: usize,
    /// The same for the tomb.
    pub tomb_totals: Option<usize>,
    /// Offset of `heap_pages`.
    pub heap_pages: usize,
    /// The type of `heap_pages.sorted`.
    pub list: PageList,
}

/// The list of all pages in address order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageList {
    /// A plain array, whose pointer is followed by `allocated_pages`, `allocatable_pages` and
    /// `sorted_length`.
    Array,
    /// `rb_darray` (darray.h).
    Darray,
}

/// v3_0_7 gc.c:649-760. rb_heap_t is 72 bytes from 2.7 to 3.3 and ends with total_pages, total_slots.
pub(super) const OBJSPACE_3_0: ObjspaceLayout = ObjspaceLayout {
    pools: 1,
    pool_bytes: 144,
    list_head: 8,
    eden_totals: 56,
    tomb_totals: Some(72 + 56),
    heap_pages: 200,
    list: PageList::Array,
};
/// v2_7_8 gc.c:657-760: freelist and using_page before the list; mark_func_data before the mark stack.
pub(super) const OBJSPACE_2_7: ObjspaceLayout =
    ObjspaceLayout { list_head: 24, heap_pages: 208, ..OBJSPACE_3_0 };
/// v3_1_2 gc.c:677-790: one pool of 160 bytes (USE_RVARGC 0), eden at 16.
pub(super) const OBJSPACE_3_1: ObjspaceLayout = ObjspaceLayout {
    pool_bytes: 160,
    eden_totals: 72,
    tomb_totals: Some(144),
    heap_pages: 216,
    ..OBJSPACE_3_0
};
/// v3_2_11 gc.c:700-830: five pools, eden at 56.
pub(super) const OBJSPACE_3_2: ObjspaceLayout = ObjspaceLayout {
    pools: 5,
    pool_bytes: 200,
    eden_totals: 112,
    tomb_totals: Some(184),
    heap_pages: 1056,
    ..OBJSPACE_3_0
};
/// v3_3_8 gc.c:770-900: eden at 80.
pub(super) const OBJSPACE_3_3: ObjspaceLayout = ObjspaceLayout {
    pools: 5,
    pool_bytes: 224,
    eden_totals: 136,
    tomb_totals: Some(208),
    heap_pages: 1176,
    ..OBJSPACE_3_0
};
/// v3_4_9 gc/default/default.c:420-520: rb_heap_t is a pool of 144 bytes itself, no tomb.
pub(super) const OBJSPACE_3_4: ObjspaceLayout = ObjspaceLayout {
    pools: 5,
    pool_bytes: 144,
    eden_totals: 128,
    tomb_totals: None,
    heap_pages: 792,
    list: PageList::Darray,
    ..OBJSPACE_3_0
};
/// v4.0.5 gc/default/default.c:460-570: slot_bits_mask added.
pub(super) const OBJSPACE_4_0: ObjspaceLayout = ObjspaceLayout {
    pools: 5,
    pool_bytes: 152,
    eden_totals: 136,
    tomb_totals: None,
    heap_pages: 832,
    list: PageList::Darray,
    ..OBJSPACE_3_0
};
