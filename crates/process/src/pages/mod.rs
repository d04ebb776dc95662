//! The resident pages of a range.
//!
//! A page counts as resident here exactly when the kernel counts it in RSS: present, and not the shared zero
//! page. `PAGEMAP_SCAN` (Linux 6.7, `Documentation/admin-guide/mm/pagemap.rst`) identifies the zero page. On
//! older kernels plain `/proc/PID/pagemap` is read (bit 63 present, 61 file page or shared anonymous), which
//! does not: zero pages then look resident, and [`PageMap::tells_zero_pages`] returns false.

#![allow(unsafe_code)] // one ioctl that no crate wraps

mod residency;

pub use residency::Residency;

use crate::{Error, Pid, Result, page_size};
pub(crate) use residency::RESIDENT;
use residency::{EXCLUSIVE, FILE};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// `/proc/PID/pagemap`, open.
#[derive(Debug)]
pub struct PageMap {
    pid: Pid,
    file: File,
    scan_works: AtomicBool,
}

/// `struct page_region` of `include/uapi/linux/fs.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PageRegion {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) categories: u64,
}

/// `struct pm_scan_arg` of `include/uapi/linux/fs.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

mod ioctl {
    #![allow(missing_docs)]
    nix::ioctl_readwrite!(pagemap_scan, b'f', 16, super::ScanArguments);
}

/// The ioctl number, for system call filters.
pub(crate) const PAGEMAP_SCAN: u64 =
    nix::request_code_readwrite!(b'f', 16, size_of::<ScanArguments>()) as u64;

const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_PFNZERO: u64 = 1 << 5;
/// The categories of any page.
pub(crate) const ANY_PAGE: u64 = PAGE_IS_PRESENT | PAGE_IS_PFNZERO;

/// Regions per scan. The vector must never be empty: that oopses some kernels (LKML, 2025-09-22).
const REGIONS: usize = 2048;

impl PageMap {
    /// Opens the page map of a process.
    ///
    /// # Errors
    /// The process is gone, or access to it is denied.
    pub fn of(pid: Pid) -> Result<Self> {
        let file = File::open(pid.proc("pagemap")).map_err(|e| Error::from_io(pid, "the page map", e))?;
        Ok(PageMap { pid, file, scan_works: AtomicBool::new(true) })
    }

    /// Returns whether shared zero pages are distinguished from resident ones. Known after the first query.
    #[must_use]
    pub fn tells_zero_pages(&self) -> bool {
        self.scan_works.load(Ordering::Relaxed)
    }

    /// Returns the resident pages among `len` bytes from `start` on. Both are multiples of the page size.
    ///
    /// # Errors
    /// The process is gone.
    pub fn residency(&self, start: u64, len: u64) -> Result<Residency> {
        self.look(start, len, ANY_PAGE)
    }

    /// Like [`PageMap::residency`], and also identifies pages of files or shared memory. For that the kernel
    /// reads its own description of each page, which is mostly not in the processor's caches: half a
    /// microsecond per page instead of a tenth.
    ///
    /// # Errors
    /// The process is gone.
    pub fn residency_with_files(&self, start: u64, len: u64) -> Result<Residency> {
        self.look(start, len, ANY_PAGE | PAGE_IS_FILE)
    }

    /// Like [`PageMap::residency_with_files`], and also identifies pages mapped exclusively by this process
    /// (bit 56 of a pagemap entry, since Linux 4.2; `PAGEMAP_SCAN` does not report it).
    ///
    /// # Errors
    /// The process is gone.
    pub fn residency_with_sharing(&self, start: u64, len: u64) -> Result<Residency> {
        let mut residency = self.residency(start, len)?;
        let runs: Vec<_> = residency.resident_runs().collect();
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Ok(residency) };
        let from = (first.start - start) / page_size();
        let mut entries = vec![0; ((last.end - first.start) / page_size() * 8) as usize];
        let read = self.read_entries(first.start, &mut entries)?;
        let pages = residency.pages.iter_mut().skip(from as usize);
        for (page, entry) in pages.zip(entries[..read].chunks_exact(8)).filter(|(p, _)| **p & RESIDENT != 0) {
            let high = entry[7];
            *page |= if high & 1 != 0 { EXCLUSIVE } else { 0 } | if high & 0x20 != 0 { FILE } else { 0 };
        }
        Ok(residency)
    }

    /// Returns whether another process also maps a resident anonymous page of the range.
    pub(crate) fn shares_any(&self, start: u64, len: u64) -> Result<bool> {
        let pages = self.residency_with_sharing(start, len)?.pages;
        Ok(pages.iter().any(|page| page & (RESIDENT | FILE | EXCLUSIVE) == RESIDENT))
    }

    /// The process that the pages belong to.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Notes that this kernel has no `PAGEMAP_SCAN`.
    pub(crate) fn scan_is_missing(&self) {
        self.scan_works.store(false, Ordering::Relaxed);
    }

    fn look(&self, start: u64, len: u64, wanted: u64) -> Result<Residency> {
        if self.tells_zero_pages() {
            match self.scan(start, len, wanted) {
                Ok(residency) => return Ok(residency),
                Err(nix::errno::Errno::ENOTTY | nix::errno::Errno::EINVAL) => {
                    self.scan_is_missing();
                }
                // `pagemap_scan_get_args` (fs/proc/task_mmu.c): addresses that no process can have. A pointer
                // read during a change may lead there; nothing is resident at its target.
                Err(nix::errno::Errno::EFAULT) => return Ok(Residency::none(start, len)),
                Err(errno) => return Err(Error::from_io(self.pid, "the page map", errno.into())),
            }
        }
        self.read(start, len)
    }

    fn scan(&self, start: u64, len: u64, wanted: u64) -> nix::Result<Residency> {
        let mut residency = Residency::none(start, len);
        self.each_region(start, len, wanted, |region| {
            residency.mark(region.start..region.end, bits_of(region.categories));
        })?;
        Ok(residency)
    }

    /// Passes the regions of equal present pages to `take`, in order.
    pub(crate) fn each_region(
        &self,
        start: u64,
        len: u64,
        wanted: u64,
        mut take: impl FnMut(&PageRegion),
    ) -> nix::Result<()> {
        let (mut at, end) = (start, start.saturating_add(len));
        let mut regions = vec![PageRegion::default(); (len / page_size()).clamp(1, REGIONS as u64) as usize];
        while at < end {
            let mut arguments = ScanArguments {
                size: size_of::<ScanArguments>() as u64,
                start: at,
                end,
                vec: regions.as_mut_ptr() as u64,
                vec_len: regions.len() as u64,
                category_anyof_mask: PAGE_IS_PRESENT,
                return_mask: wanted,
                ..ScanArguments::default()
            };
            // SAFETY: `arguments` has the kernel's layout and `vec` points at `vec_len` regions that outlive the call.
            let found = unsafe { ioctl::pagemap_scan(self.file.as_raw_fd(), &raw mut arguments) }?;
            let found = &regions[..(found.max(0) as usize).min(regions.len())];
            found.iter().for_each(&mut take);
            // With many regions `walk_end` comes back after the last of them (seen on 6.18), so continue
            // after both.
            at = found.last().map_or(0, |last| last.end).max(arguments.walk_end).max(at + page_size());
        }
        Ok(())
    }

    fn read(&self, start: u64, len: u64) -> Result<Residency> {
        let mut residency = Residency::none(start, len);
        let mut entries = vec![0; residency.pages.len() * 8];
        let read = self.read_entries(start, &mut entries)?;
        for (page, entry) in residency.pages.iter_mut().zip(entries[..read].chunks_exact(8)) {
            // Bits 63 (present) and 61 (file or shared anonymous) lie in the last byte.
            let high = entry[7];
            *page = bits(high & 0x80 != 0, high & 0x20 != 0);
        }
        Ok(residency)
    }
}

impl PageMap {
    /// Reads the entries of the pages from `start` on and returns the number of bytes.
    fn read_entries(&self, start: u64, entries: &mut [u8]) -> Result<usize> {
        self.file
            .read_at(entries, start / page_size() * 8)
            .map_err(|e| Error::from_io(self.pid, "the page map", e))
    }
}

pub(crate) fn bits_of(categories: u64) -> u8 {
    let has = |category: u64| categories & category != 0;
    bits(has(PAGE_IS_PRESENT) && !has(PAGE_IS_PFNZERO), has(PAGE_IS_FILE))
}

fn bits(resident: bool, file: bool) -> u8 {
    (if resident { RESIDENT } else { 0 }) | (if file { FILE } else { 0 })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nothing_is_resident_where_no_process_has_memory() {
        let map = PageMap::of(Pid::this()).unwrap();
        for start in [1 << 63, (1 << 56) - page_size(), u64::MAX - page_size() + 1] {
            assert_eq!(map.residency(start, page_size()).unwrap().resident_bytes(), 0, "{start:#x}");
        }
    }

    #[test]
    fn scan_and_pagemap_agree_on_touched_and_untouched_pages() {
        let page = page_size();
        let mut block = vec![0u8; 64 * page as usize];
        let base = block.as_ptr() as u64;
        let first = base.next_multiple_of(page);
        block[(first + 3 * page - base) as usize] = 1;
        block[(first + 7 * page - base) as usize] = 1;
        let map = PageMap::of(Pid::this()).unwrap();
        let read = map.read(first, 60 * page).unwrap();
        assert!(read.is_resident(first + 3 * page) && read.is_resident(first + 7 * page));
        if let Ok(scanned) = map.scan(first, 60 * page, ANY_PAGE | PAGE_IS_FILE) {
            assert_eq!(scanned, read);
        }
    }
}
