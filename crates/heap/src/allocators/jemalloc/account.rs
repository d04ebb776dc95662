//! The bytes of every extent by use: live, cached, trimmable, stranded, overhead.
//!
//! | state | resident bytes are |
//! |---|---|
//! | slab | live, cached, stranded (of them holes: whole free pages), overhead behind the last region |
//! | large object | live or cached; overhead the pad |
//! | dirty, muzzy | trimmable: a purge returns them |
//! | retained | stranded: none, unless the kernel has made a huge page there, and a purge leaves that |
//! | taken out, changing | trimmable: on their way to be given back |

use super::caches::Caches;
use super::extent::{Purpose, Slab, State};
use super::sizes::SizeClass;
use super::slabs::{Marks, Regions, SlabBytes};
use super::walk::Placed;
use std::ops::AddAssign;
use unbloat_process::PAGE_SIZE;

/// Resident bytes by use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Blocks that the program holds.
    pub live: u64,
    /// Blocks in thread caches.
    pub cached: u64,
    /// Of them, in caches of threads that a fork left behind.
    pub forgotten: u64,
    /// What a purge returns.
    pub trimmable: u64,
    /// Free, but not to be returned.
    pub stranded: u64,
    /// Of them, on pages on which nothing is in use.
    pub holes: u64,
    /// jemalloc's own, and what no block uses.
    pub overhead: u64,
    /// Of which it could not be settled what they are.
    pub unsettled: u64,
}

impl Tally {
    /// All of them. Forgotten bytes are among the cached, holes among the stranded.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.live + self.cached + self.trimmable + self.stranded + self.overhead + self.unsettled
    }
}

impl Tally {
    /// Without bytes that somebody else accounts for: they lie in what looks like a block of the program.
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

/// What the blocks of an extent are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// Regions of a slab, and whose they are that are not live.
    Regions(Box<Marks>),
    /// One object.
    Object(Holder),
    /// Nothing.
    Nothing,
}

/// Who holds an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The program.
    Program,
    /// A thread cache.
    Cache,
    /// The cache of a thread that a fork left behind.
    ForgottenCache,
    /// jemalloc itself.
    Itself,
}

/// What tells blocks apart that look allocated: those that caches hold, and jemalloc's own.
pub struct Knowledge<'a> {
    /// Blocks in caches of threads.
    pub cached: &'a Caches,
    /// Blocks in caches of threads that are no more.
    pub forgotten: &'a Caches,
    /// Addresses inside of jemalloc's own blocks, sorted.
    pub own: &'a [u64],
    /// Bytes behind each large object.
    pub pad: u64,
}

impl Knowledge<'_> {
    /// What an extent holds.
    #[must_use]
    pub fn contents(&self, placed: &Placed) -> Contents {
        let extent = &placed.extent;
        match &extent.purpose {
            Purpose::Slab(slab) => {
                let mut marks = Marks { free: Regions::free(slab), ..Marks::default() };
                marks.forgotten = held_in(self.forgotten, placed, slab);
                marks.cached = held_in(self.cached, placed, slab).and(&marks.forgotten);
                for own in self.own_within(placed) {
                    marks.own.insert((own - extent.base) / slab.region_bytes);
                }
                marks.own = marks.own.without(&marks.free).without(&marks.cached);
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

    /// Resident bytes of an extent by use.
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
                let object = self.object_resident(placed);
                let overhead = resident - object;
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

    /// Resident bytes of an object: of its extent without what lies before and behind it.
    fn object_resident(&self, placed: &Placed) -> u64 {
        let extent = &placed.extent;
        let end = extent.offset + extent.usable_bytes(self.pad);
        let behind = extent.bytes.saturating_sub(end);
        let before = if placed.first_resident { extent.offset } else { 0 };
        // Less than a page is behind a large object; behind a small one that is alone, the rest of its pages.
        let after = if placed.last_resident { behind.min(PAGE_SIZE) } else { 0 };
        placed.resident_bytes.saturating_sub(before + after).min(extent.usable_bytes(self.pad))
    }
}

/// The regions of a slab that caches hold. A block that is free was given back meanwhile.
fn held_in(caches: &Caches, placed: &Placed, slab: &Slab) -> Regions {
    let (start, end) = (placed.extent.base, placed.extent.end());
    let first = caches.held.partition_point(|&(pointer, _)| pointer < start);
    let mut regions = Regions::default();
    for &(pointer, class) in caches.held[first..].iter().take_while(|(pointer, _)| *pointer < end) {
        let (region, rest) = ((pointer - start) / slab.region_bytes, (pointer - start) % slab.region_bytes);
        if rest == 0 && class.bytes() == slab.region_bytes && !slab.is_free(region) {
            regions.insert(region);
        }
    }
    regions
}
