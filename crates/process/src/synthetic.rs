//! Made-up memory, which tests and fuzz targets give to the walkers instead of a process.

use crate::{Error, Memory, PAGE_SIZE, Pid, Residency, Result};
use std::collections::BTreeMap;

const PAGE: usize = PAGE_SIZE as usize;

/// Pages that have been written to, by address; everything else is mapped nowhere.
#[derive(Debug, Clone, Default)]
pub struct SyntheticMemory(BTreeMap<u64, Box<[u8; PAGE]>>);

impl SyntheticMemory {
    /// Writes bytes at an address, making the pages that it takes.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        let mut rest = bytes;
        let mut at = address;
        while !rest.is_empty() {
            let (page, offset) = (at / PAGE_SIZE, (at % PAGE_SIZE) as usize);
            let (now, later) = rest.split_at(rest.len().min(PAGE - offset));
            let page = self.0.entry(page).or_insert_with(|| Box::new([0; PAGE]));
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
            let offset = (at % PAGE_SIZE) as usize;
            let step = (len - done).min(PAGE - offset);
            let Some(page) = self.0.get(&(at / PAGE_SIZE)) else {
                return Err(Error::Unreadable { pid: Pid(0), address, len });
            };
            buffer[done..done + step].copy_from_slice(&page[offset..offset + step]);
            done += step;
        }
        Ok(())
    }

    fn residency(&self, start: u64, len: u64) -> Result<Residency> {
        let mut residency = Residency::none(start, len);
        let pages = start / PAGE_SIZE..start.saturating_add(len).div_ceil(PAGE_SIZE);
        for (page, _) in self.0.range(pages) {
            residency.set_resident(page * PAGE_SIZE, true);
        }
        Ok(residency)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_written_is_read_across_pages_and_the_rest_is_not_there() {
        let mut memory = SyntheticMemory::default();
        memory.write(0x1ffc, b"across pages");
        let mut read = [0; 12];
        memory.read(0x1ffc, &mut read).unwrap();
        assert_eq!(&read, b"across pages");
        assert!(memory.word(0x3000).is_err());
        assert_eq!(memory.residency(0, 0x4000).unwrap().resident_bytes(), 0x2000);
    }
}
