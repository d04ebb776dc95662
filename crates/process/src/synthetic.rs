//! Synthetic memory, which tests and fuzz targets pass to the walkers instead of a process.

use crate::{Error, Memory, Pid, Residency, Result, page_size};
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages that have been written, by address; everything else is unmapped.
#[derive(Debug, Clone, Default)]
pub struct SyntheticMemory(BTreeMap<u64, Box<[u8]>>);

impl SyntheticMemory {
    /// Writes bytes at an address, creating the pages they occupy.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        let mut rest = bytes;
        let mut at = address;
        while !rest.is_empty() {
            let (page, offset) = (at / page_size(), (at % page_size()) as usize);
            let (now, later) = rest.split_at(rest.len().min(page_size() as usize - offset));
            let page = self.0.entry(page).or_insert_with(|| vec![0; page_size() as usize].into());
            page[offset..offset + now.len()].copy_from_slice(now);
            at = at.wrapping_add(now.len() as u64);
            rest = later;
        }
    }

    /// Writes one little-endian word.
    pub fn write_word(&mut self, address: u64, word: u64) {
        self.write(address, &word.to_le_bytes());
    }
}

impl Memory for SyntheticMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len();
        let mut done = 0;
        while done < len {
            let at = address.wrapping_add(done as u64);
            let offset = (at % page_size()) as usize;
            let step = (len - done).min(page_size() as usize - offset);
            let Some(page) = self.0.get(&(at / page_size())) else {
                return Err(Error::Unreadable { pid: Pid(0), address, len });
            };
            buffer[done..done + step].copy_from_slice(&page[offset..offset + step]);
            done += step;
        }
        Ok(())
    }

    fn residency(&self, start: u64, len: u64) -> Result<Residency> {
        let mut residency = Residency::none(start, len);
        let pages = start / page_size()..start.saturating_add(len).div_ceil(page_size());
        for (page, _) in self.0.range(pages) {
            residency.set_resident(page * page_size(), true);
        }
        Ok(residency)
    }

    fn populated(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut parts: Vec<Range<u64>> = Vec::new();
        for (page, _) in self.0.range(range.start / page_size()..range.end.div_ceil(page_size())) {
            let part = (page * page_size()).max(range.start)..((page + 1) * page_size()).min(range.end);
            match parts.last_mut().filter(|last| last.end == part.start) {
                Some(last) => last.end = part.end,
                None => parts.push(part),
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_written_is_read_across_pages_and_the_rest_is_not_there() {
        let (mut memory, boundary) = (SyntheticMemory::default(), 2 * page_size());
        memory.write(boundary - 4, b"across pages");
        let mut read = [0; 12];
        memory.read(boundary - 4, &mut read).unwrap();
        assert_eq!(&read, b"across pages");
        assert!(memory.word(3 * page_size()).is_err());
        assert_eq!(memory.residency(0, 4 * page_size()).unwrap().resident_bytes(), 2 * page_size());
    }
}
