//! The runs of a main arena that are not on the program break.
//!
//! When `sbrk` fails (something is mapped right above the break, or `RLIMIT_DATA` is reached), `sysmalloc` gets the main
//! arena's memory from `mmap` instead, in runs of 1 MiB and more (`MMAP_AS_MORECORE_SIZE`; from 2.35 to 2.37 of 132 KiB and
//! more, because two arguments are swapped there), and sets `NONCONTIGUOUS_BIT` for good (malloc/malloc.c, `sysmalloc` and
//! `sysmalloc_mmap_fallback`, 2.27 to 2.43). No pointer leads to such a run. But it starts with a chunk, whose page
//! `malloc_trim` never returns, and its chunks follow each other up to the arena's top or to the two headers of 16 bytes that
//! end a run when the next one is begun (`set_head (…, CHUNK_HDR_SZ | PREV_INUSE)`; three where 16 bytes of the old top were
//! left over). So wherever a page starts with what may be a chunk, the chain is followed; only one that ends like that is a
//! run.

use super::chunk::{Place, Window};
use super::layout::{CHUNK_HEADER, FLAGS, MIN_CHUNK, PREV_IN_USE, WORD};
use super::walk::{READINGS, WINDOW_BYTES};
use std::ops::Range;
use unbloat_process::{Memory, PAGE_SIZE, Result};

/// Pages that are looked at with one call.
const BATCH: usize = 1024;
/// Bytes whose residency is asked for at once.
const STRIDE_BYTES: u64 = 64 << 20;
/// A chain that breaks after more chunks than this was perhaps just being changed, and is looked at again.
const CONVINCING_CHAIN: usize = 16;
/// So often may chains read all that is resident, on average: hostile memory may be full of chains that lead nowhere.
/// (Windows that grow and overlap read a run up to three times.)
const MAX_PASSES: u64 = 8;

/// Finds the runs of the main arena, whose top chunk is at `top`, in the ranges, in order; absent pages are not touched. What a change in a live process,
/// or damage, hides from it, is missing from the arena's own `system_mem`.
///
/// # Errors
/// The process is gone or may not be read.
pub fn find(memory: &dyn Memory, ranges: &[Range<u64>], top: u64) -> Result<Vec<Range<u64>>> {
    let mut chain = Chain { memory, top, start: 0, buffer: Vec::new(), left: WINDOW_BYTES };
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let mut at = range.start.next_multiple_of(PAGE_SIZE);
        while at < range.end {
            let end = at.saturating_add(STRIDE_BYTES).min(range.end);
            let (starts, resident) = starts(memory, at..end)?;
            chain.left += MAX_PASSES * resident;
            for first in starts {
                if runs.last().is_none_or(|run| run.end <= first) {
                    runs.extend(chain.end(first, range.end)?.map(|end| first..end));
                }
            }
            at = runs.last().map_or(end, |run| run.end.max(end));
        }
    }
    Ok(runs)
}

/// The pages of a range that start with what may be the first chunk of a run, and the range's resident bytes.
fn starts(memory: &dyn Memory, range: Range<u64>) -> Result<(Vec<u64>, u64)> {
    let residency = memory.residency(range.start, (range.end - range.start).next_multiple_of(PAGE_SIZE))?;
    let pages: Vec<u64> = residency.resident_runs().flat_map(|run| run.step_by(PAGE_SIZE as usize)).collect();
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
    /// Where the run ends that starts with a chunk at `first`, if it is one. Nothing at `limit` and beyond belongs to it.
    fn end(&mut self, first: u64, limit: u64) -> Result<Option<u64>> {
        let whole_pages = |end: u64| {
            Some(end).filter(|end| end.is_multiple_of(PAGE_SIZE) && (first + 1..=limit).contains(end))
        };
        let (mut at, mut steps, mut readings) = (first, 0, 0);
        self.buffer.clear();
        while at != self.top {
            if Window::new(self.start, &self.buffer).word(at.saturating_add(WORD)).is_none() {
                // Most chains break at once: no more is read than has been believed so far.
                let len = (2 * self.buffer.len() as u64).clamp(PAGE_SIZE, WINDOW_BYTES);
                if !self.read(at, len.min(limit - at / PAGE_SIZE * PAGE_SIZE))? {
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
                    if !self.read(at, PAGE_SIZE)? {
                        return Ok(None);
                    }
                }
                _ => return Ok(None),
            }
        }
        let size = self.memory.word(at + WORD).map_or(0, |head| head & !FLAGS);
        Ok(whole_pages(at.saturating_add(size)))
    }

    /// Copies what is resident of the pages from that of `at` on; `false` when too much has been read.
    fn read(&mut self, at: u64, len: u64) -> Result<bool> {
        let Some(left) = self.left.checked_sub(len) else { return Ok(false) };
        self.left = left;
        self.start = at / PAGE_SIZE * PAGE_SIZE;
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
    const RUN: u64 = 33 * PAGE_SIZE;

    /// A run of chunks of 48 bytes, ended by two headers of 16 bytes each.
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
        let newest = AT + 4 * PAGE_SIZE + 2 * RUN + 7 * PAGE_SIZE;
        memory.write(AT, &vec![0x5a; 4 * PAGE_SIZE as usize]);
        lay_run(&mut memory, AT + 4 * PAGE_SIZE);
        lay_run(&mut memory, AT + 4 * PAGE_SIZE + RUN);
        memory.write(newest, &vec![0; RUN as usize]);
        memory.write_word(newest + 8, 0x1001);
        memory.write_word(newest + 0x1008, (RUN - 0x1000) | 1);
        let range = AT..newest + RUN + PAGE_SIZE;
        let found = find(&memory, std::slice::from_ref(&range), newest + 0x1000).unwrap();
        let starts = [AT + 4 * PAGE_SIZE, AT + 4 * PAGE_SIZE + RUN, newest];
        assert_eq!(found, starts.map(|start| start..start + RUN));
    }

    #[test]
    fn chains_that_lead_nowhere_are_no_runs_and_cost_little() {
        let mut memory = SyntheticMemory::default();
        let len = 2 * RUN;
        memory.write(AT, &vec![0; len as usize]);
        // Every page starts a chain to the end of the range, where nothing is.
        (AT..AT + len).step_by(32).for_each(|at| memory.write_word(at + 8, 0x21));
        let range = AT..AT + len;
        assert_eq!(find(&memory, std::slice::from_ref(&range), 0).unwrap(), []);
    }
}
