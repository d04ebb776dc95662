//! Reports a survey's findings byte range by byte range and block by block, in address order.
//!
//! Used for the heap map and to match blocks with their owners. The census does not need it: it counts in
//! bits ([`super::slabs`]), which is many times faster.

use super::account::{Contents, Holder, Knowledge};
use super::extent::{Purpose, Slab, State};
use super::slabs::Marks;
use super::walk::Placed;
use crate::model::Category;
use std::ops::Range;

/// A receiver of extents, blocks and bytes.
pub trait Listener {
    /// Receives the extents of an arena; the ranges that follow lie in them.
    fn extent(&mut self, range: Range<u64>, arena: u32) {
        let _ = (range, arena);
    }

    /// Receives a block held by the program, by its usable addresses.
    fn block(&mut self, usable: Range<u64>, resident_bytes: u64) {
        let _ = (usable, resident_bytes);
    }

    /// Receives bytes, resident or not, that belong to one category. They are disjoint and cover all extents.
    fn bytes(&mut self, range: Range<u64>, category: Category) {
        let _ = (range, category);
    }
}

/// A listener that ignores everything.
impl Listener for () {}

impl Knowledge<'_> {
    /// Reports one extent.
    pub(super) fn tell(&self, placed: &Placed, contents: &Contents, listener: &mut dyn Listener) {
        let extent = &placed.extent;
        listener.extent(extent.range(), extent.arena);
        match (contents, &extent.purpose) {
            _ if placed.cut => listener.bytes(extent.range(), Category::Unsettled),
            (Contents::Regions(marks), Purpose::Slab(slab)) => tell_slab(placed, slab, marks, listener),
            (Contents::Object(holder), _) => self.tell_object(placed, *holder, listener),
            _ => listener.bytes(extent.range(), category_of_free(extent.state)),
        }
    }

    fn tell_object(&self, placed: &Placed, holder: Holder, listener: &mut dyn Listener) {
        let extent = &placed.extent;
        let start = extent.base + extent.offset;
        let end = (start + extent.usable_bytes(self.pad)).min(extent.end());
        let category = match holder {
            Holder::Program => Category::MallocLive,
            Holder::Cache | Holder::ForgottenCache => Category::MallocCached,
            Holder::Itself => Category::MallocOverhead,
        };
        if holder == Holder::Program {
            let tally = self.tally(placed, &Contents::Object(holder));
            listener.block(start..end, tally.live);
        }
        let parts = [
            (extent.base..start, Category::MallocOverhead),
            (start..end, category),
            (end..extent.end(), Category::MallocOverhead),
        ];
        parts
            .into_iter()
            .filter(|(part, _)| !part.is_empty())
            .for_each(|(part, what)| listener.bytes(part, what));
    }
}

/// Returns the category of freed extents: see the table in [`super::account`].
pub(super) fn category_of_free(state: State) -> Category {
    match state {
        State::Retained => Category::MallocStranded,
        State::Active | State::Dirty | State::Muzzy | State::Transition | State::Merging => {
            Category::MallocTrimmable
        }
    }
}

/// Reports the regions of a slab, joining neighbors with the same use.
fn tell_slab(placed: &Placed, slab: &Slab, marks: &Marks, listener: &mut dyn Listener) {
    let base = placed.extent.base;
    let of = |region| match () {
        () if marks.free.contains(region) => Category::MallocStranded,
        () if marks.cached.contains(region) => Category::MallocCached,
        () if marks.own.contains(region) => Category::MallocOverhead,
        () => Category::MallocLive,
    };
    let mut run = base..base;
    let mut category = of(0);
    for region in 0..slab.regions {
        let here = of(region);
        let start = base + region * slab.region_bytes;
        if here == Category::MallocLive {
            let usable = start..start + slab.region_bytes;
            let resident = placed.pages.as_ref().map_or(0, |pages| pages.resident_within(usable.clone()));
            listener.block(usable, resident);
        }
        if here != category {
            listener.bytes(std::mem::replace(&mut run, start..start), category);
            category = here;
        }
        run.end = start + slab.region_bytes;
    }
    let end = run.end;
    listener.bytes(run, category);
    if end < placed.extent.end() {
        listener.bytes(end..placed.extent.end(), Category::MallocOverhead);
    }
}
