//! The model of an inspection: plain data, filled by the walkers and read by the renderers.
//!
//! A field that could not be read is `None` (or has a [`Note`] saying so), never 0.

mod advice;
mod allocator;
mod category;
mod census;
mod inspection;
mod map;
mod note;
mod report;
mod ruby;
mod runtime;
mod segment;

pub use advice::{Action, Compaction, Server};
pub use allocator::{
    Allocator, AllocatorKind, Arena, ArenaExtents, Bin, GlibcSettings, JemallocRequest, JemallocSettings,
    Settings, ThreadCache,
};
pub use category::{BackedBy, Category, CategoryFacts, Group, OnMap};
pub use census::Census;
pub use inspection::{Failure, Inspection};
pub use map::{HeapMap, Owner, PageFill, PageUse, Region};
pub use note::{Note, NoteCode};
pub use report::{Finding, ProcessReport, Sharing};
pub use ruby::{RubyHeap, RubyType, SizePool};
pub use runtime::Runtime;
pub use segment::Segment;
