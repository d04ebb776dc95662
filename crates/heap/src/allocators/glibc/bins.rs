//! The singly linked lists of cached chunks, followed many at a time.
//!
//! A list of a fastbin or thread cache links chunk to chunk. Since 2.32 each link is mangled with its own address
//! (`PROTECT_PTR`: `(address >> 12) ^ pointer`). Every chunk is checked (alignment, size) before its link is followed, so
//! that a list which changes meanwhile, or is damaged, ends instead of leading astray.

use super::layout::{ALIGNMENT, CHUNK_HEADER, FLAGS, WORD};
use super::marks::Marks;
use super::spans::LiveSpan;
use super::{ArenaState, Glibc};
use unbloat_process::{Memory, ResidentOnly, Result};

/// One list: where it is now, and what its chunks must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List {
    /// User memory of the next chunk.
    pub at: u64,
    /// The size that every chunk of the list has; `None` if they differ.
    pub size: Option<u64>,
    /// Bytes from where a link leads to the user memory: links of fastbins lead to the chunk, those of thread caches to
    /// its user memory.
    pub link_to_user: u64,
    /// At most so many more.
    pub left: u64,
    /// Whose list it is: the caller's business.
    pub owner: usize,
}

impl List {
    /// The list after the chunk whose link this is; a null pointer ends it.
    fn after(&self, link: u64, mangled: bool) -> Option<Self> {
        let target = if mangled { self.at >> 12 ^ link } else { link };
        let at = target.checked_add(self.link_to_user).filter(|_| target != 0)?;
        Some(List { at, left: self.left - 1, ..*self })
    }
}

/// Follows all lists to their ends, one step of each at a time, and gives every chunk (its owner, its address, its
/// size) to `found`, which says whether it belongs to a heap.
///
/// # Errors
/// The process is gone or may not be read.
pub fn follow_all(
    memory: &dyn Memory,
    mangled: bool,
    mut lists: Vec<List>,
    mut found: impl FnMut(usize, u64, u64) -> bool,
) -> Result<()> {
    const HEAD: usize = 16;
    let careful = ResidentOnly::new(memory);
    let mut total = 0;
    let usable = |list: &List| list.left > 0 && list.at >= CHUNK_HEADER && list.at.is_multiple_of(ALIGNMENT);
    lists.retain(usable);
    while !lists.is_empty() && total < Marks::MAX {
        // The size field and the link lie side by side.
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
                || !found(list.owner, list.at - CHUNK_HEADER, size)
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
    /// Tells whether links are mangled: since 2.32.
    #[must_use]
    pub fn mangles_links(&self) -> bool {
        let minor =
            self.version.as_deref().and_then(|v| v.strip_prefix("2.")).and_then(|v| v.parse::<u32>().ok());
        minor.is_none_or(|minor| minor >= 32)
    }

    /// The chunks in an arena's fastbins.
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
        let mut chunks = Vec::new();
        follow_all(memory, self.mangles_links(), lists, |_, chunk, _| {
            let inside = spans.iter().any(|span| span.range().contains(&chunk)) && chunks.len() < Marks::MAX;
            if inside {
                chunks.push(chunk);
            }
            inside
        })?;
        Ok(Marks::new(chunks))
    }
}
