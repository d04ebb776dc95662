//! Singly linked lists of cached chunks, many of them followed at once.
//!
//! The list of a fastbin or thread cache links chunk to chunk. Since 2.32 each link is mangled with its own
//! address (`PROTECT_PTR`: `(address >> 12) ^ pointer`). Each chunk is validated (alignment, size) before its
//! link is followed, so traversal ends if a list is damaged or changes meanwhile.

use super::layout::{ALIGNMENT, CHUNK_HEADER, FLAGS, WORD};
use super::marks::Marks;
use super::spans::LiveSpan;
use super::{ArenaState, Glibc};
use crate::ranges::joined;
use unbloat_process::{Memory, ResidentOnly, Result};

/// A position in a list, and the properties that its chunks must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List {
    /// User memory of the next chunk.
    pub at: u64,
    /// The size of every chunk in the list; `None` if sizes differ.
    pub size: Option<u64>,
    /// Bytes from a link's target to the user memory: fastbin links point to the chunk, thread-cache links to
    /// its user memory.
    pub link_to_user: u64,
    /// Maximum number of chunks still to visit.
    pub left: u64,
    /// The list's owner, as numbered by the caller.
    pub owner: usize,
}

impl List {
    /// Returns the list after the chunk that holds this link; a null pointer ends it.
    fn after(&self, link: u64, mangled: bool) -> Option<Self> {
        let target = if mangled { self.at >> 12 ^ link } else { link };
        let at = target.checked_add(self.link_to_user).filter(|_| target != 0)?;
        Some(List { at, left: self.left - 1, ..*self })
    }
}

/// Follows all lists to their ends, advancing each by one step at a time, and passes every chunk (owner,
/// address, size) to `visit`, which returns whether the chunk belongs to a heap.
///
/// # Errors
/// The process is gone or may not be read.
pub fn follow_all(
    memory: &dyn Memory,
    mangled: bool,
    mut lists: Vec<List>,
    mut visit: impl FnMut(usize, u64, u64) -> bool,
) -> Result<()> {
    const HEAD: usize = 16;
    let careful = ResidentOnly::new(memory);
    let mut total = 0;
    let usable = |list: &List| list.left > 0 && list.at >= CHUNK_HEADER && list.at.is_multiple_of(ALIGNMENT);
    lists.retain(usable);
    while !lists.is_empty() && total < Marks::MAX {
        // The size field and the link are adjacent.
        let addresses: Vec<u64> = lists.iter().map(|list| list.at - WORD).collect();
        let mut bytes = vec![0; addresses.len() * HEAD];
        let readable = careful.gather(&addresses, HEAD, &mut bytes)?;
        let mut next = Vec::with_capacity(lists.len());
        for ((list, head), _) in
            lists.iter().zip(bytes.chunks_exact(HEAD)).zip(&readable).filter(|(_, r)| **r)
        {
            let word =
                |i: usize| head.get(i..i + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
            let size = word(0) & !FLAGS;
            if list.size.is_some_and(|expected| expected != size)
                || !visit(list.owner, list.at - CHUNK_HEADER, size)
            {
                continue;
            }
            total += 1;
            next.extend(list.after(word(8), mangled));
        }
        next.retain(usable);
        lists = next;
    }
    Ok(())
}

impl Glibc {
    /// Returns whether links are mangled, as they are since 2.32.
    #[must_use]
    pub fn mangles_links(&self) -> bool {
        let minor =
            self.version.as_deref().and_then(|v| v.strip_prefix("2.")).and_then(|v| v.parse::<u32>().ok());
        minor.is_none_or(|minor| minor >= 32)
    }

    /// Returns the chunks in an arena's fastbins.
    ///
    /// # Errors
    /// The process is gone or may not be read.
    pub fn fastbin_chunks(
        &self,
        memory: &dyn Memory,
        arena: &ArenaState,
        spans: &[LiveSpan],
    ) -> Result<Marks> {
        let list = |(i, &head): (usize, &u64)| List {
            at: head.wrapping_add(CHUNK_HEADER),
            size: Some(ALIGNMENT * (i as u64 + 2)),
            link_to_user: CHUNK_HEADER,
            left: u64::MAX,
            owner: 0,
        };
        let lists = arena.fastbins.iter().enumerate().filter(|(_, head)| **head != 0).map(list).collect();
        let ranges = joined(spans.iter().map(LiveSpan::range).collect());
        let holds = |chunk: u64| {
            let range = ranges.partition_point(|range| range.end <= chunk);
            ranges.get(range).is_some_and(|range| range.contains(&chunk))
        };
        let mut chunks = Vec::new();
        follow_all(memory, self.mangles_links(), lists, |_, chunk, _| {
            let inside = holds(chunk) && chunks.len() < Marks::MAX;
            if inside {
                chunks.push(chunk);
            }
            inside
        })?;
        Ok(Marks::new(chunks))
    }
}
