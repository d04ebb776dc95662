//! tcmalloc: gperftools' and Google's own.

use super::{Descriptor, RELEASE_STACK_BYTES, Release, ReleaseCall, version_after};
use crate::model::AllocatorKind;

/// tcmalloc's row of the table of allocators.
pub const DESCRIPTOR: Descriptor = Descriptor {
    kind: AllocatorKind::Tcmalloc,
    in_libc: false,
    file_names: &[],
    symbols: &["tc_malloc", "TCMallocInternalMalloc", "MallocExtension_Internal_GetNumericProperty"],
    message: Some(b"tcmalloc.max_total_thread_cache_bytes"),
    version: |image| version_after(image, "gperftools "),
    release: Release::Call(ReleaseCall {
        functions: &["MallocExtension_ReleaseFreeMemory"],
        #[cfg(target_arch = "x86_64")]
        arguments: &[],
        stack_bytes: RELEASE_STACK_BYTES,
        refuses: |_| None,
        reach: "tcmalloc releases its page heap, but thread caches keep their memory",
    }),
    stranded_cure: None,
};
