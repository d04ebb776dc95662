//! The categories of the census, in one table.
//!
//! A new category is a row here, a name in `docs/reference/inspect.schema.json` and a row in
//! `docs/guide/inspect.md`.

use super::{PageUse, RubyType, Segment};
use serde::{Deserialize, Serialize};

/// The group of rows to which a category belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Memory of the Ruby heap.
    Ruby,
    /// Memory of the allocator.
    Malloc,
    /// Everything else.
    Other,
}

impl Group {
    /// All groups, in the order of a table.
    pub const ALL: [Group; 3] = [Group::Ruby, Group::Malloc, Group::Other];

    /// The group's name in a table.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Group::Ruby => "Ruby",
            Group::Malloc => "malloc",
            Group::Other => "other",
        }
    }
}

/// The way the heap map shows a category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMap {
    /// As bytes of this use.
    Use(PageUse),
    /// As the remainder of its pages.
    Overhead,
    /// Not at all, because its pages belong to no heap.
    Nowhere,
}

/// The backing of a category's pages, as the kernel counts proportional bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackedBy {
    /// Anonymous memory.
    Anonymous,
    /// A file.
    File,
    /// Shared memory.
    SharedMemory,
}

/// The facts about a category that every reader needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CategoryFacts {
    /// The name in JSON and in recordings, for example `malloc_stranded`. Stable.
    pub name: &'static str,
    /// The name in a table whose rows are grouped.
    pub label: &'static str,
    /// Its group of rows.
    pub group: Group,
    /// Its segment in bars and areas, which also decides whether it counts as live, as bloat or as neither.
    pub segment: Segment,
    /// The way the heap map shows it.
    pub on_map: OnMap,
    /// The backing of its pages.
    pub backed_by: BackedBy,
}

/// Defines the categories and their facts. A row: documentation, category, name, label, group, segment, place
/// on the map, backing.
macro_rules! categories {
    ($($(#[$doc:meta])+ $category:ident $name:literal $label:literal $group:ident $segment:ident $on_map:expr, $backed_by:ident;)+) => {
        /// The use of a resident byte.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Category {
            /// A Ruby slot with an object of this type.
            RubyLive(RubyType),
            $($(#[$doc])+ $category,)+
        }

        impl Category {
            /// All categories except those of Ruby's types, in table order.
            const FIXED: &[Category] = &[$(Category::$category),+];

            /// Returns the category's facts.
            #[must_use]
            pub fn facts(self) -> CategoryFacts {
                match self {
                    Category::RubyLive(ruby_type) => CategoryFacts {
                        name: ruby_type.category_name(),
                        label: ruby_type.name(),
                        group: Group::Ruby,
                        segment: Segment::RubyObjects,
                        on_map: OnMap::Use(PageUse::RubyLive),
                        backed_by: BackedBy::Anonymous,
                    },
                    $(Category::$category => CategoryFacts {
                        name: $name,
                        label: $label,
                        group: Group::$group,
                        segment: Segment::$segment,
                        on_map: $on_map,
                        backed_by: BackedBy::$backed_by,
                    },)+
                }
            }
        }
    };
}

use OnMap::{Nowhere, Overhead, Use};

categories! {
    /// A Ruby slot without an object.
    RubyFree "ruby_free" "free slots" Ruby RubyFree Use(PageUse::RubyFree), Anonymous;
    /// Headers and tails of Ruby heap pages, and pages that belong to no size pool yet.
    RubyPageOverhead "ruby_page_overhead" "page overhead" Ruby Rest Overhead, Anonymous;
    /// The arena where CRuby up to 3.2 keeps the contents of young arrays, hashes, objects and structs.
    RubyTransientHeap "ruby_transient_heap" "transient heap" Ruby Rest Nowhere, Anonymous;
    /// Payload of malloc blocks in use.
    MallocLive "malloc_live" "live" Malloc Live Use(PageUse::Live), Anonymous;
    /// Freed blocks kept in a thread cache or fastbin.
    MallocCached "malloc_cached" "cached" Malloc Cached Use(PageUse::Cached), Anonymous;
    /// Freed, in whole resident pages that the allocator's release call would return.
    MallocTrimmable "malloc_trimmable" "trimmable" Malloc Trimmable Use(PageUse::Trimmable), Anonymous;
    /// Freed, but on a page that something live shares.
    MallocStranded "malloc_stranded" "stranded" Malloc Stranded Use(PageUse::Stranded), Anonymous;
    /// Freed, in whole pages inside a slab with live blocks, which no call returns. A part of the stranded
    /// memory.
    MallocHoles "malloc_holes" "stranded, whole pages" Malloc Stranded Use(PageUse::Stranded), Anonymous;
    /// The unused end of a non-main arena's newest heap, which `malloc_trim` leaves alone.
    MallocTop "malloc_top" "top" Malloc Rest Use(PageUse::Top), Anonymous;
    /// Chunk headers, arena structures, thread cache structures.
    MallocOverhead "malloc_overhead" "overhead" Malloc Rest Overhead, Anonymous;
    /// Large chunks in use that have their own mappings.
    MmappedChunks "mmapped_chunks" "live, own mappings" Malloc Live Use(PageUse::Live), Anonymous;
    /// Memory of an allocator whose heap was not walked.
    AllocatorOther "allocator_other" "not broken down" Malloc NotTold Nowhere, Anonymous;
    /// Stacks of threads, including the main thread, and of fibers where they are identifiable.
    ThreadStacks "thread_stacks" "thread stacks" Other Rest Nowhere, Anonymous;
    /// Machine code made at run time.
    JitCode "jit_code" "JIT code" Other Rest Nowhere, Anonymous;
    /// Pages of the program and its libraries, unchanged from the file.
    LibrariesShared "libraries_shared" "program and libraries" Other Rest Nowhere, File;
    /// Pages of the program and its libraries that this process has written to.
    LibrariesPrivate "libraries_private" "libraries, written to" Other Rest Nowhere, Anonymous;
    /// Other mapped files.
    MappedFiles "mapped_files" "mapped files" Other Rest Nowhere, File;
    /// Shared memory (anonymous shared, memfd, System V, `/dev/shm`).
    SharedMemory "shared_memory" "shared memory" Other Rest Nowhere, SharedMemory;
    /// Anonymous memory that none of the above explains.
    OtherAnonymous "other_anonymous" "other anonymous" Other Rest Nowhere, Anonymous;
    /// A heap that kept changing while it was read.
    Unsettled "unsettled" "kept changing" Other NotTold Nowhere, Anonymous;
    /// Memory that the kernel counts but does not let us read.
    NotReadable "not_readable" "not readable" Other NotTold Nowhere, Anonymous;
}

impl Category {
    /// Iterates over all categories, in table order.
    pub fn all() -> impl Iterator<Item = Category> {
        RubyType::ALL.into_iter().map(Category::RubyLive).chain(Self::FIXED.iter().copied())
    }

    /// Returns the category with this name in JSON and recordings.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|category| category.facts().name == name)
    }

    /// The name in JSON and in recordings, for example `malloc_stranded` or `ruby_live_string`. Stable.
    #[must_use]
    pub fn name(self) -> String {
        self.facts().name.to_owned()
    }

    /// The name in a table whose rows are grouped.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.facts().label
    }

    /// The category's group of rows.
    #[must_use]
    pub fn group(self) -> Group {
        self.facts().group
    }

    /// The category's segment.
    #[must_use]
    pub fn segment(self) -> Segment {
        self.facts().segment
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_lead_back_to_their_categories() {
        let names: BTreeSet<_> = Category::all().map(|category| category.facts().name).collect();
        assert_eq!(names.len(), Category::all().count());
        assert!(Category::all().all(|category| Category::named(category.facts().name) == Some(category)));
        assert_eq!(Category::RubyLive(RubyType::String).name(), "ruby_live_string");
        assert_eq!(Category::named("no_such_category"), None);
    }

    /// The guide is the third place with a row per category; the schema is the second, and the renderer's
    /// test covers it.
    #[test]
    fn the_guide_explains_each_category() {
        let guide = include_str!("../../../../docs/guide/inspect.md");
        for name in Category::FIXED.iter().map(|category| category.facts().name) {
            assert!(guide.contains(&format!("`{name}`")), "docs/guide/inspect.md says nothing of {name}");
        }
    }

    #[test]
    fn the_schema_allows_each_category() {
        let schema = include_str!("../../../../docs/reference/inspect.schema.json");
        let line = schema.lines().find(|line| line.contains("\"^(ruby_live_")).unwrap();
        let pattern = line.split('"').nth(3).unwrap();
        let names = expand(pattern.trim_start_matches("^(").trim_end_matches(")$"));
        for name in Category::FIXED.iter().map(|category| category.facts().name) {
            assert!(
                names.iter().any(|allowed| allowed == name),
                "the schema does not allow {name}: {names:?}"
            );
        }
    }

    /// Expands a pattern like `a|b_(c|d)` into the texts it stands for.
    fn expand(pattern: &str) -> Vec<String> {
        let mut alternatives = vec![String::new()];
        let mut depth = 0;
        for c in pattern.chars() {
            depth += i32::from(c == '(') - i32::from(c == ')');
            match c {
                '|' if depth == 0 => alternatives.push(String::new()),
                _ => alternatives.last_mut().unwrap().push(c),
            }
        }
        let one = |text: String| match text.split_once('(') {
            Some((before, inner)) => {
                let inner = inner.trim_end_matches(')');
                inner.split('|').map(|part| format!("{before}{part}")).collect()
            }
            None => vec![text],
        };
        alternatives.into_iter().flat_map(one).collect()
    }
}
