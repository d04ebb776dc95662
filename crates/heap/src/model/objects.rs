//! The live objects of a Ruby by class.

use super::{Duplicates, HolderSum, OfClass};
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;
use unbloat_untrusted::Untrusted;

/// Objects and their memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of their slots.
    pub slot_bytes: u64,
    /// Usable bytes of the chunks of malloc memory that they own; `None` if unknown.
    pub malloc_bytes: Option<u64>,
}

impl Held {
    /// Returns the bytes of slots and malloc memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.slot_bytes + self.malloc_bytes.unwrap_or(0)
    }
}

impl AddAssign for Held {
    fn add_assign(&mut self, other: Self) {
        self.objects += other.objects;
        self.slot_bytes += other.slot_bytes;
        self.malloc_bytes = match (self.malloc_bytes, other.malloc_bytes) {
            (None, bytes) | (bytes, None) => bytes,
            (Some(a), Some(b)) => Some(a + b),
        };
    }
}

/// The kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ClassKind {
    /// A class with a name.
    Class,
    /// Classes without a name, by the first superclass with one.
    Anonymous,
    /// Singleton classes: those of classes (`def self.x`) and of single objects.
    Singleton,
    /// Ruby's internal objects, by kind; included modules.
    Internal,
    /// Objects that Ruby hides from programs, by type or by wrapped type.
    Hidden,
    /// The class is unknown.
    Unknown,
}

impl ClassKind {
    /// All kinds.
    pub const ALL: [ClassKind; 6] = [
        ClassKind::Class,
        ClassKind::Anonymous,
        ClassKind::Singleton,
        ClassKind::Internal,
        ClassKind::Hidden,
        ClassKind::Unknown,
    ];

    /// Returns the kind with that name in JSON.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ClassKind::Class => "class",
            ClassKind::Anonymous => "anonymous",
            ClassKind::Singleton => "singleton",
            ClassKind::Internal => "internal",
            ClassKind::Hidden => "hidden",
            ClassKind::Unknown => "unknown",
        }
    }
}

/// Objects of one class name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassRow {
    /// The class's name; the kind of an internal object.
    pub name: Untrusted,
    /// The kind of the row.
    pub kind: ClassKind,
    /// Number of classes of this name: more than one after a reload, or if several have no name.
    pub classes: u64,
    /// Their objects.
    pub held: Held,
}

/// The location of strings' bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StringPlace {
    /// In the slot.
    Embedded,
    /// In its own malloc memory.
    Own,
    /// In another string's memory.
    Shared,
    /// In a mapped file: literals of C code.
    Static,
}

impl StringPlace {
    /// All places.
    pub const ALL: [StringPlace; 4] =
        [StringPlace::Embedded, StringPlace::Own, StringPlace::Shared, StringPlace::Static];

    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StringPlace::Embedded => "embedded",
            StringPlace::Own => "own",
            StringPlace::Shared => "shared",
            StringPlace::Static => "static",
        }
    }
}

/// Wrapped data of one type and class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataRow {
    /// `wrap_struct_name` of the type; `None` for data without a type (`struct RData`).
    pub data_type: Option<Untrusted>,
    /// The class's name.
    pub class: Untrusted,
    /// Its objects.
    pub held: Held,
}

/// The live objects of one Ruby.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByClass {
    /// The classes, largest first.
    pub classes: Vec<ClassRow>,
    /// Strings by the location of their bytes, in the order of [`StringPlace::ALL`], including hidden ones
    /// and subclasses.
    pub strings: Vec<(StringPlace, Held)>,
    /// Wrapped data by type, largest first.
    pub data: Vec<DataRow>,
    /// The holders of each class's objects, in the order of `classes`, the one with most bytes first; `None` if they were not
    /// asked for or are unknown.
    pub holders: Option<Vec<Vec<HolderSum>>>,
    /// The objects of one class; `None` if none was asked for.
    pub of_class: Option<OfClass>,
    /// Strings with equal contents; `None` if they were not asked for.
    pub duplicates: Option<Duplicates>,
}

impl ByClass {
    /// All objects.
    #[must_use]
    pub fn total(&self) -> Held {
        let mut total = Held::default();
        self.classes.iter().for_each(|row| total += row.held);
        total
    }
}
