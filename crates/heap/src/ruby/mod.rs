//! The CRuby heap of a live process, read from outside.
//!
//! | module | concept |
//! |---|---|
//! | [`version`] | the version of a Ruby |
//! | [`versions`] | the facts about each version: the table to extend for a new one |
//! | [`layout`] | the shapes of the collector's structures |
//! | [`pages`] | finds the heap's pages by their structure |
//! | [`objspace`] | the collector's own counters |
//! | [`slots`] | the contents of the slots: live or free, by type |
//! | `imemo` | the kinds of internal objects |
//! | `statics` | fiber stacks and the transient heap |
//! | `owner_rules` | the locations of pointers to malloc memory in objects, by version |
//! | `owners` | collects these pointers |
//! | [`owned`] | finds their chunks |
//! | [`reading`] | everything in one pass |
//! | `space` | a copy of the live slots, in which objects are found by address |
//! | `chunks` | the chunks of malloc memory, and whose they are |
//! | `names` | names of symbols, classes and wrapped data |
//! | `by_class` | live objects by class |
//! | `of_class` | the objects of one class |
//! | `duplicates` | strings with equal contents |
//! | `code` | loaded code by file |
//! | `unshared` | what writes since a fork belong to |
//! | `graph` | references between objects, and the roots |
//! | [`holding`] | retained sizes, paths, garbage that waits |
//! | `held` | the holder of most objects of a class |
//! | `ownership` | garbage, code and strings in a few figures |
//!
//! The flow: [`Ruby::find`] yields the pages (whose bodies no other walker may claim), [`Ruby::read`] reads
//! them once and counts, the malloc walk passes its chunks to the [`Reading`], and [`Reading::finish`]
//! returns the result.

pub(crate) mod by_class;
pub(crate) mod chunks;
pub(crate) mod code;
pub(crate) mod duplicates;
pub(crate) mod graph;
pub(crate) mod held;
pub mod holding;
mod imemo;
pub mod layout;
pub(crate) mod names;
pub mod objspace;
pub(crate) mod of_class;
pub mod owned;
mod owner_rules;
mod owners;
pub(crate) mod ownership;
pub mod pages;
pub mod reading;
pub mod slots;
pub(crate) mod space;
mod statics;
pub(crate) mod unshared;
pub mod version;
pub mod versions;
mod words;

pub use pages::{HeapPage, HeapPages};
pub use reading::Reading;
pub use version::{Program, RubyVersion};

use crate::model::Category;
use std::ops::Range;
use unbloat_process::{Maps, Memory, Pid, Result};

/// Number of heap pages that identify a process as a Ruby even if no mapped file does; a fresh one has
/// dozens.
const CONVINCING_PAGES: usize = 8;

/// A CRuby in a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruby {
    /// Its version; `None` if only its heap reveals it.
    pub version: Option<RubyVersion>,
    /// The pages of its heap; none while it starts or if its layout is unknown.
    pub pages: Option<HeapPages>,
    /// Addresses of the writable data of the file that contains CRuby.
    pub data: Vec<Range<u64>>,
}

impl Ruby {
    /// Looks for a CRuby in a process. Use a view that touches resident pages only.
    ///
    /// # Errors
    /// The process is gone or access to it is denied.
    pub fn find(memory: &dyn Memory, maps: &Maps, pid: Pid) -> Result<Option<Self>> {
        let program = Program::of_symbol(pid, maps);
        let layout = program.as_ref().and_then(|program| Some(program.version.facts()?.pages));
        let pages = HeapPages::find(memory, maps, layout)?;
        let convincing = pages.as_ref().is_some_and(|found| found.pages.len() >= CONVINCING_PAGES);
        if program.is_none() && !convincing {
            return Ok(None);
        }
        let program = program.or_else(|| Program::of_description(pid, maps));
        Ok(Some(Ruby {
            version: program.as_ref().map(|program| program.version),
            pages,
            data: program.iter().flat_map(|program| program.image.writable()).collect(),
        }))
    }

    /// Returns CRuby's memory outside malloc's arenas and heap pages: sorted, disjoint ranges of private
    /// anonymous memory with their categories.
    ///
    /// # Errors
    /// The process is gone or access to it is denied.
    pub fn other_memory(&self, memory: &dyn Memory, maps: &Maps) -> Result<Vec<(Range<u64>, Category)>> {
        statics::find(memory, maps, &self.data)
    }
}

#[cfg(test)]
mod tests;
