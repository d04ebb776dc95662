//! The CRuby heap as found in memory.

/// The type of an object in a slot: the low five bits of its flags word
/// (`enum ruby_value_type`, `include/ruby/internal/value_type.h`, the same from 2.7 to 4.0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names are CRuby's
pub enum RubyType {
    Object,
    Class,
    Module,
    Float,
    String,
    Regexp,
    Array,
    Hash,
    Struct,
    Bignum,
    File,
    Data,
    Match,
    Complex,
    Rational,
    Symbol,
    /// Internal objects: call information, iseqs, environments, …
    Imemo,
    Node,
    Iclass,
    Zombie,
    Moved,
    /// A value that no known Ruby uses.
    Unknown,
}

impl RubyType {
    /// CRuby's name of the type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RubyType::Object => "Object",
            RubyType::Class => "Class",
            RubyType::Module => "Module",
            RubyType::Float => "Float",
            RubyType::String => "String",
            RubyType::Regexp => "Regexp",
            RubyType::Array => "Array",
            RubyType::Hash => "Hash",
            RubyType::Struct => "Struct",
            RubyType::Bignum => "Bignum",
            RubyType::File => "File",
            RubyType::Data => "Data",
            RubyType::Match => "Match",
            RubyType::Complex => "Complex",
            RubyType::Rational => "Rational",
            RubyType::Symbol => "Symbol",
            RubyType::Imemo => "Imemo",
            RubyType::Node => "Node",
            RubyType::Iclass => "Iclass",
            RubyType::Zombie => "Zombie",
            RubyType::Moved => "Moved",
            RubyType::Unknown => "Unknown",
        }
    }
}

/// The slots of one size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SizePool {
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// Heap pages.
    pub pages: u64,
    /// Slots in them.
    pub slots: u64,
    /// Slots with an object.
    pub live_slots: u64,
    /// Slots that could not be read: their pages are swapped out or were never touched.
    pub unread_slots: u64,
    /// Pages whose slots are all free.
    pub empty_pages: u64,
    /// Pages in the tomb: empty, not used for new objects while eden has room. 0 from 3.4 on, which has no tomb.
    pub tomb_pages: u64,
    /// Slots on tomb pages.
    pub tomb_slots: u64,
}

impl SizePool {
    /// Slots that were read and have no object.
    #[must_use]
    pub fn free_slots(&self) -> u64 {
        self.slots.saturating_sub(self.live_slots + self.unread_slots)
    }
}

/// The CRuby heap of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RubyHeap {
    /// `ruby_version` as the program has it, for example `3.1.2`.
    pub version: String,
    /// Bytes of a heap page: 16 KiB up to 3.1, 64 KiB from 3.2 on.
    pub page_bytes: u64,
    /// One entry a slot size, ascending.
    pub pools: Vec<SizePool>,
    /// Pages that belong to no size pool: the list of empty pages that 3.4 and later keep.
    pub unassigned_pages: u64,
    /// Live slots by type.
    pub objects: Vec<(RubyType, u64)>,
    /// Internal objects by kind, by CRuby's name without `imemo_` (`enum imemo_type`, internal/imemo.h).
    pub imemos: Vec<(&'static str, u64)>,
    /// Malloc bytes by the type of the Ruby object that owns them; `None` when this version's layouts are not known.
    pub malloc_owned: Option<Vec<(RubyType, u64)>>,
    /// Pages that would be empty if all live slots of a pool were packed together.
    pub compactable_pages: u64,
    /// `heap_sorted_length` or what replaces it in this version.
    pub sorted_length: Option<u64>,
}

impl RubyHeap {
    /// Heap pages, in a pool or not: `GC.stat[:heap_allocated_pages]`.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.unassigned_pages + self.pools.iter().map(|pool| pool.pages).sum::<u64>()
    }

    /// Pages in use for objects: `GC.stat[:heap_eden_pages]`.
    #[must_use]
    pub fn eden_pages(&self) -> u64 {
        self.pools.iter().map(|pool| pool.pages - pool.tomb_pages).sum()
    }

    /// Live slots over slots in eden pages: how well the pages in use are filled. `None` without such slots.
    #[must_use]
    pub fn slot_use(&self) -> Option<f64> {
        let slots: u64 = self.pools.iter().map(|pool| pool.slots - pool.tomb_slots).sum();
        (slots > 0).then(|| self.live_slots() as f64 / slots as f64)
    }

    /// Eden pages over sorted length: how many of the places in the list of pages are in use for objects. `None` where
    /// the sorted length is not known.
    #[must_use]
    pub fn page_use(&self) -> Option<f64> {
        let places = self.sorted_length.filter(|&places| places > 0)?;
        Some(self.eden_pages() as f64 / places as f64)
    }

    /// Slots of all pools: `GC.stat[:heap_available_slots]`.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.pools.iter().map(|pool| pool.slots).sum()
    }

    /// Slots with an object.
    #[must_use]
    pub fn live_slots(&self) -> u64 {
        self.pools.iter().map(|pool| pool.live_slots).sum()
    }
    /// Slots without an object.
    #[must_use]
    pub fn free_slots(&self) -> u64 {
        self.pools.iter().map(SizePool::free_slots).sum()
    }
}
