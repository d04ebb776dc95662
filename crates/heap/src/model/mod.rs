//! The model of an inspection: plain data, filled by the walkers and read by the renderers.
//!
//! A field that could not be read is `None` (or has a [`Note`] saying so), never 0.

mod advice;
mod allocator;
mod category;
mod census;
mod code;
mod duplicates;
mod finding_code;
mod holds;
mod inspection;
mod makeup;
mod map;
mod note;
mod objects;
mod of_class;
mod ownership;
mod report;
mod ruby;
mod ruby_look;
mod runtime;
mod segment;
mod unshared;

pub use advice::{Action, Compaction, Server};
pub use allocator::{
    Allocator, AllocatorKind, Arena, ArenaExtents, Bin, GlibcSettings, JemallocRequest, JemallocSettings,
    Settings, ThreadCache,
};
pub use category::{BackedBy, Category, CategoryFacts, Group, OnMap};
pub use census::Census;
pub use code::{Code, CodeFile, CodeOfOrigin, CodePart, CodeParts, Origin};
pub use duplicates::{DuplicateText, Duplicates, HolderSum};
pub use finding_code::FindingCode;
pub use holds::{ClassLabel, Coverage, DumpedObject, HeapDump, HeldClass, Holder, Holds, Step};
pub use inspection::{Failure, Inspection};
pub use makeup::{Makeup, OriginRow};
pub use map::{HeapMap, Owner, PageFill, PageUse, Region};
pub use note::{NextStep, Note, NoteCode};
pub use objects::{ByClass, ClassKind, ClassRow, DataRow, Held, StringPlace};
pub use of_class::{Encoding, LargeObject, OfClass, SizeGroup};
pub use ownership::Ownership;
pub use report::{Finding, ProcessReport, Sharing};
pub use ruby::{RubyHeap, RubyType, SizePool};
pub use ruby_look::RubyLook;
pub use runtime::Runtime;
pub use segment::Segment;
pub use unshared::{Cause, CauseKind, CauseRow, Remedy, Unshared};
