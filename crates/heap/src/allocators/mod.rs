//! The allocators that can serve a program's `malloc`, one folder each.
//!
//! | module | concept |
//! |---|---|
//! | [`live`] | which allocator serves a process |
//! | [`recognize`] | which allocator a file is |
//! | [`heap`] | what every walker takes and yields |
//! | [`observer`] | what a walk tells while it goes |
//! | [`glibc`] | glibc's malloc |
//! | [`jemalloc`] | jemalloc |
//! | [`mimalloc`] | mimalloc |
//! | [`tcmalloc`] | tcmalloc |
//! | [`musl`] | musl's malloc |
//!
//! A folder says how its allocator is recognized, tells its version, walks its heap where that is known, and names the
//! call that gives memory back. [`Descriptor`] is what all of them say; [`DESCRIPTORS`] lists them.

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

use crate::model::AllocatorKind;
use unbloat_process::Image;
#[cfg(target_arch = "x86_64")]
use unbloat_process::remote::Argument;

/// All known allocators. A file that shows signs of several is the first of them.
pub const DESCRIPTORS: [&Descriptor; 5] = [
    &jemalloc::DESCRIPTOR,
    &mimalloc::DESCRIPTOR,
    &tcmalloc::DESCRIPTOR,
    &glibc::DESCRIPTOR,
    &musl::DESCRIPTOR,
];

/// What is known of an allocator before any process is looked at.
#[derive(Debug)]
pub struct Descriptor {
    /// Which allocator.
    pub kind: AllocatorKind,
    /// It is a part of the C library, so every static program may carry its symbols.
    pub in_libc: bool,
    /// Beginnings of the file name of a library that can be nothing else.
    pub file_names: &'static [&'static str],
    /// Functions that nobody else defines.
    pub symbols: &'static [&'static str],
    /// A message in its read-only data, for files whose symbols were stripped.
    pub message: Option<&'static [u8]>,
    /// Tells the version from the file.
    pub version: fn(&Image) -> Option<String>,
    /// How it gives freed memory back.
    pub release: Release,
}

/// How an allocator gives freed memory back to the kernel.
#[derive(Debug)]
pub enum Release {
    /// By a call.
    Call(ReleaseCall),
    /// Not at all, and why.
    Never(&'static str),
}

/// The call by which an allocator gives freed memory back.
#[derive(Debug)]
pub struct ReleaseCall {
    /// The function's names; the first that a file exports is called.
    pub functions: &'static [&'static str],
    /// Its arguments.
    #[cfg(target_arch = "x86_64")]
    pub arguments: &'static [Argument],
    /// Stack that the call needs, in bytes, with ample reserve.
    pub stack_bytes: u64,
    /// Why the call does not work in this version, if so.
    pub refuses: fn(&Image) -> Option<&'static str>,
    /// What the call reaches and what it leaves.
    pub reach: &'static str,
}

/// Stack for a release call of an allocator other than glibc's. Measured on painted stacks: 2.4 KiB for jemalloc's, less
/// for the others, and up to 3.3 KiB more where a symbol is bound at that moment.
pub const RELEASE_STACK_BYTES: u64 = 64 << 10;

impl AllocatorKind {
    /// What is known of it; `None` for an unknown allocator.
    #[must_use]
    pub fn descriptor(self) -> Option<&'static Descriptor> {
        DESCRIPTORS.into_iter().find(|descriptor| descriptor.kind == self)
    }
}

/// The version that follows `label` in the file, such as `2.10` in `gperftools 2.10`.
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

    /// Every list of strings below a document that names glibc.
    fn lists(document: &serde_json::Value, into: &mut Vec<Vec<String>>) {
        if let Some(items) = document.as_array() {
            let names: Vec<String> =
                items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect();
            into.extend(Some(names).filter(|names| names.iter().any(|name| name == "glibc")));
        }
        let below = document.as_array().into_iter().flatten();
        below
            .chain(document.as_object().into_iter().flat_map(|fields| fields.values()))
            .for_each(|d| lists(d, into));
    }

    #[test]
    fn the_schemas_name_every_allocator() {
        let mut names: Vec<&str> = DESCRIPTORS.iter().map(|descriptor| descriptor.kind.name()).collect();
        names.push(AllocatorKind::Unknown.name());
        names.sort_unstable();
        for schema in [
            include_str!("../../../../docs/reference/inspect.schema.json"),
            include_str!("../../../../docs/reference/trim.schema.json"),
        ] {
            let mut found = Vec::new();
            lists(&serde_json::from_str(schema).unwrap(), &mut found);
            assert!(!found.is_empty());
            for mut list in found {
                list.sort_unstable();
                assert_eq!(list, names);
            }
        }
    }
}
