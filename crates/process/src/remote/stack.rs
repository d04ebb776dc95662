//! Checks that a blocked thread's stack can carry a call: it is the thread's own, has room, and contains no
//! frame of a signal handler or of code that must not be interrupted.

use super::refusal::Unfit;
use crate::{Backing, LiveMemory, Maps, Memory, Residency, page_size};
use std::ops::Range;

/// Maximum depth of a stack; deeper ones are not searched.
const DEEPEST: u64 = 16 << 20;

/// The used part of a thread's stack.
#[derive(Debug)]
pub(super) struct Stack {
    /// Address of the first word.
    start: u64,
    words: Vec<u64>,
}

impl Stack {
    /// Reads the stack of a stopped thread, from its stack pointer to its bottom.
    ///
    /// The main thread has `[stack]`. glibc puts another thread's control block (the target of fs) above its
    /// stack in one mapping (`allocate_stack`, nptl/allocatestack.c), with a guard below. A thread that runs
    /// on anything else (an alternate signal stack, a fiber's or coroutine's stack) is not borrowed, because
    /// there may be data below its stack pointer.
    pub(super) fn of(
        memory: &LiveMemory,
        maps: &Maps,
        main_thread: bool,
        stack_pointer: u64,
        thread_pointer: u64,
    ) -> Result<Self, Unfit> {
        let mapping = maps.find(stack_pointer).ok_or(Unfit::ForeignStack)?;
        let bottom = match (main_thread, mapping.backing == Backing::MainStack) {
            (true, true) => mapping.end,
            (false, false) if mapping.range().contains(&thread_pointer) && thread_pointer > stack_pointer => {
                thread_pointer
            }
            _ => return Err(Unfit::ForeignStack),
        };
        // The pages of a file may be somebody's who does not answer (FUSE).
        if !mapping.write || mapping.shared || mapping.file().is_some() {
            return Err(Unfit::ForeignStack);
        }
        let used = stack_pointer & !7..bottom & !7;
        Self::read(memory, &used)
    }

    /// Reads a used part.
    ///
    /// All of it, including the few pages that are not resident, since a swapped-out frame must not be missed. A guard in
    /// between means that the stack pointer is on another stack; it makes the read fail.
    pub(super) fn read(memory: &LiveMemory, used: &Range<u64>) -> Result<Self, Unfit> {
        if used.end.checked_sub(used.start).is_none_or(|bytes| bytes > DEEPEST) {
            return Err(Unfit::ForeignStack);
        }
        let mut bytes = vec![0; (used.end - used.start) as usize];
        memory.read(used.start, &mut bytes).map_err(|_| Unfit::ForeignStack)?;
        let words = bytes.chunks_exact(8).filter_map(|w| w.try_into().ok()).map(u64::from_le_bytes).collect();
        Ok(Stack { start: used.start, words })
    }

    /// Its addresses.
    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.start + 8 * self.words.len() as u64
    }

    /// Returns the word at an address.
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.start).filter(|offset| offset % 8 == 0)?;
        self.words.get(usize::try_from(offset / 8).ok()?).copied()
    }

    /// Returns whether any word of the stack lies in one of the ranges. Every function that has not returned
    /// has its return address here; a leftover of an earlier call may lie here as well, and also counts.
    pub(super) fn mentions(&self, ranges: &[Range<u64>]) -> bool {
        self.words.iter().any(|word| ranges.iter().any(|range| range.contains(word)))
    }
}

/// Checks that a thread's stack has `bytes` of room below an address.
///
/// `[stack]` grows by itself, so the main thread's needs to be mapped only where Unbloat writes.
pub(super) fn check_room(
    memory: &LiveMemory,
    maps: &Maps,
    main_thread: bool,
    written: Range<u64>,
    bytes: u64,
) -> Result<(), Unfit> {
    let lowest = if main_thread { written.start } else { written.start.saturating_sub(bytes) };
    let pages = lowest & !(page_size() - 1)..written.end.next_multiple_of(page_size());
    let mapping = maps.find(written.end).ok_or(Unfit::NoRoom)?;
    if mapping.start > pages.start {
        return Err(Unfit::NoRoom);
    }
    let residency = memory.residency(pages.start, pages.end - pages.start).map_err(|_| Unfit::NoRoom)?;
    readable(memory, &residency)
}

/// Touches absent pages, because a guard without its own mapping (`MADV_GUARD_INSTALL`, glibc 2.42 on Linux
/// 6.13) is detectable only in this way. Reading an absent page maps the shared zero page, which does not
/// count in RSS.
fn readable(memory: &LiveMemory, pages: &Residency) -> Result<(), Unfit> {
    let mut byte = [0];
    let mut at = pages.start();
    while at < pages.start() + pages.len() {
        if !pages.is_resident(at) {
            memory.read(at, &mut byte).map_err(|_| Unfit::NoRoom)?;
        }
        at += page_size();
    }
    Ok(())
}
