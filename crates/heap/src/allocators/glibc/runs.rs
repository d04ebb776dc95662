//! Finds the runs of a main arena that are not on the program break.
//!
//! When `sbrk` fails (something is mapped right above the break, or `RLIMIT_DATA` is reached), `sysmalloc`
//! takes the main arena's memory from `mmap` instead, in runs of at least 1 MiB (`MMAP_AS_MORECORE_SIZE`;
//! from 2.35 to 2.37 at least 132 KiB, because two arguments are swapped there), and sets `NONCONTIGUOUS_BIT`
//! for good (malloc/malloc.c, `sysmalloc` and `sysmalloc_mmap_fallback`, 2.27 to 2.43). No pointer leads to
//! such a run. But it starts with a chunk, whose page `malloc_trim` never returns, and its chunks follow each
//! other up to the arena's top, or up to the two 16-byte headers that end a run when the next one starts
//! (`set_head (…, CHUNK_HDR_SZ | PREV_INUSE)`; three where 16 bytes of the old top were left over). So the
//! chain is followed from every page that starts with a plausible chunk; only a chain that ends in this way
//! is a run.

use super::chunk::{Place, Window};
use super::layout::{CHUNK_HEADER, FLAGS, MIN_CHUNK, PREV_IN_USE, WORD};
use super::walk::{READINGS, WINDOW_BYTES};
use std::ops::Range;
use unbloat_process::{Memory, Result, page_size, windows};

/// Pages examined per call.
const BATCH: usize = 1024;
/// Bytes per residency query.
const STRIDE_BYTES: u64 = 64 << 20;
/// Length from which a chain that breaks is retried, since it was probably being changed.
const CONVINCING_CHAIN: usize = 16;
/// Maximum number of times that chains may read all resident memory, on average: hostile memory may be full
/// of chains that lead nowhere. (Windows that grow and overlap read a run up to three times.)
const MAX_PASSES: u64 = 8;

/// Finds the runs of the main arena, whose top chunk is at `top`, within the ranges, in order, without
/// touching absent pages. Runs missed through concurrent change or damage show as a shortfall against the
/// arena's `system_mem`.
///
/// # Errors
/// The process is gone or may not be read.
pub fn find(memory: &dyn Memory, ranges: &[Range<u64>], top: u64) -> Result<Vec<Range<u64>>> {
    let mut chain = Chain { memory, top, start: 0, buffer: Vec::new(), left: WINDOW_BYTES };
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let whole = range.start.next_multiple_of(page_size())..range.end;
        for window in windows(memory, &whole, STRIDE_BYTES) {
            // Where a run that was found reaches, no other begins.
            let at = window.start.max(runs.last().map_or(0, |run| run.end));
            if at >= window.end {
                continue;
            }
            let (starts, resident) = starts(memory, at..window.end)?;
            chain.left += MAX_PASSES * resident;
            for first in starts {
                if runs.last().is_none_or(|run| run.end <= first) {
                    runs.extend(chain.end(first, range.end)?.map(|end| first..end));
                }
            }
        }
    }
    Ok(runs)
}

/// Returns the pages of a range that start with a plausible first chunk of a run, and the range's resident
/// bytes.
fn starts(memory: &dyn Memory, range: Range<u64>) -> Result<(Vec<u64>, u64)> {
    let residency = memory.residency(range.start, (range.end - range.start).next_multiple_of(page_size()))?;
    let pages: Vec<u64> =
        residency.resident_runs().flat_map(|run| run.step_by(page_size() as usize)).collect();
    let mut heads = vec![0; BATCH * WORD as usize];
    let mut starts = Vec::new();
    for batch in pages.chunks(BATCH) {
        let addresses: Vec<u64> = batch.iter().map(|page| page + WORD).collect();
        let readable = memory.gather(&addresses, WORD as usize, &mut heads)?;
        let heads = heads.chunks_exact(WORD as usize).map(|b| b.try_into().map_or(0, u64::from_le_bytes));
        let fits = |head: u64| head & 0xf == PREV_IN_USE && head > MIN_CHUNK;
        let found =
            batch.iter().zip(heads).zip(readable).filter(|((_, head), readable)| *readable && fits(*head));
        starts.extend(found.map(|((page, _), _)| *page));
    }
    Ok((starts, residency.resident_bytes()))
}

/// Follows chunks from one to the next through copied windows.
struct Chain<'a> {
    memory: &'a dyn Memory,
    top: u64,
    start: u64,
    buffer: Vec<u8>,
    /// Bytes that may still be read.
    left: u64,
}

impl Chain<'_> {
    /// Returns the end of the run that starts with a chunk at `first`, if there is one. Nothing from `limit`
    /// on belongs to it.
    fn end(&mut self, first: u64, limit: u64) -> Result<Option<u64>> {
        let whole_pages = |end: u64| {
            Some(end).filter(|end| end.is_multiple_of(page_size()) && (first + 1..=limit).contains(end))
        };
        let (mut at, mut steps, mut readings) = (first, 0, 0);
        self.buffer.clear();
        while at != self.top {
            if Window::new(self.start, &self.buffer).word(at.saturating_add(WORD)).is_none() {
                // Most chains break at once, so each read is only as long as the chain confirmed so far.
                let len = (2 * self.buffer.len() as u64).clamp(page_size(), WINDOW_BYTES);
                if !self.read(at, len.min(limit - at / page_size() * page_size()))? {
                    return Ok(None);
                }
            }
            let window = Window::new(self.start, &self.buffer);
            match window.place(at, limit) {
                Place::Chunk { size, .. } | Place::Long { size } => {
                    (at, steps, readings) = (at + size, steps + 1, 0);
                }
                Place::Fencepost { size } => {
                    let is_last = |at: &u64| window.word(at + WORD) == Some(CHUNK_HEADER | PREV_IN_USE);
                    let ends = [at + size, at + 2 * size];
                    return Ok(ends.iter().filter(|at| is_last(at)).find_map(|at| whole_pages(at + size)));
                }
                Place::Broken(_) if steps > CONVINCING_CHAIN && readings < READINGS => {
                    readings += 1;
                    if !self.read(at, page_size())? {
                        return Ok(None);
                    }
                }
                _ => return Ok(None),
            }
        }
        let size = self.memory.word(at + WORD).map_or(0, |head| head & !FLAGS);
        Ok(whole_pages(at.saturating_add(size)))
    }

    /// Copies the resident pages starting with that of `at`; `false` once too much has been read.
    fn read(&mut self, at: u64, len: u64) -> Result<bool> {
        let Some(left) = self.left.checked_sub(len) else { return Ok(false) };
        self.left = left;
        self.start = at / page_size() * page_size();
        let residency = self.memory.residency(self.start, len)?;
        self.buffer.resize(len as usize, 0);
        self.memory.read_resident(&residency, &mut self.buffer)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use unbloat_process::SyntheticMemory;

    const AT: u64 = 0x7f00_0000_0000;
    /// A multiple of every page size.
    const RUN: u64 = 33 << 16;

    /// A run of 48-byte chunks, ended by two 16-byte headers.
    fn lay_run(memory: &mut SyntheticMemory, start: u64) {
        memory.write(start, &vec![0; RUN as usize]);
        let chunks = (RUN - 32) / 48;
        (0..chunks).for_each(|i| memory.write_word(start + 48 * i + 8, 0x31));
        let rest = start + 48 * chunks;
        memory.write_word(rest + 8 - 48, (48 + (start + RUN - 32 - rest)) | 1);
        memory.write_word(start + RUN - 24, 0x11);
        memory.write_word(start + RUN - 8, 0x11);
    }

    #[test]
    fn adjacent_runs_and_the_one_with_the_top() {
        let mut memory = SyntheticMemory::default();
        let newest = AT + 4 * page_size() + 2 * RUN + 7 * page_size();
        memory.write(AT, &vec![0x5a; 4 * page_size() as usize]);
        lay_run(&mut memory, AT + 4 * page_size());
        lay_run(&mut memory, AT + 4 * page_size() + RUN);
        memory.write(newest, &vec![0; RUN as usize]);
        memory.write_word(newest + 8, 0x1001);
        memory.write_word(newest + 0x1008, (RUN - 0x1000) | 1);
        let range = AT..newest + RUN + page_size();
        let found = find(&memory, std::slice::from_ref(&range), newest + 0x1000).unwrap();
        let starts = [AT + 4 * page_size(), AT + 4 * page_size() + RUN, newest];
        assert_eq!(found, starts.map(|start| start..start + RUN));
    }

    #[test]
    fn chains_that_lead_nowhere_are_no_runs_and_cost_little() {
        let mut memory = SyntheticMemory::default();
        let len = 2 * RUN;
        memory.write(AT, &vec![0; len as usize]);
        // Every page starts a chain up to the end of the range, where it breaks.
        (AT..AT + len).step_by(32).for_each(|at| memory.write_word(at + 8, 0x21));
        let range = AT..AT + len;
        assert_eq!(find(&memory, std::slice::from_ref(&range), 0).unwrap(), []);
    }
}
