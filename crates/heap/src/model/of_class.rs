//! The objects of one class: their sizes, and the largest of them.

use super::Held;
use serde::{Deserialize, Serialize};
use unbloat_untrusted::Untrusted;

/// Objects of similar size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeGroup {
    /// Upper limit of the bytes of slot and malloc memory of each object, a power of two. The lower limit is half of it.
    pub up_to_bytes: u64,
    /// The objects.
    pub held: Held,
}

/// The encoding of a string, by its number in CRuby.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Encoding(pub u8);

impl Encoding {
    /// Ruby's name of the encoding (encindex.h, the same from 2.7 to 4.0); `other` for one that is not built in.
    #[must_use]
    pub fn name(self) -> &'static str {
        const BUILT_IN: [&str; 12] = [
            "ASCII-8BIT",
            "UTF-8",
            "US-ASCII",
            "UTF-16BE",
            "UTF-16LE",
            "UTF-32BE",
            "UTF-32LE",
            "UTF-16",
            "UTF-32",
            "UTF8-MAC",
            "EUC-JP",
            "Windows-31J",
        ];
        BUILT_IN.get(usize::from(self.0)).copied().unwrap_or("other")
    }
}

/// One large object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeObject {
    /// Its address.
    pub address: u64,
    /// Its memory.
    pub held: Held,
    /// Bytes of a string, elements of an array, pairs of a hash; `None` for other types.
    pub length: Option<u64>,
    /// The encoding of a string.
    pub encoding: Option<Encoding>,
    /// The start of a string's text, or of a regular expression's; `None` unless it was asked for.
    pub contents: Option<Untrusted>,
}

/// The objects of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfClass {
    /// The name that was asked for.
    pub name: Untrusted,
    /// The objects.
    pub held: Held,
    /// The objects by size, the smallest first. Groups without objects are omitted.
    pub sizes: Vec<SizeGroup>,
    /// The largest objects, the largest first.
    pub largest: Vec<LargeObject>,
}
