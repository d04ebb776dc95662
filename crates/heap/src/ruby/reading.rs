//! One pass over a Ruby heap: the contents of its slots, the collector's counters, and the owners of malloc
//! memory.

use super::objspace::Objspace;
use super::owned::Owned;
use super::owners::Owners;
use super::slots::{self, Tally};
use super::{HeapPages, Ruby, RubyVersion, imemo, versions};
use crate::allocators::Observer;
use crate::model::{Category, Census, Note, NoteCode, RubyHeap};
use std::ops::Range;
use unbloat_process::{Maps, Memory, Result};

/// A Ruby heap that was read. As an [`Observer`] of a malloc walk it adds up the blocks by owner;
/// [`Reading::finish`] then returns the result.
#[derive(Debug)]
pub struct Reading {
    version: Option<RubyVersion>,
    page_bytes: u64,
    tally: Tally,
    sorted_length: Option<u64>,
    owned: Option<Owned>,
}

impl Ruby {
    /// Reads the whole heap once. `claim` receives the category of each byte of a page's body, page by page.
    /// Use a view that touches resident pages only.
    ///
    /// # Errors
    /// The process is gone or access to it is denied.
    pub fn read(
        &self,
        memory: &dyn Memory,
        maps: &Maps,
        claim: impl FnMut(Range<u64>, Category),
    ) -> Result<Reading> {
        let mut reading = Reading {
            version: self.version,
            page_bytes: 0,
            tally: Tally::default(),
            sorted_length: None,
            owned: None,
        };
        let Some(pages) = &self.pages else { return Ok(reading) };
        reading.page_bytes = pages.layout.page_bytes;
        reading.sorted_length = self.sorted_length(memory, pages)?;
        match self.version.and_then(|version| Owners::of(version, memory, maps, Owned::default())) {
            Some(mut owners) => {
                reading.tally =
                    slots::walk(memory, pages, claim, |slot| owners.visit(slot, slot.code().into()))?;
                reading.owned = Some(owners.finish()?);
            }
            None => reading.tally = slots::walk(memory, pages, claim, |_| {})?,
        }
        Ok(reading)
    }

    fn sorted_length(&self, memory: &dyn Memory, pages: &HeapPages) -> Result<Option<u64>> {
        let Some(layout) = self.version.and_then(RubyVersion::facts).map(|facts| facts.objspace) else {
            return Ok(None);
        };
        Ok(Objspace::read(memory, pages, &layout)?.map(|objspace| objspace.sorted_length))
    }
}

impl Reading {
    /// Returns the resident bytes of the pages' bodies: live slots by type, free slots, overhead.
    #[must_use]
    pub fn census(&self) -> Census {
        self.tally.census()
    }

    /// Returns the result, and notes on everything missing.
    #[must_use]
    pub fn finish(self) -> (RubyHeap, Vec<Note>) {
        let notes = self.notes();
        let heap = RubyHeap {
            version: self.version.map_or_else(|| "unknown".to_owned(), |version| version.to_string()),
            page_bytes: self.page_bytes,
            pools: self.tally.pools.values().cloned().collect(),
            unassigned_pages: self.tally.unassigned_pages,
            objects: self.tally.objects(),
            imemos: imemo::named(
                self.version.and_then(RubyVersion::facts).map(|facts| facts.imemos),
                &self.tally.imemos,
            ),
            malloc_owned: self.owned.as_ref().map(|owned| slots::by_type(owned.bytes())),
            compactable_pages: self.tally.compactable_pages(),
            sorted_length: self.sorted_length,
        };
        (heap, notes)
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        let mut note = |code, text: String| notes.push(Note::new(code, text));
        let name = self.version.map_or_else(|| "this Ruby".to_owned(), |version| format!("Ruby {version}"));
        if self.page_bytes == 0 {
            note(
                NoteCode::RubyHeapNotFound,
                format!(
                    "{name} is mapped but none of its heap pages were found: it is starting, or its layout \
                     is unknown (known: {}).",
                    versions::known()
                ),
            );
        } else if self.owned.is_none() {
            note(
                NoteCode::RubyLayoutUnknown,
                format!(
                    "Malloc memory cannot be broken down by owner: the layouts of {name} are unknown \
                    (known: {}).",
                    versions::known()
                ),
            );
        }
        if let Some(share) = self.owned.as_ref().and_then(Owned::share) {
            note(
                NoteCode::RubyOwnersSampled,
                format!(
                    "Malloc memory by Ruby type is an estimate from {:.1} % of the objects' pointers, to bound this tool's \
                 own memory.",
                    100.0 * share
                ),
            );
        }
        let unread: u64 = self.tally.pools.values().map(|pool| pool.unread_slots).sum();
        if unread > 0 {
            note(
                NoteCode::RubySlotsUnread,
                format!(
                    "{unread} Ruby slots lie on pages that are swapped out or were never touched; their \
                    contents are unknown."
                ),
            );
        }
        if self.tally.vanished_pages > 0 {
            note(
                NoteCode::RubyPagesVanished,
                format!("{} Ruby heap pages were returned while being read.", self.tally.vanished_pages),
            );
        }
        notes
    }
}

impl Observer for Reading {
    fn block(&mut self, usable: Range<u64>, resident_bytes: u64) {
        if let Some(owned) = &mut self.owned {
            owned.chunk(usable.start, resident_bytes);
        }
    }
}
