//! Reading another process's memory.
//!
//! Everything that walks a heap reads through the [`Memory`] trait, so that a walk can be tested on a heap that a test
//! has made up. The live implementation uses `process_vm_readv(2)`: no stop, no trace, one copy.
//!
//! **The fork trap**: `process_vm_readv` pins the pages that it reads, and since Linux 5.19 pinning a page that fork made
//! two processes share gives the target a copy of its own (`gup_must_unshare`, mm/gup.c): reading a forked worker would
//! make it grow by all that it still shares. `/proc/PID/mem` does not pin and leaves pages shared, but copies twice. So
//! it is used exactly for processes that share anonymous pages.
//!
//! **The zero-page trap**: reading an anonymous page that is not present makes the kernel map the shared zero page
//! there. RSS stays, but the pagemap then says "present". So ask [`crate::pages`] first and read resident pages only;
//! [`Memory::read_resident`] does both.

use crate::{Error, PAGE_SIZE, Pid, Residency, Result};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt as _;

/// The largest number of ranges that one `process_vm_readv` takes (`UIO_MAXIOV`, `include/uapi/linux/uio.h`).
const MAX_RANGES: usize = 1024;

/// Something with addresses that can be read: a live process, or a heap that a test has made.
pub trait Memory {
    /// Fills `buffer` from `address` on. Only for small reads of memory that is known to be present.
    ///
    /// # Errors
    /// Any byte of the range is not readable; the buffer's contents are then unspecified.
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<()>;

    /// Which pages of the range are resident. `start` and `len` are multiples of the page size.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    fn residency(&self, start: u64, len: u64) -> Result<Residency>;

    /// Fills `buffer` with the range that `residency` describes, reading resident pages only: the others are zero.
    /// A page that went away meanwhile is zero, too.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    fn read_resident(&self, residency: &Residency, buffer: &mut [u8]) -> Result<()> {
        buffer.fill(0);
        for run in residency.resident_runs() {
            let from = (run.start - residency.start()) as usize;
            let to = (run.end - residency.start()) as usize;
            let Some(part) = buffer.get_mut(from..to) else { break };
            if let Err(Error::Gone { pid }) = self.read(run.start, part) {
                return Err(Error::Gone { pid });
            }
        }
        Ok(())
    }

    /// One little-endian 64-bit word.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn word(&self, address: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads `size` bytes at each address into consecutive slots of `buffer`; says which could be read.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    fn gather(&self, addresses: &[u64], size: usize, buffer: &mut [u8]) -> Result<Vec<bool>> {
        let slots = buffer.chunks_exact_mut(size.max(1));
        Ok(addresses.iter().zip(slots).map(|(&a, slot)| self.read(a, slot).is_ok()).collect())
    }
}

/// The memory of a running process.
#[derive(Debug)]
pub struct LiveMemory {
    pid: Pid,
    pages: crate::PageMap,
    /// `/proc/PID/mem`, if reading otherwise would un-share pages.
    file: Option<File>,
}

impl LiveMemory {
    /// Opens the memory of a process. Nothing is stopped and nothing is read yet.
    ///
    /// # Errors
    /// The process is gone, or may not be read.
    pub fn of(pid: Pid) -> Result<Self> {
        let pages = crate::PageMap::of(pid)?;
        let open = || File::open(pid.proc("mem")).map_err(|e| Error::from_io(pid, "the memory", e));
        let file = if shares_pages(pid, &pages)? { Some(open()?) } else { None };
        Ok(LiveMemory { pid, pages, file })
    }

    /// Whose memory it is.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether shared zero pages are told from resident ones: see [`crate::PageMap::tells_zero_pages`].
    #[must_use]
    pub fn tells_zero_pages(&self) -> bool {
        self.pages.tells_zero_pages()
    }

    /// Consecutive bytes of `buffer` from the given ranges. Returns the bytes read, which are fewer when a range is not
    /// readable.
    fn vectored(&self, ranges: &[RemoteIoVec], buffer: &mut [u8]) -> Result<usize> {
        if let Some(file) = &self.file {
            return Ok(read_file(file, ranges, buffer));
        }
        let pid = nix::unistd::Pid::from_raw(self.pid.0);
        match process_vm_readv(pid, &mut [IoSliceMut::new(buffer)], ranges) {
            Ok(read) => Ok(read),
            Err(nix::errno::Errno::EFAULT) => Ok(0),
            Err(errno) => Err(Error::from_io(self.pid, "the memory", errno.into())),
        }
    }
}

/// Reads range after range until one fails.
fn read_file(file: &File, ranges: &[RemoteIoVec], buffer: &mut [u8]) -> usize {
    let mut done = 0;
    for range in ranges {
        let Some(part) = buffer.get_mut(done..done + range.len) else { break };
        let mut read = 0;
        while read < part.len() {
            match file.read_at(&mut part[read..], (range.base + read) as u64) {
                Ok(0) | Err(_) => return done + read,
                Ok(more) => read += more,
            }
        }
        done += read;
    }
    done
}

/// Whether the process shares any page of its private anonymous memory with another.
fn shares_pages(pid: Pid, pages: &crate::PageMap) -> Result<bool> {
    const STRIDE_BYTES: u64 = 64 << 20;
    for mapping in crate::Maps::of(pid)?.iter().filter(|mapping| mapping.is_private_anonymous()) {
        let mut at = mapping.start;
        while at < mapping.end {
            let len = STRIDE_BYTES.min(mapping.end - at);
            if pages.shares_any(at, len)? {
                return Ok(true);
            }
            at += len;
        }
    }
    Ok(false)
}

impl Memory for LiveMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len();
        let unreadable = Error::Unreadable { pid: self.pid, address, len };
        let Ok(base) = usize::try_from(address) else { return Err(unreadable) };
        match self.vectored(&[RemoteIoVec { base, len }], buffer)? {
            read if read == len => Ok(()),
            _ => Err(unreadable),
        }
    }

    fn residency(&self, start: u64, len: u64) -> Result<Residency> {
        self.pages.residency(start, len)
    }

    fn read_resident(&self, residency: &Residency, buffer: &mut [u8]) -> Result<()> {
        let offset = |address: u64| (address - residency.start()) as usize;
        // Only what is not read is zeroed: clearing all of it would cost as much as a third of the reading.
        let mut zeroed_to = 0;
        for run in residency.resident_runs() {
            if let Some(gap) = buffer.get_mut(zeroed_to..offset(run.start)) {
                gap.fill(0);
            }
            zeroed_to = offset(run.end);
            let (mut at, end) = (run.start, run.end);
            while at < end {
                let Some(part) = buffer.get_mut(offset(at)..offset(end)) else {
                    return Ok(());
                };
                let part_len = part.len();
                let read = self.vectored(&[RemoteIoVec { base: at as usize, len: part_len }], part)?;
                // A page in the way has gone meanwhile: it is zero.
                let next = ((at + read as u64) / PAGE_SIZE * PAGE_SIZE + PAGE_SIZE).min(end);
                if let Some(gone) = part.get_mut(read..offset(next) - offset(at)).filter(|_| read < part_len)
                {
                    gone.fill(0);
                }
                at = if read == part_len { end } else { next };
            }
        }
        if let Some(rest) = buffer.get_mut(zeroed_to..) {
            rest.fill(0);
        }
        Ok(())
    }

    fn gather(&self, addresses: &[u64], size: usize, buffer: &mut [u8]) -> Result<Vec<bool>> {
        let mut readable = vec![false; addresses.len()];
        if size == 0 {
            return Ok(readable);
        }
        let mut done = 0;
        while let Some(rest) = addresses.get(done..).filter(|rest| !rest.is_empty()) {
            let batch = &rest[..rest.len().min(MAX_RANGES)];
            let ranges: Vec<_> = batch.iter().map(|&a| RemoteIoVec { base: a as usize, len: size }).collect();
            let Some(part) = buffer.get_mut(done * size..(done + batch.len()) * size) else { break };
            let complete = self.vectored(&ranges, part)? / size;
            readable[done..done + complete].fill(true);
            // The first range that failed is skipped; the rest is asked for again.
            done += if complete == batch.len() { complete } else { complete + 1 };
        }
        Ok(readable)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn gather_skips_what_is_not_mapped() {
        let memory = LiveMemory::of(Pid::this()).unwrap();
        let values = [1u64, 2, 3];
        let address = |i: usize| std::ptr::from_ref(&values[i]) as u64;
        let mut buffer = [0; 32];
        let readable = memory.gather(&[address(2), 16, address(0), 32], 8, &mut buffer).unwrap();
        assert_eq!(readable, [true, false, true, false]);
        assert_eq!(u64::from_le_bytes(buffer[..8].try_into().unwrap()), 3);
        assert_eq!(u64::from_le_bytes(buffer[16..24].try_into().unwrap()), 1);
    }

    #[test]
    fn an_unmapped_address_is_an_error_and_not_a_crash() {
        let memory = LiveMemory::of(Pid::this()).unwrap();
        assert!(matches!(memory.word(8), Err(Error::Unreadable { address: 8, .. })));
        assert!(matches!(memory.word(u64::MAX - 3), Err(Error::Unreadable { .. })));
    }
}
