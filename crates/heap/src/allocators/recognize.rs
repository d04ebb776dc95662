//! Identifies the allocator that a file is or has linked in, by its symbols or, if those were stripped, by
//! its messages.
//!
//! A file name proves nothing, except for musl, whose libc has only one name.

use super::{DESCRIPTORS, Descriptor};
use unbloat_process::Image;

/// Identifies the allocator of a file that defines `malloc`.
#[must_use]
pub fn allocator_of(image: &Image) -> Option<&'static Descriptor> {
    by_file_name(image).or_else(|| by_symbols(image)).or_else(|| by_message(image))
}

fn by_file_name(image: &Image) -> Option<&'static Descriptor> {
    let name = image.name();
    DESCRIPTORS
        .into_iter()
        .find(|descriptor| descriptor.file_names.iter().any(|start| name.starts_with(start)))
}

/// Identifies the allocator whose functions a file defines.
#[must_use]
pub fn by_symbols(image: &Image) -> Option<&'static Descriptor> {
    let names: Vec<&str> = DESCRIPTORS.iter().flat_map(|descriptor| descriptor.symbols).copied().collect();
    let defined = image.symbols(&names);
    DESCRIPTORS.into_iter().find(|descriptor| {
        names.iter().zip(&defined).any(|(name, at)| at.is_some() && descriptor.symbols.contains(name))
    })
}

/// Identifies the allocator whose message a file contains. A file may also carry an allocator for others, so
/// this proves something only where `malloc` is known to be the file's own.
#[must_use]
pub fn by_message(image: &Image) -> Option<&'static Descriptor> {
    let has = |message: &[u8]| image.find_bytes(message, 0).is_some();
    DESCRIPTORS.into_iter().find(|descriptor| descriptor.message.is_some_and(has))
}
