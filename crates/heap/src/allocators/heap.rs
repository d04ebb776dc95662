//! The interface of every allocator's walker: what it is given and what it yields.

use super::observer::Observer;
use crate::model::{AllocatorKind, Arena, Bin, Category, Note, Settings};
use std::ops::Range;
use std::time::Duration;
use unbloat_process::{Maps, Memory, Pid, Result};

/// Input of a walker.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    /// The process.
    pub pid: Pid,
    /// Its memory.
    pub memory: &'a dyn Memory,
    /// Its mappings.
    pub maps: &'a Maps,
    /// Sorted, disjoint ranges that somebody else accounts for: Ruby's heap pages.
    pub claims: &'a [Range<u64>],
    /// Stop the process while its heap is read.
    pub stop: bool,
}

/// A check to be made once everything else has been read, because it may take time.
pub type Recheck = Box<dyn FnOnce(&dyn Memory, &Maps) -> Result<Vec<Note>>>;

/// Result of a walk.
#[derive(Default)]
pub struct Walked {
    /// The heap was read: what it does not hold is 0 and not unknown.
    pub whole: bool,
    /// Resident bytes.
    pub bytes: Vec<(Category, u64)>,
    /// All memory that the walk accounts for.
    pub ranges: Vec<Range<u64>>,
    /// Stacks of threads, as far as the walk came across them.
    pub stacks: Vec<Range<u64>>,
    /// One entry an arena.
    pub arenas: Vec<Arena>,
    /// One entry a size class whose slabs strand memory.
    pub bins: Vec<Bin>,
    /// The settings in force.
    pub settings: Option<Settings>,
    /// Gaps of the result, as notes.
    pub notes: Vec<Note>,
    /// How long the process was stopped.
    pub stopped: Duration,
    /// A check to be made at the end of the look.
    pub recheck: Option<Recheck>,
}

/// What a release call would return now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prediction {
    /// Resident bytes.
    pub bytes: u64,
    /// Why the figure is only about right.
    pub rough: Option<String>,
    /// Damage for which the allocator would end the program.
    pub damage: Option<String>,
}

/// The heap of one allocator in one process.
pub trait Heap {
    /// Whose it is.
    fn kind(&self) -> AllocatorKind;

    /// Walks it once, and tells the observer of each block and byte.
    ///
    /// # Errors
    /// The process is gone or may not be read.
    fn walk(&self, look: &Look<'_>, observer: &mut dyn Observer) -> Result<Walked>;

    /// Predicts what its release call would return.
    ///
    /// # Errors
    /// The process is gone or may not be read.
    fn predict(&self, look: &Look<'_>) -> Result<Prediction>;
}
