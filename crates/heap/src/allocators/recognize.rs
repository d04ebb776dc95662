//! The allocator that a file is or has linked in: by its symbols, and where those were stripped, by its messages.
//!
//! The file's name proves nothing, except for musl, whose libc goes by no other.

use super::{DESCRIPTORS, Descriptor};
use unbloat_process::Image;

/// The allocator of a file that defines `malloc`.
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

/// The allocator whose functions a file defines.
#[must_use]
pub fn by_symbols(image: &Image) -> Option<&'static Descriptor> {
    let names: Vec<&str> = DESCRIPTORS.iter().flat_map(|descriptor| descriptor.symbols).copied().collect();
    let defined = image.symbols(&names);
    DESCRIPTORS.into_iter().find(|descriptor| {
        names.iter().zip(&defined).any(|(name, at)| at.is_some() && descriptor.symbols.contains(name))
    })
}

/// The allocator whose message a file has. A file may also carry an allocator for others, so this proves something only
/// where `malloc` is known to be the file's own.
#[must_use]
pub fn by_message(image: &Image) -> Option<&'static Descriptor> {
    let has = |message: &[u8]| image.find_bytes(message, 0).is_some();
    DESCRIPTORS.into_iter().find(|descriptor| descriptor.message.is_some_and(has))
}
