//! The causes of un-sharing: each word that differs between a worker's page and its parent's belongs to something.
//!
//! | module | concept |
//! |---|---|
//! | `owners` | the class or the code to which each object and chunk belongs |
//! | `slots` | the kind of a write to a slot |
//! | `tally` | pages by cause |
//!
//! A page is un-shared by the first write to it, by the worker or its parent. So both copies of each page are read, and
//! compared word by word. Contents are compared and never kept.

mod owners;
mod slots;
mod tally;

use crate::closer::Scene;
use crate::model::{Cause, CauseKind, Unshared};
use crate::sharing::Inherited;
use owners::Owned;
use slots::Slots;
use std::ops::Range;
use std::path::Path;
use tally::Tally;
use unbloat_process::{Maps, Memory, Pid, Result, page_size};

/// Bytes of both copies that are compared at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// Compares the pages that a worker and its parent no longer share.
///
/// # Errors
/// One of the two is gone or may not be looked at.
pub(crate) fn compare(
    scene: &Scene<'_>,
    (parent, theirs): (Pid, &dyn Memory),
    inherited: &Inherited,
    directory: Option<&Path>,
) -> Result<Unshared> {
    let owned = Owned::read(scene, directory)?;
    let mut tally = Tally::default();
    let places = Places { scene, owned: &owned, allocator: allocator_memory(scene) };
    let (mut unread_bytes, mut unshared_bytes) = (0, 0);
    let (mut ours, mut before) = (vec![0; WINDOW_BYTES as usize], vec![0; WINDOW_BYTES as usize]);
    for window in inherited.apart.iter().flat_map(|range| cut(range.clone())) {
        let bytes = window.end - window.start;
        unshared_bytes += bytes;
        let (ours, before) = (&mut ours[..bytes as usize], &mut before[..bytes as usize]);
        if scene.memory.read(window.start, ours).is_err() || theirs.read(window.start, before).is_err() {
            unread_bytes += bytes;
            continue;
        }
        places.compare(&Window { start: window.start, ours, before }, &mut tally);
    }
    let (causes, by_remedy) = tally.finish(page_size());
    Ok(Unshared {
        parent,
        private_bytes: None,
        shared_bytes: inherited.shared_bytes,
        unshared_bytes,
        causes,
        by_remedy,
        unread_bytes,
    })
}

fn cut(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    (range.start..range.end)
        .step_by(WINDOW_BYTES as usize)
        .map(move |start| start..range.end.min(start + WINDOW_BYTES))
}

/// The mappings in which malloc has chunks.
fn allocator_memory(scene: &Scene<'_>) -> Vec<Range<u64>> {
    let ranges = |maps: &Maps| -> Vec<Range<u64>> {
        maps.iter().filter(|mapping| mapping.is_private_anonymous()).map(|mapping| mapping.range()).collect()
    };
    let Some(chunks) = scene.chunks else { return Vec::new() };
    ranges(scene.maps).into_iter().filter(|range| chunks.any_in(range)).collect()
}

/// Both copies of some pages.
pub(super) struct Window<'a> {
    pub(super) start: u64,
    pub(super) ours: &'a [u8],
    pub(super) before: &'a [u8],
}

impl Window<'_> {
    /// Returns a word of the parent's copy; `None` outside of the window.
    pub(super) fn before(&self, address: u64) -> Option<u64> {
        word_at(self.before, address.checked_sub(self.start)?)
    }

    /// Returns a word of the worker's copy.
    pub(super) fn ours(&self, address: u64) -> Option<u64> {
        word_at(self.ours, address.checked_sub(self.start)?)
    }
}

fn word_at(bytes: &[u8], offset: u64) -> Option<u64> {
    super::words::word(bytes, usize::try_from(offset).ok()?)
}

/// Everything that tells what an address belongs to.
struct Places<'a> {
    scene: &'a Scene<'a>,
    owned: &'a Owned,
    allocator: Vec<Range<u64>>,
}

impl Places<'_> {
    fn compare(&self, window: &Window<'_>, tally: &mut Tally) {
        let page = page_size() as usize;
        let slots = Slots { scene: self.scene, owned: self.owned, window };
        for (n, (ours, before)) in
            window.ours.chunks_exact(page).zip(window.before.chunks_exact(page)).enumerate()
        {
            if ours == before {
                tally.word(&plain(CauseKind::Same));
                tally.page();
                continue;
            }
            let start = window.start + (n * page) as u64;
            // Neighboring words mostly belong together.
            let mut last: Option<(Range<u64>, Cause)> = None;
            for (i, (a, b)) in ours.chunks_exact(8).zip(before.chunks_exact(8)).enumerate() {
                let address = start + 8 * i as u64;
                if a == b {
                    continue;
                }
                if let Some((_, cause)) = last.as_ref().filter(|(range, _)| range.contains(&address)) {
                    tally.word(cause);
                    continue;
                }
                let found = self.cause(address, &slots);
                if found.1.kind == CauseKind::NewObjects {
                    tally.new_object(found.0.end - found.0.start);
                }
                tally.word(&found.1);
                last = Some(found);
            }
            tally.page();
        }
    }

    /// Returns the cause of a write to this address, and the addresses for which it is the same.
    fn cause(&self, address: u64, slots: &Slots<'_>) -> (Range<u64>, Cause) {
        let here = address..address + 8;
        match self.scene.space().around(address) {
            Some(Some((slot, bytes))) => return (slot..slot + bytes, slots.cause(slot, bytes)),
            Some(None) => return (here, plain(CauseKind::HeapPages)),
            None => {}
        }
        if let Some((number, offset)) = self.scene.chunks.and_then(|chunks| chunks.around(address)) {
            let start = address - offset;
            let end = start + self.scene.chunks.map_or(0, |chunks| chunks.bytes(number));
            return (start..end, self.owned.of_chunk(number));
        }
        if self.allocator.iter().any(|range| range.contains(&address)) {
            return (here, plain(CauseKind::Allocator));
        }
        (here, plain(CauseKind::OtherMemory))
    }
}

/// A cause without further particulars.
pub(super) fn plain(kind: CauseKind) -> Cause {
    Cause { kind, class: None, name: Default::default(), old: None, part: None }
}
