//! Codes of the verdict's findings, which identify them for scripts.

use serde::{Deserialize, Serialize};

/// Defines the codes. A row: documentation, code, name for scripts.
macro_rules! finding_codes {
    ($($(#[$doc:meta])+ $code:ident $name:literal;)+) => {
        /// The subject of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum FindingCode {
            $($(#[$doc])+ $code,)+
        }

        impl FindingCode {
            /// All codes.
            pub const ALL: &[FindingCode] = &[$(FindingCode::$code),+];

            /// The identifier in JSON, for example `ruby-free-slots`. Stable.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(FindingCode::$code => $name,)+ }
            }
        }
    };
}

finding_codes! {
    /// The shares of the application and of bloat.
    Bloat "bloat";
    /// There is little bloat.
    Lean "lean";
    /// The bloat is unknown, because the allocator is not walked.
    Summary "summary";
    /// The process may not be read.
    NotReadable "not-readable";
    /// The work of the runtime so far.
    Runtime "runtime";
    /// The bytes that a trim would return.
    Trimmable "trimmable";
    /// Fragmentation, and its remedy.
    Stranded "stranded";
    /// The bytes in thread caches.
    Cached "cached";
    /// Ruby's reserve of free slots.
    RubyFreeSlots "ruby-free-slots";
    /// The bytes of an allocator that is not walked.
    AllocatorNotWalked "allocator-not-walked";
    /// A jemalloc with its defaults.
    JemallocDefaults "jemalloc-defaults";
    /// A jemalloc tuned by `MALLOC_CONF`.
    JemallocTuned "jemalloc-tuned";
    /// A jemalloc whose background thread is missing.
    JemallocBackgroundThread "jemalloc-background-thread";
    /// A jemalloc set up as `unbloat run` does.
    JemallocLean "jemalloc-lean";
    /// A jemalloc that was requested but does not serve.
    JemallocNotLoaded "jemalloc-not-loaded";
    /// The bytes that the application holds.
    Live "live";
    /// Garbage that waits for a collection.
    Waiting "waiting";
    /// Heaps that kept changing.
    Unsettled "unsettled";
    /// Memory that is swapped out.
    Swapped "swapped";
    /// Several processes together.
    Tree "tree";
    /// The bytes that a trim of several processes would return.
    TreeTrimmable "tree-trimmable";
    /// The memory that workers share with their master.
    TreeSharing "tree-sharing";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_explains_each_code() {
        let guide = include_str!("../../../../docs/guide/inspect.md");
        for name in FindingCode::ALL.iter().map(|code| code.name()) {
            assert!(guide.contains(&format!("`{name}`")), "docs/guide/inspect.md says nothing of {name}");
        }
    }
}
