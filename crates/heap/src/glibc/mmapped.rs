//! Large chunks that have mappings of their own.
//!
//! Nothing links them: they are recognized by their header (`sysmalloc_mmap`, malloc/malloc.c). A chunk starts with its
//! mapping; its size has only `IS_MMAPPED` set and is that of the mapping, from 2.43 on less 16 bytes; its first word is
//! 0 (1 from 2.43 on if it is of huge pages). The kernel joins adjacent mappings, so a chunk may start at any page of
//! one. How many there are, and their bytes, stands in `mp_`. Chunks with an alignment of their own (`memalign`) start
//! elsewhere in their mapping and are not recognized.

use super::layout::{CHUNK_HEADER, FLAGS, IS_MMAPPED};
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
            if let Some(size) = mapping_size(header).filter(|_| !inside_last)
                && page.checked_add(size).is_some_and(|end| end <= range.end)
            {
                chunks.push(page..page + size);
            }
        }
    }
    Ok(chunks)
}

/// The size of the mapping of the chunk that has this header.
fn mapping_size(header: &[u8]) -> Option<u64> {
    let word = |i: usize| header.get(i..i + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
    let (before, head) = (word(0)?, word(8)?);
    let size = head & !FLAGS;
    let marked = before <= 1 && head & FLAGS == IS_MMAPPED && size >= PAGE_SIZE - CHUNK_HEADER;
    // Up to 2.42, and from 2.43 on.
    [size, size.checked_add(CHUNK_HEADER)?]
        .into_iter()
        .find(|total| marked && total.is_multiple_of(PAGE_SIZE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_header() {
        let header = |before: u64, head: u64| [before.to_le_bytes(), head.to_le_bytes()].concat();
        assert_eq!(mapping_size(&header(0, 0x101002)), Some(0x101000));
        assert_eq!(mapping_size(&header(0, 0x100ff2)), Some(0x101000));
        assert_eq!(mapping_size(&header(0, 0x101003)), None);
        assert_eq!(mapping_size(&header(7, 0x101002)), None);
        assert_eq!(mapping_size(&header(0, 2)), None);
        assert_eq!(mapping_size(&header(0, !5)), None);
    }
}
