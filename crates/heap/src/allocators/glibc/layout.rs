//! Offsets of the fields of glibc's structures, by version. 64-bit only; in bytes.
//!
//! The layout is never derived from a version string. It follows from the distance between `main_arena` and
//! its own `next` field, which the linker leaves in the file (see [`super::locate`]).

/// `sizeof (size_t)`, `SIZE_SZ`.
pub const WORD: u64 = 8;
/// `MALLOC_ALIGNMENT`.
pub const ALIGNMENT: u64 = 16;
/// `MINSIZE`: the smallest chunk.
pub const MIN_CHUNK: u64 = 32;
/// Offset of a chunk's user memory from its address.
pub const CHUNK_HEADER: u64 = 16;
/// `sizeof (struct malloc_chunk)`, which `mtrim` leaves at the start of a free chunk.
pub const FREE_CHUNK_HEADER: u64 = 48;
/// Size field bit: the previous chunk is in use.
pub const PREV_IN_USE: u64 = 1;
/// Size field bit: the chunk has its own mapping.
pub const IS_MMAPPED: u64 = 2;
/// All flag bits of a size field.
pub const FLAGS: u64 = 7;
/// `HEAP_MAX_SIZE` (malloc/arena.c), the alignment of heaps of non-main arenas.
pub const HEAP_MAX: u64 = 64 << 20;
/// `NFASTBINS`.
pub const FASTBINS: usize = 10;
/// Bit of `malloc_state.flags`: the main arena's memory is not contiguous.
pub const NONCONTIGUOUS: u32 = 2;

/// The layout of `struct malloc_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Layout {
    /// glibc 2.27 to 2.42: `mutex`, `flags`, `have_fastchunks`, `fastbinsY[10]`, `top`, `last_remainder`, `bins[254]`,
    /// `binmap[4]`, `next`, `next_free`, `attached_threads`, `system_mem`, `max_system_mem`.
    Fastbins,
    /// glibc 2.43 and newer: the same without `have_fastchunks` and `fastbinsY` (commits bf1015fb2d to bb5a4f5295).
    NoFastbins,
}

impl Layout {
    /// All known layouts.
    pub const ALL: [Layout; 2] = [Layout::Fastbins, Layout::NoFastbins];

    /// Returns the layout whose `next` field lies at this offset.
    #[must_use]
    pub fn with_next_at(offset: u64) -> Option<Self> {
        Layout::ALL.into_iter().find(|layout| layout.next() == offset)
    }

    /// Offset of `fastbinsY`.
    #[must_use]
    pub fn fastbins(self) -> Option<u64> {
        matches!(self, Layout::Fastbins).then_some(0x10)
    }

    /// Offset of `top`.
    #[must_use]
    pub fn top(self) -> u64 {
        match self {
            Layout::Fastbins => 0x60,
            Layout::NoFastbins => 0x08,
        }
    }

    /// Offset of `bins`.
    #[must_use]
    pub fn bins(self) -> u64 {
        self.top() + 0x10
    }

    /// Offset of `next`: after 254 bin pointers and 16 bytes of bin map.
    #[must_use]
    pub fn next(self) -> u64 {
        self.bins() + 254 * WORD + 16
    }

    /// Offset of `attached_threads`.
    #[must_use]
    pub fn attached_threads(self) -> u64 {
        self.next() + 0x10
    }

    /// Offset of `system_mem`.
    #[must_use]
    pub fn system_mem(self) -> u64 {
        self.next() + 0x18
    }

    /// `sizeof (struct malloc_state)`.
    #[must_use]
    pub fn arena_bytes(self) -> u64 {
        self.next() + 0x28
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes from the debugging information of Debian's libc6-dbg 2.36 and 2.43.
    #[test]
    fn offsets_agree_with_debugging_information() {
        assert_eq!((Layout::Fastbins.next(), Layout::Fastbins.arena_bytes()), (0x870, 2200));
        assert_eq!((Layout::NoFastbins.next(), Layout::NoFastbins.arena_bytes()), (0x818, 2112));
        assert_eq!(Layout::with_next_at(0x818), Some(Layout::NoFastbins));
        assert_eq!(Layout::with_next_at(0x900), None);
    }
}
