//! Small reads that leave the target as it is, touching resident pages only.
//!
//! Reading an absent page would map the zero page there, fault a file page in, or bring a page back from swap
//! (see [`crate::memory`]). [`ResidentOnly`] queries the page map first, caches the answers in 2 MiB pieces,
//! and refuses everything else with [`Error::Absent`].

use crate::{Error, Memory, Residency, Result, page_size};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

/// Range of one page-map query.
const REGION_BYTES: u64 = 2 << 20;
/// Maximum number of cached pieces: 32 MiB of page states.
const MAX_REGIONS: usize = 1 << 16;

/// Reads the word at an address if its page is currently resident.
///
/// # Errors
/// The process is gone or access to it is denied.
pub fn word_if_resident(memory: &dyn Memory, address: u64) -> Result<Option<u64>> {
    let page = address / page_size() * page_size();
    if address > u64::MAX - 2 * page_size()
        || !address.is_multiple_of(8)
        || !memory.residency(page, page_size())?.is_resident(page)
    {
        return Ok(None);
    }
    Ok(memory.word(address).ok())
}

/// A view of memory that cannot touch absent pages. Residency of a piece is cached from the first query on,
/// so create a fresh view for a fresh look.
pub struct ResidentOnly<'a> {
    inner: &'a dyn Memory,
    regions: RefCell<HashMap<u64, Residency>>,
}

impl<'a> ResidentOnly<'a> {
    /// Creates a view of `inner`.
    #[must_use]
    pub fn new(inner: &'a dyn Memory) -> Self {
        ResidentOnly { inner, regions: RefCell::default() }
    }

    /// Returns whether every page of the range is resident.
    ///
    /// # Errors
    /// The process is gone or access to it is denied.
    pub fn is_resident(&self, address: u64, len: u64) -> Result<bool> {
        let Some(last) = address.checked_add(len.max(1) - 1) else { return Ok(false) };
        for page in address / page_size()..=last / page_size() {
            if !self.page_is_resident(page * page_size())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn page_is_resident(&self, address: u64) -> Result<bool> {
        let region = address / REGION_BYTES * REGION_BYTES;
        let mut regions = self.regions.borrow_mut();
        if regions.len() >= MAX_REGIONS {
            regions.clear();
        }
        let known = match regions.entry(region) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(unknown) => {
                let len = REGION_BYTES.min(u64::MAX - region) / page_size() * page_size();
                unknown.insert(self.inner.residency(region, len)?)
            }
        };
        Ok(known.is_resident(address))
    }
}

impl Memory for ResidentOnly<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<()> {
        if !self.is_resident(address, buffer.len() as u64)? {
            return Err(Error::Absent { address });
        }
        self.inner.read(address, buffer)
    }

    fn residency(&self, start: u64, len: u64) -> Result<Residency> {
        self.inner.residency(start, len)
    }

    fn residency_with_files(&self, start: u64, len: u64) -> Result<Residency> {
        self.inner.residency_with_files(start, len)
    }

    fn populated(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.inner.populated(range)
    }

    fn read_resident(&self, residency: &Residency, buffer: &mut [u8]) -> Result<()> {
        self.inner.read_resident(residency, buffer)
    }

    fn gather(&self, addresses: &[u64], size: usize, buffer: &mut [u8]) -> Result<Vec<bool>> {
        let mut present = Vec::with_capacity(addresses.len());
        for &address in addresses {
            present.push(self.is_resident(address, size as u64)?);
        }
        if present.iter().all(|&p| p) {
            return self.inner.gather(addresses, size, buffer);
        }
        let wanted: Vec<u64> = addresses.iter().zip(&present).filter(|(_, p)| **p).map(|(&a, _)| a).collect();
        let mut packed = vec![0; wanted.len() * size];
        let mut read =
            self.inner.gather(&wanted, size, &mut packed)?.into_iter().zip(packed.chunks_exact(size.max(1)));
        for (here, slot) in present.iter_mut().zip(buffer.chunks_exact_mut(size.max(1))).filter(|(p, _)| **p)
        {
            if let Some((readable, bytes)) = read.next() {
                *here = readable;
                slot.copy_from_slice(bytes);
            }
        }
        Ok(present)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{LiveMemory, Pid};

    #[test]
    fn an_untouched_page_stays_untouched() {
        let block = vec![0u8; 64 << 20]; // too large for anything except a fresh mapping
        let inside = (block.as_ptr() as u64).next_multiple_of(page_size()) + 16 * page_size();
        let memory = LiveMemory::of(Pid::this()).unwrap();
        let careful = ResidentOnly::new(&memory);
        assert!(matches!(careful.word(inside), Err(Error::Absent { .. })));
        assert!(!memory.residency(inside, page_size()).unwrap().is_resident(inside));

        let mut buffer = [0; 16];
        let value = 77u64;
        let readable = careful.gather(&[inside, std::ptr::from_ref(&value) as u64], 8, &mut buffer).unwrap();
        assert_eq!(readable, [false, true]);
        assert_eq!(buffer[8], 77);
    }
}
