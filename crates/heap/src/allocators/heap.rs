//! The interface of every allocator's walker: its input and its result.

use super::observer::Observer;
use crate::model::{AllocatorKind, Arena, Bin, Category, Note, Settings};
use std::ops::Range;
use std::time::Duration;
use unbloat_process::{Maps, Memory, Pid, Result};

/// The input of a walker.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    /// The process to read.
    pub pid: Pid,
    /// Its memory.
    pub memory: &'a dyn Memory,
    /// Its mappings.
    pub maps: &'a Maps,
    /// Sorted, disjoint ranges accounted for elsewhere: Ruby's heap pages.
    pub claims: &'a [Range<u64>],
    /// Stop the process while its heap is read.
    pub stop: bool,
}

/// A check to run once everything else has been read, because it may take time.
pub type Recheck = Box<dyn FnOnce(&dyn Memory, &Maps) -> Result<Vec<Note>>>;

/// The result of a walk.
#[derive(Default)]
pub struct Walked {
    /// The whole heap was read, so a category without bytes is 0 rather than unknown.
    pub whole: bool,
    /// Resident bytes by category.
    pub bytes: Vec<(Category, u64)>,
    /// All memory that the walk accounts for.
    pub ranges: Vec<Range<u64>>,
    /// Thread stacks that the walk found on its way.
    pub stacks: Vec<Range<u64>>,
    /// One entry per arena.
    pub arenas: Vec<Arena>,
    /// One entry per size class whose slabs strand memory.
    pub bins: Vec<Bin>,
    /// The settings in force.
    pub settings: Option<Settings>,
    /// Notes on everything missing from the result.
    pub notes: Vec<Note>,
    /// Time for which the process was stopped.
    pub stopped: Duration,
    /// A check to run at the end of the inspection.
    pub recheck: Option<Recheck>,
}

/// The predicted effect of a release call made now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prediction {
    /// Resident bytes that it would return.
    pub bytes: u64,
    /// The reason why `bytes` is only an estimate, if it is one.
    pub rough: Option<String>,
    /// Heap damage that would make the allocator abort the program.
    pub damage: Option<String>,
}

/// The heap of one allocator in one process.
pub trait Heap {
    /// The allocator that owns the heap.
    fn kind(&self) -> AllocatorKind;

    /// Walks the heap once and reports each block and byte to the observer.
    ///
    /// # Errors
    /// The process is gone or may not be read.
    fn walk(&self, look: &Look<'_>, observer: &mut dyn Observer) -> Result<Walked>;

    /// Predicts how much the allocator's release call would return.
    ///
    /// # Errors
    /// The process is gone or may not be read.
    fn predict(&self, look: &Look<'_>) -> Result<Prediction>;
}
