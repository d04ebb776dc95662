//! The CRuby heap of a live process, read from outside.
//!
//! | module | concept |
//! |---|---|
//! | [`version`] | the version of a Ruby |
//! | [`versions`] | what is known of each version: the table to extend for a new one |
//! | [`layout`] | the shapes of the collector's structures |
//! | [`pages`] | finding the heap's pages by their structure |
//! | [`objspace`] | the collector's own counters |
//! | [`slots`] | what the slots hold: live or free, by type |
//! | `imemo` | the kinds of internal objects |
//! | `statics` | fiber stacks and the transient heap |
//! | `owner_rules` | where objects keep pointers to malloc memory, by version |
//! | `owners` | collecting these pointers |
//! | [`owned`] | finding their chunks |
//! | [`reading`] | all of it in one go |
//!
//! The flow: [`Ruby::find`] yields the pages (whose bodies no other walker may claim), [`Ruby::read`] reads them once and
//! counts, the malloc walk shows its chunks to the [`Reading`], and [`Reading::finish`] has the result.

mod imemo;
pub mod layout;
pub mod objspace;
pub mod owned;
mod owner_rules;
mod owners;
pub mod pages;
pub mod reading;
pub mod slots;
mod statics;
pub mod version;
pub mod versions;
mod words;

pub use pages::{HeapPage, HeapPages};
pub use reading::Reading;
pub use version::{Program, RubyVersion};

use crate::model::Category;
use std::ops::Range;
use unbloat_process::{Maps, Memory, Pid, Result};

/// Heap pages from which on a process is taken for a Ruby although no mapped file says so; a fresh one has dozens.
const CONVINCING_PAGES: usize = 8;

/// A CRuby in a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruby {
    /// Its version; `None` when only its heap gives it away.
    pub version: Option<RubyVersion>,
    /// The pages of its heap; none while it starts or when its layout is not known.
    pub pages: Option<HeapPages>,
    /// Where the writable data of the file that has CRuby lies.
    pub data: Vec<Range<u64>>,
}

impl Ruby {
    /// Looks for a CRuby in a process. Read through a view that touches resident pages only.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
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

    /// Memory outside of malloc's arenas and of heap pages that is CRuby's: sorted, disjoint ranges of private anonymous
    /// memory with what they are for.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub fn other_memory(&self, memory: &dyn Memory, maps: &Maps) -> Result<Vec<(Range<u64>, Category)>> {
        statics::find(memory, maps, &self.data)
    }
}

#[cfg(test)]
mod tests;
