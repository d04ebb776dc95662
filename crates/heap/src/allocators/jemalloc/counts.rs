//! The bytes of an arena as jemalloc counts them, resident or not, and the caches left behind by a fork.

use super::account::{Contents, Holder};
use super::extent::{Purpose, State};
use super::walk::Placed;
use std::ops::AddAssign;

/// Bytes as jemalloc counts them, resident or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Extents in use.
    pub extents: u64,
    /// The part of `extents` that is slabs.
    pub slabs: u64,
    /// Blocks in use and in caches (`stats.allocated`).
    pub allocated: u64,
    /// The part of `allocated` in thread caches.
    pub cached: u64,
    /// The part of `allocated` that jemalloc uses itself (`internal`).
    pub internal: u64,
    /// Pages of extents in use (`stats.active`).
    pub active: u64,
    /// Freed pages.
    pub dirty: u64,
    /// Freed pages that the kernel may reclaim.
    pub muzzy: u64,
    /// Address space without pages.
    pub retained: u64,
    /// Metadata that was handed out (`base`).
    pub base: u64,
    /// Metadata on pages that were touched at least once, by jemalloc's count.
    pub base_resident: u64,
}

/// Blocks in caches of threads left behind by a fork: they stay allocated forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forgotten {
    /// Number of threads.
    pub threads: u64,
    /// Number of blocks that are still allocated.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Counts {
    /// Adds an extent.
    pub(super) fn add(&mut self, placed: &Placed, contents: &Contents, pad: u64) {
        let extent = &placed.extent;
        match extent.state {
            State::Dirty => self.dirty += extent.bytes,
            State::Muzzy => self.muzzy += extent.bytes,
            State::Retained => self.retained += extent.bytes,
            State::Transition | State::Merging => {}
            State::Active => {
                self.extents += 1;
                self.active += extent.bytes;
            }
        }
        match (contents, &extent.purpose) {
            _ if placed.cut => {}
            (Contents::Regions(marks), Purpose::Slab(slab)) => {
                self.slabs += 1;
                self.allocated += (slab.regions - slab.free_regions()) * slab.region_bytes;
                self.cached += marks.cached.len() * slab.region_bytes;
                self.internal += marks.own.len() * slab.region_bytes;
            }
            (Contents::Object(holder), _) => {
                let bytes = extent.usable_bytes(pad);
                self.allocated += bytes;
                match holder {
                    Holder::Cache | Holder::ForgottenCache => self.cached += bytes,
                    Holder::Itself => self.internal += bytes,
                    Holder::Program => {}
                }
            }
            _ => {}
        }
    }
}

impl Forgotten {
    pub(super) fn add(&mut self, placed: &Placed, contents: &Contents, pad: u64) {
        let (blocks, bytes) = match (contents, &placed.extent.purpose) {
            (Contents::Regions(marks), Purpose::Slab(slab)) => {
                (marks.forgotten.len(), marks.forgotten.len() * slab.region_bytes)
            }
            (Contents::Object(Holder::ForgottenCache), _) => (1, placed.extent.usable_bytes(pad)),
            _ => (0, 0),
        };
        self.blocks += blocks;
        self.bytes += bytes;
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.extents += other.extents;
        self.slabs += other.slabs;
        self.allocated += other.allocated;
        self.cached += other.cached;
        self.internal += other.internal;
        self.active += other.active;
        self.dirty += other.dirty;
        self.muzzy += other.muzzy;
        self.retained += other.retained;
        self.base += other.base;
        self.base_resident += other.base_resident;
    }
}
