//! The CRuby heap as found in memory.

use serde::{Deserialize, Serialize};
use unbloat_process::sandbox::names::{self, Name};

/// Defines the types with their names in CRuby and in the census.
macro_rules! ruby_types {
    ($($(#[$doc:meta])* $variant:ident $category:literal),+ $(,)?) => {
        /// The type of an object in a slot: the low five bits of its flags word
        /// (`enum ruby_value_type`, `include/ruby/internal/value_type.h`, the same from 2.7 to 4.0).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[allow(missing_docs)] // the names are CRuby's
        pub enum RubyType {
            $($(#[$doc])* $variant,)+
        }

        impl RubyType {
            /// All types.
            pub const ALL: [RubyType; [$($category),+].len()] = [$(RubyType::$variant),+];

            /// CRuby's name of the type.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(RubyType::$variant => stringify!($variant),)+ }
            }

            /// The name of its category in the census.
            #[must_use]
            pub fn category_name(self) -> &'static str {
                match self { $(RubyType::$variant => $category,)+ }
            }
        }
    };
}

ruby_types! {
    Object "ruby_live_object",
    Class "ruby_live_class",
    Module "ruby_live_module",
    Float "ruby_live_float",
    String "ruby_live_string",
    Regexp "ruby_live_regexp",
    Array "ruby_live_array",
    Hash "ruby_live_hash",
    Struct "ruby_live_struct",
    Bignum "ruby_live_bignum",
    File "ruby_live_file",
    Data "ruby_live_data",
    Match "ruby_live_match",
    Complex "ruby_live_complex",
    Rational "ruby_live_rational",
    Symbol "ruby_live_symbol",
    /// Internal objects: call information, iseqs, environments, …
    Imemo "ruby_live_imemo",
    Node "ruby_live_node",
    Iclass "ruby_live_iclass",
    Zombie "ruby_live_zombie",
    Moved "ruby_live_moved",
    /// A value that no known Ruby uses.
    Unknown "ruby_live_unknown",
}

impl RubyType {
    /// The type with this code: the low five bits of an object's flags.
    #[must_use]
    pub fn of_code(code: u8) -> Self {
        match crate::ruby::slots::category(u64::from(code)) {
            super::Category::RubyLive(ruby_type) => ruby_type,
            _ => RubyType::Unknown,
        }
    }
}

/// The slots of one size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizePool {
    /// Size of a slot.
    pub slot_bytes: u64,
    /// Number of heap pages.
    pub pages: u64,
    /// Number of slots in them.
    pub slots: u64,
    /// Number of slots with an object.
    pub live_slots: u64,
    /// Number of slots that could not be read, because their pages are swapped out or were never touched.
    pub unread_slots: u64,
    /// Number of pages whose slots are all free.
    pub empty_pages: u64,
    /// Number of pages in the tomb: empty, and unused as long as eden has room. 0 from 3.4 on, which has no
    /// tomb.
    pub tomb_pages: u64,
    /// Number of slots on tomb pages.
    pub tomb_slots: u64,
}

impl SizePool {
    /// Returns the number of slots that were read and have no object.
    #[must_use]
    pub fn free_slots(&self) -> u64 {
        self.slots.saturating_sub(self.live_slots + self.unread_slots)
    }
}

/// The CRuby heap of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RubyHeap {
    /// `ruby_version` of the program, for example `3.1.2`.
    pub version: String,
    /// Size of a heap page: 16 KiB up to 3.1, 64 KiB from 3.2 on.
    pub page_bytes: u64,
    /// One entry per slot size, ascending.
    pub pools: Vec<SizePool>,
    /// Number of pages that belong to no size pool: the list of empty pages that 3.4 and later keep.
    pub unassigned_pages: u64,
    /// Live slots by type.
    pub objects: Vec<(RubyType, u64)>,
    /// Internal objects by kind, by CRuby's name without `imemo_` (`enum imemo_type`, internal/imemo.h).
    #[serde(with = "names::counted")]
    pub imemos: Vec<(Name, u64)>,
    /// Malloc bytes by the type of the owning Ruby object; `None` if this version's layouts are unknown.
    pub malloc_owned: Option<Vec<(RubyType, u64)>>,
    /// Number of pages that would become empty if all live slots of a pool were packed together.
    pub compactable_pages: u64,
    /// `heap_sorted_length`, or its replacement in this version.
    pub sorted_length: Option<u64>,
}

impl RubyHeap {
    /// Returns the number of heap pages, in a pool or not: `GC.stat[:heap_allocated_pages]`.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.unassigned_pages + self.pools.iter().map(|pool| pool.pages).sum::<u64>()
    }

    /// Returns the number of pages in use for objects: `GC.stat[:heap_eden_pages]`.
    #[must_use]
    pub fn eden_pages(&self) -> u64 {
        self.pools.iter().map(|pool| pool.pages - pool.tomb_pages).sum()
    }

    /// Returns live slots over slots in eden pages: the fill rate of the pages in use. `None` without such
    /// slots.
    #[must_use]
    pub fn slot_use(&self) -> Option<f64> {
        let slots: u64 = self.pools.iter().map(|pool| pool.slots - pool.tomb_slots).sum();
        (slots > 0).then(|| self.live_slots() as f64 / slots as f64)
    }

    /// Returns eden pages over sorted length: the share of entries in the page list that are in use for
    /// objects. `None` if the sorted length is unknown.
    #[must_use]
    pub fn page_use(&self) -> Option<f64> {
        let places = self.sorted_length.filter(|&places| places > 0)?;
        Some(self.eden_pages() as f64 / places as f64)
    }

    /// Returns the number of slots in all pools: `GC.stat[:heap_available_slots]`.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.pools.iter().map(|pool| pool.slots).sum()
    }

    /// Returns the number of slots with an object.
    #[must_use]
    pub fn live_slots(&self) -> u64 {
        self.pools.iter().map(|pool| pool.live_slots).sum()
    }
    /// Returns the number of slots without an object.
    #[must_use]
    pub fn free_slots(&self) -> u64 {
        self.pools.iter().map(SizePool::free_slots).sum()
    }
}
