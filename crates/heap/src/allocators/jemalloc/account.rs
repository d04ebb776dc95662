//! The bytes of every extent by use: live, cached, trimmable, stranded, overhead.
//!
//! | state | resident bytes are |
//! |---|---|
//! | slab | live, cached, stranded (of them holes: whole free pages), overhead after the last region |
//! | large object | live or cached; the pad is overhead |
//! | dirty, muzzy | trimmable: a purge returns them |
//! | retained | stranded: none, unless the kernel placed a huge page there, which a purge leaves alone |
//! | taken out, changing | trimmable: about to be returned |

use super::caches::Caches;
use super::extent::{Purpose, Slab, State};
use super::sizes::SizeClass;
use super::slabs::{Marks, Regions, SlabBytes};
use super::walk::Placed;
use std::ops::AddAssign;

/// Resident bytes by use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Blocks held by the program.
    pub live: u64,
    /// Blocks in thread caches.
    pub cached: u64,
    /// The part of `cached` in caches of threads left behind by a fork.
    pub forgotten: u64,
    /// Bytes that a purge returns.
    pub trimmable: u64,
    /// Free, but not returnable.
    pub stranded: u64,
    /// The part of `stranded` on pages without anything in use.
    pub holes: u64,
    /// jemalloc's own data, and bytes that no block uses.
    pub overhead: u64,
    /// Bytes whose use could not be settled.
    pub unsettled: u64,
}

impl Tally {
    /// The sum. Forgotten bytes are part of the cached ones, holes part of the stranded ones.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.live + self.cached + self.trimmable + self.stranded + self.overhead + self.unsettled
    }
}

impl Tally {
    /// Subtracts bytes accounted for elsewhere, which lie in what looks like a block of the program.
    #[must_use]
    pub fn without(mut self, mut bytes: u64) -> Self {
        let parts =
            [&mut self.live, &mut self.cached, &mut self.overhead, &mut self.trimmable, &mut self.stranded];
        for part in parts {
            let taken = bytes.min(*part);
            *part -= taken;
            bytes -= taken;
        }
        self.forgotten = self.forgotten.min(self.cached);
        self.holes = self.holes.min(self.stranded);
        self
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.live += other.live;
        self.cached += other.cached;
        self.forgotten += other.forgotten;
        self.trimmable += other.trimmable;
        self.stranded += other.stranded;
        self.holes += other.holes;
        self.overhead += other.overhead;
        self.unsettled += other.unsettled;
    }
}

/// The blocks of an extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// The regions of a slab, with marks for those that are not live.
    Regions(Box<Marks>),
    /// One object.
    Object(Holder),
    /// Nothing.
    Nothing,
}

/// The holder of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The program.
    Program,
    /// A thread cache.
    Cache,
    /// The cache of a thread left behind by a fork.
    ForgottenCache,
    /// jemalloc itself.
    Itself,
}

/// Knowledge that tells blocks apart that look allocated: those held by caches, and jemalloc's own.
pub struct Knowledge<'a> {
    /// Blocks in caches of threads.
    pub cached: &'a Caches,
    /// Blocks in caches of threads that no longer exist.
    pub forgotten: &'a Caches,
    /// Addresses inside jemalloc's own blocks, sorted.
    pub own: &'a [u64],
    /// Bytes after each large object.
    pub pad: u64,
}

impl Knowledge<'_> {
    /// Returns the contents of an extent.
    #[must_use]
    pub fn contents(&self, placed: &Placed) -> Contents {
        let extent = &placed.extent;
        match &extent.purpose {
            Purpose::Slab(slab) => {
                let mut marks = Marks { free: Regions::free(slab), ..Marks::default() };
                marks.forgotten = held_in(self.forgotten, placed, slab);
                marks.cached = held_in(self.cached, placed, slab).and(&marks.forgotten);
                for own in self.own_within(placed) {
                    marks.own.insert((own - extent.base) / slab.region_bytes, slab);
                }
                marks.own = std::mem::take(&mut marks.own).without(&marks.free).without(&marks.cached);
                Contents::Regions(Box::new(marks))
            }
            Purpose::Object(class) => Contents::Object(self.holder(placed, *class)),
            Purpose::TakenOut | Purpose::Free => Contents::Nothing,
        }
    }

    fn holder(&self, placed: &Placed, class: SizeClass) -> Holder {
        let object = (placed.extent.base + placed.extent.offset, class);
        if self.own_within(placed).next().is_some() {
            Holder::Itself
        } else if self.cached.held.binary_search(&object).is_ok() {
            Holder::Cache
        } else if self.forgotten.held.binary_search(&object).is_ok() {
            Holder::ForgottenCache
        } else {
            Holder::Program
        }
    }

    fn own_within<'a>(&'a self, placed: &Placed) -> impl Iterator<Item = u64> + use<'a> {
        let (start, end) = (placed.extent.base, placed.extent.end());
        let first = self.own.partition_point(|&own| own < start);
        self.own[first..].iter().copied().take_while(move |&own| own < end)
    }

    /// Returns the resident bytes of an extent by use.
    #[must_use]
    pub fn tally(&self, placed: &Placed, contents: &Contents) -> Tally {
        let resident = placed.resident_bytes;
        let extent = &placed.extent;
        if placed.cut {
            return Tally { unsettled: resident, ..Tally::default() };
        }
        match (contents, &extent.purpose, &placed.pages) {
            (Contents::Regions(marks), Purpose::Slab(slab), Some(pages)) => {
                let bytes = SlabBytes::of(slab, marks, pages);
                Tally {
                    live: bytes.live,
                    cached: bytes.cached,
                    forgotten: bytes.forgotten,
                    stranded: bytes.free,
                    holes: bytes.holes,
                    overhead: bytes.own + bytes.tail,
                    ..Tally::default()
                }
            }
            (Contents::Object(holder), ..) => {
                let object = placed.object_bytes;
                let overhead = resident.saturating_sub(object);
                let tally = Tally { overhead, ..Tally::default() };
                match holder {
                    Holder::Program => Tally { live: object, ..tally },
                    Holder::Cache => Tally { cached: object, ..tally },
                    Holder::ForgottenCache => Tally { cached: object, forgotten: object, ..tally },
                    Holder::Itself => Tally { overhead: resident, ..Tally::default() },
                }
            }
            _ if extent.state == State::Retained => Tally { stranded: resident, ..Tally::default() },
            _ => Tally { trimmable: resident, ..Tally::default() },
        }
    }
}

/// Returns the regions of a slab that caches hold. A block that is free was returned meanwhile.
fn held_in(caches: &Caches, placed: &Placed, slab: &Slab) -> Regions {
    let (start, end) = (placed.extent.base, placed.extent.end());
    let first = caches.held.partition_point(|&(pointer, _)| pointer < start);
    let mut regions = Regions::default();
    for &(pointer, class) in caches.held[first..].iter().take_while(|(pointer, _)| *pointer < end) {
        let (region, rest) = ((pointer - start) / slab.region_bytes, (pointer - start) % slab.region_bytes);
        if rest == 0 && class.bytes() == slab.region_bytes && !slab.is_free(region) {
            regions.insert(region, slab);
        }
    }
    regions
}
