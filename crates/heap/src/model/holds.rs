//! The holders of the memory of a Ruby.

use super::{ClassKind, ClassRow, Held};
use serde::{Deserialize, Serialize};
use unbloat_untrusted::Untrusted;

/// The readable part of a graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Number of structures in malloc memory that were read.
    pub structures: u64,
    /// Number of structures that could not be read.
    pub unread: u64,
    /// Number of references to slots without an object, which changed while they were read.
    pub dangling: u64,
    /// Number of references that were dropped because there were too many.
    pub dropped: u64,
    /// Malloc bytes that objects own or that C code reaches; `None` if the allocator's heap was not walked.
    pub explained_bytes: Option<u64>,
}

/// A step of a path: the name by which the previous step holds it, and its description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// `@cache`, `::REGISTRY`, `[3]`; empty if it has no name.
    pub by: Untrusted,
    /// `Hash{49}`, `class Product`, `the VM`.
    pub what: Untrusted,
}

/// An object or chunk that retains much memory: freeing it would free everything that it retains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its description.
    pub what: Untrusted,
    /// The address of an object; `None` for memory of C code.
    pub address: Option<u64>,
    /// Bytes that would be freed with it, including its own.
    pub retained_bytes: u64,
    /// Number of objects that would be freed with it.
    pub retained_objects: u64,
    /// The shortest path from a root, the root first.
    pub path: Vec<Step>,
}

/// The holders of the memory of one Ruby.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    /// Number of objects that roots reach.
    pub reached: Held,
    /// Number of objects that no root reaches: garbage until a collection.
    pub waiting: Held,
    /// Malloc bytes that only C code reaches.
    pub foreign_bytes: u64,
    /// Number of references.
    pub references: u64,
    /// The readable part of the graph.
    pub coverage: Coverage,
    /// The largest holders, by retained bytes.
    pub holders: Vec<Holder>,
    /// Garbage by class.
    pub waiting_classes: Vec<ClassRow>,
    /// The answer to a question: the objects of a class, or the object at an address, by retained bytes.
    pub asked: Vec<Holder>,
}

/// A class as rows name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClassLabel {
    /// The kind of the row.
    pub kind: ClassKind,
    /// The name of the row.
    pub name: Untrusted,
}

/// The objects of a class that roots reach, and the one object that holds most of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldClass {
    /// The class.
    pub class: ClassLabel,
    /// Its reached objects.
    pub reached: Held,
    /// The holder, and the objects of the class that would be freed with it; `None` if no single object holds a
    /// large part.
    pub holder: Option<(Holder, Held)>,
}

/// One object for a heap dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DumpedObject {
    /// Its address.
    pub address: u64,
    /// Its type code: the low five bits of its flags.
    pub code: u8,
    /// Its class's address; 0 for none.
    pub class: u64,
    /// Bytes of its slot and of the malloc memory that it owns.
    pub bytes: u64,
    /// The addresses of the objects that it refers to, each once, without its class.
    pub references: Vec<u64>,
    /// A root reaches it.
    pub reached: bool,
    /// The name of a class or module, of an internal object's kind, or of a wrapped type.
    pub name: Option<Untrusted>,
}

/// A Ruby heap in the form of `ObjectSpace.dump_all`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapDump {
    /// The roots by name, with the addresses of the objects that each reaches directly.
    pub roots: Vec<(Untrusted, Vec<u64>)>,
    /// All objects, in order of address.
    pub objects: Vec<DumpedObject>,
}
