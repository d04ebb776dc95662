//! musl's malloc, old and new (mallocng).

use super::{Descriptor, Release};
use crate::model::AllocatorKind;

/// musl's row of the table of allocators.
pub const DESCRIPTOR: Descriptor = Descriptor {
    kind: AllocatorKind::Musl,
    in_libc: true,
    file_names: &["ld-musl", "libc.musl"],
    symbols: &["__malloc_donate", "__libc_malloc_impl", "__dls3"],
    message: None,
    version: |_| None,
    release: Release::Never("musl's malloc has no call that returns memory"),
    stranded_cure: None,
};
