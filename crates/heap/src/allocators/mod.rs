//! The allocators that can serve a program's `malloc`, one folder each.
//!
//! | module | concept |
//! |---|---|
//! | [`live`] | the allocator that serves a process |
//! | [`recognize`] | the allocator that a file is or contains |
//! | [`heap`] | input and result of every walker |
//! | [`observer`] | receivers of a walk's findings, while it reads |
//! | [`glibc`] | glibc's malloc |
//! | [`jemalloc`] | jemalloc |
//! | [`mimalloc`] | mimalloc |
//! | [`tcmalloc`] | tcmalloc |
//! | [`musl`] | musl's malloc |
//!
//! A folder contains the signs by which its allocator is recognized, reads its version, walks its heap if the
//! structures are known, and names the call that returns memory. [`Descriptor`] holds these facts;
//! [`DESCRIPTORS`] lists them.

pub mod glibc;
pub mod heap;
pub mod jemalloc;
pub mod live;
pub mod mimalloc;
pub mod musl;
pub mod observer;
pub mod recognize;
pub mod tcmalloc;

pub use heap::{Heap, Look, Prediction, Walked};
pub use live::LiveAllocator;
pub use observer::Observer;

use crate::model::{AllocatorKind, ProcessReport};
use crate::verdict::Cure;
use unbloat_process::Image;
#[cfg(target_arch = "x86_64")]
use unbloat_process::remote::Argument;

/// All known allocators. A file that matches several counts as the first match.
pub const DESCRIPTORS: [&Descriptor; 5] = [
    &jemalloc::DESCRIPTOR,
    &mimalloc::DESCRIPTOR,
    &tcmalloc::DESCRIPTOR,
    &glibc::DESCRIPTOR,
    &musl::DESCRIPTOR,
];

/// Static facts about an allocator, independent of any process.
#[derive(Debug)]
pub struct Descriptor {
    /// The allocator described.
    pub kind: AllocatorKind,
    /// The allocator is part of the C library, so any static program may carry its symbols.
    pub in_libc: bool,
    /// Library file name prefixes that identify the allocator beyond doubt.
    pub file_names: &'static [&'static str],
    /// Functions that no other allocator defines.
    pub symbols: &'static [&'static str],
    /// A message in its read-only data, to identify files whose symbols were stripped.
    pub message: Option<&'static [u8]>,
    /// Reads the version from the file.
    pub version: fn(&Image) -> Option<String>,
    /// The way it returns freed memory.
    pub release: Release,
    /// The cure for what it strands; `None` where its heap is not walked.
    pub stranded_cure: Option<fn(&ProcessReport) -> Cure>,
}

/// The way an allocator returns freed memory to the kernel.
#[derive(Debug)]
pub enum Release {
    /// Through a function call.
    Call(ReleaseCall),
    /// Never, for the given reason.
    Never(&'static str),
}

/// The function by which an allocator returns freed memory to the kernel.
#[derive(Debug)]
pub struct ReleaseCall {
    /// The function's possible names; the first one that a file exports is called.
    pub functions: &'static [&'static str],
    /// Its arguments.
    #[cfg(target_arch = "x86_64")]
    pub arguments: &'static [Argument],
    /// Stack required by the call, in bytes, with a generous reserve.
    pub stack_bytes: u64,
    /// Returns the reason why the call does not work in this version, if it does not.
    pub refuses: fn(&Image) -> Option<&'static str>,
    /// The memory that the call reaches, and the memory it leaves.
    pub reach: &'static str,
}

/// Stack for the release call of an allocator other than glibc. Measured on painted stacks: 2.4 KiB for
/// jemalloc, less for the others, plus up to 3.3 KiB when the call triggers lazy symbol binding.
pub const RELEASE_STACK_BYTES: u64 = 64 << 10;

impl AllocatorKind {
    /// Returns the allocator's descriptor; `None` for an unknown allocator.
    #[must_use]
    pub fn descriptor(self) -> Option<&'static Descriptor> {
        DESCRIPTORS.into_iter().find(|descriptor| descriptor.kind == self)
    }
}

/// Extracts the version that follows `label` in the file, such as `2.10` in `gperftools 2.10`.
fn version_after(image: &Image, label: &str) -> Option<String> {
    let bytes = image.find_bytes(label.as_bytes(), 24)?;
    let text = String::from_utf8_lossy(bytes.get(label.len()..)?).into_owned();
    let version: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    Some(version).filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    fn names() -> Vec<&'static str> {
        DESCRIPTORS.iter().map(|descriptor| descriptor.kind.name()).collect()
    }

    #[test]
    fn the_schema_names_every_allocator() {
        let schema = include_str!("../../../../docs/reference/inspect.schema.json");
        let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
        let list = schema["$defs"]["allocator_name"]["enum"].as_array().unwrap();
        let listed: BTreeSet<&str> = list.iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(listed, names().into_iter().chain([AllocatorKind::Unknown.name()]).collect());
    }

    #[test]
    fn the_guide_has_a_row_for_every_allocator() {
        let guide = include_str!("../../../../docs/guide/inspect.md");
        let rows = guide.lines().skip_while(|line| !line.starts_with("| allocator |")).skip(2);
        let rows = rows.take_while(|line| line.starts_with('|'));
        let told: BTreeSet<&str> = rows.map(|row| row.split('|').nth(1).unwrap().trim()).collect();
        assert_eq!(told, names().into_iter().collect());
    }
}
