//! The census: every resident byte in exactly one category.

use super::RubyType;
use std::collections::BTreeMap;

/// What a resident byte is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// A Ruby slot with an object of this type.
    RubyLive(RubyType),
    /// A Ruby slot without an object.
    RubyFree,
    /// Headers and tails of Ruby heap pages, and pages that belong to no size pool yet.
    RubyPageOverhead,
    /// The arena in which CRuby up to 3.2 keeps the contents of young arrays, hashes, objects and structs.
    RubyTransientHeap,
    /// Payload of malloc chunks in use.
    MallocLive,
    /// Freed chunks kept in a thread cache or fastbin.
    MallocCached,
    /// Freed, in whole resident pages that `malloc_trim(0)` would return.
    MallocTrimmable,
    /// Freed, but on a page that something live shares.
    MallocStranded,
    /// The unused end of a non-main arena's newest heap: `malloc_trim` leaves it.
    MallocTop,
    /// Chunk headers, arena structures, thread cache structures.
    MallocOverhead,
    /// Large chunks in use that have mappings of their own.
    MmappedChunks,
    /// Memory of an allocator other than glibc's that is not told apart further.
    AllocatorOther,
    /// Stacks of threads, the main thread's included, and of fibers where they can be told.
    ThreadStacks,
    /// Machine code made at run time.
    JitCode,
    /// Pages of the program and its libraries as they lie in the file.
    LibrariesShared,
    /// Pages of the program and its libraries that this process has written to.
    LibrariesPrivate,
    /// Other mapped files.
    MappedFiles,
    /// Shared memory (anonymous shared, memfd, System V, `/dev/shm`).
    SharedMemory,
    /// Anonymous memory that none of the above explains.
    OtherAnonymous,
    /// A heap that kept changing while it was read.
    Unsettled,
    /// Memory that the kernel counts but does not let us read.
    NotReadable,
}

impl Category {
    /// The name in JSON and in recordings, for example `malloc_stranded` or `ruby_live_string`. Stable.
    #[must_use]
    pub fn name(self) -> String {
        let fixed = match self {
            Category::RubyLive(ruby_type) => return format!("ruby_live_{}", ruby_type.name().to_lowercase()),
            Category::RubyFree => "ruby_free",
            Category::RubyPageOverhead => "ruby_page_overhead",
            Category::RubyTransientHeap => "ruby_transient_heap",
            Category::MallocLive => "malloc_live",
            Category::MallocCached => "malloc_cached",
            Category::MallocTrimmable => "malloc_trimmable",
            Category::MallocStranded => "malloc_stranded",
            Category::MallocTop => "malloc_top",
            Category::MallocOverhead => "malloc_overhead",
            Category::MmappedChunks => "mmapped_chunks",
            Category::AllocatorOther => "allocator_other",
            Category::ThreadStacks => "thread_stacks",
            Category::JitCode => "jit_code",
            Category::LibrariesShared => "libraries_shared",
            Category::LibrariesPrivate => "libraries_private",
            Category::MappedFiles => "mapped_files",
            Category::SharedMemory => "shared_memory",
            Category::OtherAnonymous => "other_anonymous",
            Category::Unsettled => "unsettled",
            Category::NotReadable => "not_readable",
        };
        fixed.to_owned()
    }
}

/// Bytes per category. The sum is the process's RSS; what it misses is `unattributed_bytes` of the report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census(BTreeMap<Category, u64>);

impl Census {
    /// Adds bytes to a category.
    pub fn add(&mut self, category: Category, bytes: u64) {
        if bytes > 0 {
            *self.0.entry(category).or_default() += bytes;
        }
    }

    /// Bytes of one category.
    #[must_use]
    pub fn bytes(&self, category: Category) -> u64 {
        self.0.get(&category).copied().unwrap_or(0)
    }

    /// Categories that have bytes, in the order of the enumeration.
    pub fn iter(&self) -> impl Iterator<Item = (Category, u64)> + '_ {
        self.0.iter().map(|(&category, &bytes)| (category, bytes))
    }

    /// The sum over all categories.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// What the program holds: malloc chunks in use, mapped ones included, and Ruby slots with an object.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.bytes(Category::MallocLive) + self.bytes(Category::MmappedChunks) + self.ruby_live()
    }

    /// Ruby slots with an object, of all types.
    #[must_use]
    pub fn ruby_live(&self) -> u64 {
        self.iter().filter(|(c, _)| matches!(c, Category::RubyLive(_))).map(|(_, bytes)| bytes).sum()
    }

    /// cached + trimmable + stranded.
    #[must_use]
    pub fn bloat(&self) -> u64 {
        [Category::MallocCached, Category::MallocTrimmable, Category::MallocStranded]
            .iter()
            .map(|&category| self.bytes(category))
            .sum()
    }
}
