//! Large chunks that have mappings of their own.
//!
//! Nothing links them: they are recognized by their header (`sysmalloc_mmap`, malloc/malloc.c). Up to 2.42 a chunk
//! starts with its mapping, its size is a multiple of the page size and has only `IS_MMAPPED` set, and its first word is
//! 0. The kernel joins adjacent mappings, so a chunk may start at any page of one. How many there are, and their bytes,
//! stands in `mp_`.

use super::layout::{FLAGS, IS_MMAPPED};
use std::ops::Range;
use unbloat_process::{Memory, PAGE_SIZE, Residency, Result};

/// Pages whose first words are read with one call.
const BATCH: usize = 1024;
const HEADER_BYTES: usize = 16;

/// Finds the mapped chunks in `range`, which `residency` describes; absent pages are not touched.
///
/// # Errors
/// The process is gone or may not be read.
pub fn find(memory: &dyn Memory, range: &Range<u64>, residency: &Residency) -> Result<Vec<Range<u64>>> {
    let mut chunks: Vec<Range<u64>> = Vec::new();
    let mut pages = residency
        .resident_runs()
        .flat_map(|run| (run.start.max(range.start)..run.end.min(range.end)).step_by(PAGE_SIZE as usize))
        .peekable();
    let mut headers = vec![0; BATCH * HEADER_BYTES];
    while pages.peek().is_some() {
        let batch: Vec<u64> = pages.by_ref().take(BATCH).collect();
        let readable = memory.gather(&batch, HEADER_BYTES, &mut headers)?;
        for ((&page, header), _) in
            batch.iter().zip(headers.chunks_exact(HEADER_BYTES)).zip(&readable).filter(|(_, r)| **r)
        {
            let inside_last = chunks.last().is_some_and(|chunk| page < chunk.end);
            if let Some(size) = chunk_size(header).filter(|_| !inside_last)
                && page.checked_add(size).is_some_and(|end| end <= range.end)
            {
                chunks.push(page..page + size);
            }
        }
    }
    Ok(chunks)
}

/// The size of the mapped chunk that has this header.
fn chunk_size(header: &[u8]) -> Option<u64> {
    let word = |i: usize| header.get(i..i + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
    let (before, size) = (word(0)?, word(8)?);
    let fits = before == 0 && size & FLAGS == IS_MMAPPED && (size & !FLAGS).is_multiple_of(PAGE_SIZE);
    Some(size & !FLAGS).filter(|&size| fits && size > 0)
}
