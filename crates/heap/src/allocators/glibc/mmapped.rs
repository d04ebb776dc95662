//! Finds large chunks that have their own mappings.
//!
//! Nothing links them, so they are recognized by their header (`sysmalloc_mmap` and `_int_memalign`,
//! malloc/malloc.c). A chunk starts with its mapping unless an alignment was requested: then its first word
//! is its offset in the mapping, and its user memory starts at a multiple of a power of two. Its size has
//! only `IS_MMAPPED` set. Offset plus size is the length of the mapping, less 16 bytes from 2.43 on, where
//! the lowest bit of the first word marks huge pages. The kernel joins adjacent mappings, so a chunk's
//! mapping may start at any page of a kernel mapping. `mp_` has the number of mapped chunks and their total
//! bytes.

use super::layout::{CHUNK_HEADER, FLAGS, IS_MMAPPED};
use std::ops::Range;
use unbloat_process::{Memory, Result, page_size, windows};

/// Bytes per residency query.
const STRIDE_BYTES: u64 = 64 << 20;
/// Pages examined per call.
const BATCH: usize = 1024;
const HEADER_BYTES: usize = 16;
/// Offsets within a page where a chunk may start: at the start of the page, or so that its user memory is
/// aligned to 64, 128, … bytes or to the next page (an alignment of 32 leaves no room for a preceding chunk
/// and takes the next multiple, 64).
const OFFSETS: [u64; 8] = [0, 0x30, 0x70, 0xf0, 0x1f0, 0x3f0, 0x7f0, 0xff0];

/// A chunk with its own mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedChunk {
    /// The whole mapping.
    pub mapping: Range<u64>,
    /// The address of the chunk within it.
    pub address: u64,
}

/// Finds the mapped chunks whose mappings lie in one of the ranges, in order, without touching absent pages.
/// Aligned chunks take eight times as many reads, so they are searched for only if fewer than `expected`
/// chunks are found without them.
///
/// # Errors
/// The process is gone or may not be read.
pub fn find(memory: &dyn Memory, ranges: &[Range<u64>], expected: u64) -> Result<Vec<MappedChunk>> {
    let mut chunks = Vec::new();
    for offsets in [&OFFSETS[..1], &OFFSETS] {
        chunks.clear();
        for range in ranges {
            chunks.append(&mut in_range(memory, range, offsets)?);
        }
        if chunks.len() as u64 >= expected {
            break;
        }
    }
    Ok(chunks)
}

fn in_range(memory: &dyn Memory, range: &Range<u64>, offsets: &[u64]) -> Result<Vec<MappedChunk>> {
    let mut chunks: Vec<MappedChunk> = Vec::new();
    let mut headers = vec![0; BATCH * offsets.len() * HEADER_BYTES];
    let whole = range.start.next_multiple_of(page_size())..range.end;
    for window in windows(memory, &whole, STRIDE_BYTES) {
        // Where a chunk that was found reaches, nothing is looked for.
        let at = window.start.max(chunks.last().map_or(0, |chunk| chunk.mapping.end));
        if at >= window.end {
            continue;
        }
        let residency = memory.residency(at, (window.end - at).next_multiple_of(page_size()))?;
        let mut pages =
            residency.resident_runs().flat_map(|run| run.step_by(page_size() as usize)).peekable();
        while let Some(&first) = pages.peek() {
            // Skips the pages of the last chunk found.
            let known = chunks.last().map_or(0, |chunk| chunk.mapping.end);
            if first < known {
                pages.next();
                continue;
            }
            let batch: Vec<u64> = pages.by_ref().take(BATCH).collect();
            let addresses: Vec<u64> =
                batch.iter().flat_map(|page| offsets.iter().map(move |offset| page + offset)).collect();
            let readable = memory.gather(&addresses, HEADER_BYTES, &mut headers)?;
            for ((&address, header), _) in
                addresses.iter().zip(headers.chunks_exact(HEADER_BYTES)).zip(&readable).filter(|(_, r)| **r)
            {
                let free_from = chunks.last().map_or(range.start, |chunk| chunk.mapping.end);
                let found = mapping_of(address, header)
                    .filter(|mapping| free_from <= mapping.start && mapping.end <= range.end);
                chunks.extend(found.map(|mapping| MappedChunk { mapping, address }));
            }
        }
    }
    Ok(chunks)
}

/// Returns the mapping of the chunk with this header at `address`.
fn mapping_of(address: u64, header: &[u8]) -> Option<Range<u64>> {
    let word = |i: usize| header.get(i..i + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
    let (offset, head) = (word(0)? & !1, word(8)?);
    let size = head & !FLAGS;
    let start = address.checked_sub(offset).filter(|start| start.is_multiple_of(page_size()))?;
    // Up to 2.42, and from 2.43 on, respectively.
    let ends =
        [0, CHUNK_HEADER].into_iter().filter_map(|spare| address.checked_add(size)?.checked_add(spare));
    let end = ends.into_iter().find(|end| end.is_multiple_of(page_size()))?;
    (head & FLAGS == IS_MMAPPED && end - start >= page_size() && size >= CHUNK_HEADER).then_some(start..end)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use unbloat_process::SyntheticMemory;

    const AT: u64 = 0x7f00_0000_0000;

    fn header(before: u64, head: u64) -> Vec<u8> {
        [before.to_le_bytes(), head.to_le_bytes()].concat()
    }

    #[test]
    fn both_forms_of_the_header() {
        let of = |before, head| mapping_of(AT, &header(before, head));
        assert_eq!(of(0, 0x101002), Some(AT..AT + 0x101000));
        assert_eq!(of(1, 0x100ff2), Some(AT..AT + 0x101000));
        assert_eq!(of(0, 0x101003), None);
        assert_eq!(of(7, 0x101002), None);
        assert_eq!(of(0, 2), None);
        assert_eq!(of(0, !5), None);
        let aligned = |before, head| mapping_of(AT + 0xff0, &header(before, head));
        assert_eq!(aligned(0xff0, 0x101012), Some(AT..AT + 0x102000));
        assert_eq!(aligned(0xff0, 0x101002), Some(AT..AT + 0x102000));
        assert_eq!(aligned(0x1ff0, 0x101012), Some(AT - 0x1000..AT + 0x102000));
        assert_eq!(aligned(0xfe0, 0x101012), None);
    }

    /// A chunk across the border between two strides, followed directly by an aligned one.
    #[test]
    fn chunks_over_a_stride_and_next_to_each_other() {
        let mut memory = SyntheticMemory::default();
        let (start, middle) = (AT + STRIDE_BYTES - 0x3000, AT + STRIDE_BYTES + 0x5000);
        for page in (start..middle + 0x4000).step_by(page_size() as usize) {
            memory.write(page, &vec![0; page_size() as usize]);
        }
        memory.write(start, &header(0, 0x8002));
        memory.write(middle + 0xff0, &header(0xff0, 0x3012));
        let range = AT..AT + 2 * STRIDE_BYTES;
        let found = find(&memory, std::slice::from_ref(&range), 2).unwrap();
        let expected = [(start..middle, start), (middle..middle + 0x4000, middle + 0xff0)];
        assert_eq!(found, expected.map(|(mapping, address)| MappedChunk { mapping, address }));
    }
}
