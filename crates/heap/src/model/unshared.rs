//! The pages that a worker inherited and no longer shares, by what was written on them.

use super::{ClassKind, CodePart};
use serde::{Deserialize, Serialize};
use unbloat_process::Pid;
use unbloat_untrusted::Untrusted;

/// The kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CauseKind {
    /// A slot has another object than before: it was free, or its object was collected.
    NewObjects,
    /// A slot lost its object, or the list of free slots leads through it.
    FreedSlots,
    /// The collector has marked an object as older, and nothing else of it was written.
    AgedObjects,
    /// An object was written.
    WrittenObjects,
    /// The collector's words at the start of a page of the heap.
    HeapPages,
    /// Malloc memory of loaded code: inline caches, instruction sequences, tables of classes.
    Code,
    /// Malloc memory of other objects.
    MallocBlocks,
    /// Malloc memory that no object owns: C libraries, the VM itself.
    OtherBlocks,
    /// The allocator's own words, and freed memory.
    Allocator,
    /// Anonymous memory outside of Ruby's heap and malloc: stacks of threads and fibers, JIT code.
    OtherMemory,
    /// The contents are the same in both: written and written back.
    Same,
}

impl CauseKind {
    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CauseKind::NewObjects => "new_objects",
            CauseKind::FreedSlots => "freed_slots",
            CauseKind::AgedObjects => "aged_objects",
            CauseKind::WrittenObjects => "written_objects",
            CauseKind::HeapPages => "heap_pages",
            CauseKind::Code => "code",
            CauseKind::MallocBlocks => "malloc_blocks",
            CauseKind::OtherBlocks => "other_blocks",
            CauseKind::Allocator => "allocator",
            CauseKind::OtherMemory => "other_memory",
            CauseKind::Same => "same",
        }
    }

    /// The way to prevent such writes.
    #[must_use]
    pub fn remedy(self) -> Remedy {
        match self {
            CauseKind::NewObjects | CauseKind::FreedSlots => Remedy::FillPages,
            CauseKind::AgedObjects | CauseKind::HeapPages => Remedy::Age,
            CauseKind::WrittenObjects | CauseKind::Code => Remedy::WarmUp,
            CauseKind::MallocBlocks | CauseKind::OtherBlocks | CauseKind::Allocator => Remedy::Refork,
            CauseKind::OtherMemory | CauseKind::Same => Remedy::Nothing,
        }
    }
}

/// A way to keep pages shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Remedy {
    /// Load the application before the fork.
    Preload,
    /// Compact the heap before the fork, so that new objects lie on new pages.
    FillPages,
    /// Collect often enough before the fork, so that objects are old already.
    Age,
    /// Run code before the fork, so that caches are filled already.
    WarmUp,
    /// Fork again from a worker that has warmed up.
    Refork,
    /// None is known.
    Nothing,
}

impl Remedy {
    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Remedy::Preload => "preload",
            Remedy::FillPages => "fill_pages",
            Remedy::Age => "age",
            Remedy::WarmUp => "warm_up",
            Remedy::Refork => "refork",
            Remedy::Nothing => "nothing",
        }
    }
}

/// A cause: the kind of a write, and its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cause {
    /// The kind.
    pub kind: CauseKind,
    /// Of objects and their malloc memory: the kind of the class.
    pub class: Option<ClassKind>,
    /// The name of the class, or of the gem.
    pub name: Untrusted,
    /// Of objects: the collector counts them as old.
    pub old: Option<bool>,
    /// Of code: the part.
    pub part: Option<CodePart>,
}

/// The pages un-shared by one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseRow {
    /// The cause.
    pub cause: Cause,
    /// Bytes of pages; one with several causes is divided among them by the words written.
    pub bytes: u64,
    /// Bytes of pages that have no other cause: without it they would still be shared.
    pub alone_bytes: u64,
}

/// The pages that a worker inherited, shared or not, and the causes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unshared {
    /// The process that forked it.
    pub parent: Pid,
    /// Resident private bytes of the worker, as the kernel counts them; `None` if it does not say.
    pub private_bytes: Option<u64>,
    /// Bytes still on common pages.
    pub shared_bytes: u64,
    /// Bytes of which each has its own page.
    pub unshared_bytes: u64,
    /// The causes, largest first. Their bytes sum up to `unshared_bytes`, unless pages could not be read.
    pub causes: Vec<CauseRow>,
    /// Bytes of pages that have causes of one remedy only, by remedy, without those of new objects, which need memory
    /// elsewhere: what it would have saved at least.
    pub by_remedy: Vec<(Remedy, u64)>,
    /// Bytes of pages that went away or could not be read.
    pub unread_bytes: u64,
}
