//! Reads another process's memory.
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
use std::ops::Range;
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

    /// The resident pages of the range. `start` and `len` are multiples of the page size.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    fn residency(&self, start: u64, len: u64) -> Result<Residency>;

    /// As [`Memory::residency`], and which pages belong to files or shared memory. For private anonymous memory, which has
    /// none, [`Memory::residency`] is several times faster.
    ///
    /// # Errors
    /// As [`Memory::residency`].
    fn residency_with_files(&self, start: u64, len: u64) -> Result<Residency> {
        self.residency(start, len)
    }

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
    /// The same, opened by the parent of a look. Yama lets that one read its descendants and denies it to the look, which
    /// is only a sibling of theirs.
    inherited: Option<File>,
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
        Ok(LiveMemory { pid, pages, file, inherited: None })
    }

    /// The memory of a pinned process.
    ///
    /// # Errors
    /// The process is gone, or may not be read.
    pub fn of_pinned(pinned: &crate::Pinned) -> Result<Self> {
        let pid = pinned.pid();
        let Some(memory) = pinned.memory() else { return Self::of(pid) };
        let pages = crate::PageMap::of(pid)?;
        let inherit = || memory.try_clone().map_err(|e| Error::from_io(pid, "the memory", e));
        let file = if shares_pages(pid, &pages)? { Some(inherit()?) } else { None };
        Ok(LiveMemory { pid, pages, file, inherited: Some(inherit()?) })
    }

    /// The page tables of a process whose memory may not be read: they tell what is resident, and any reading fails.
    ///
    /// # Errors
    /// The process is gone, or not even they may be read.
    pub fn tables_only(pid: Pid) -> Result<Self> {
        Ok(LiveMemory { pid, pages: crate::PageMap::of(pid)?, file: None, inherited: None })
    }

    /// Whose memory it is.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns whether shared zero pages are told from resident ones: see [`crate::PageMap::tells_zero_pages`].
    #[must_use]
    pub fn tells_zero_pages(&self) -> bool {
        self.pages.tells_zero_pages()
    }

    /// Fills the buffers, one after the other, from the given ranges; no range goes over the end of a buffer. Returns the
    /// bytes read, which are fewer when a range is not readable.
    fn vectored(&self, ranges: &[RemoteIoVec], buffers: &mut [IoSliceMut<'_>]) -> Result<usize> {
        if let Some(file) = &self.file {
            return Ok(read_file(file, ranges, buffers));
        }
        let pid = nix::unistd::Pid::from_raw(self.pid.0);
        match process_vm_readv(pid, buffers, ranges) {
            Ok(read) => Ok(read),
            Err(nix::errno::Errno::EFAULT) => Ok(0),
            Err(nix::errno::Errno::EPERM) if self.inherited.is_some() => {
                Ok(self.inherited.as_ref().map_or(0, |file| read_file(file, ranges, buffers)))
            }
            Err(errno) => Err(Error::from_io(self.pid, "the memory", errno.into())),
        }
    }
}

/// Reads range after range until one fails.
fn read_file(file: &File, ranges: &[RemoteIoVec], buffers: &mut [IoSliceMut<'_>]) -> usize {
    let (mut done, mut used) = (0, 0);
    let mut buffers = buffers.iter_mut().peekable();
    for range in ranges {
        while buffers.peek().is_some_and(|buffer| used >= buffer.len()) {
            (used, _) = (0, buffers.next());
        }
        let Some(part) = buffers.peek_mut().and_then(|b| b.get_mut(used..used + range.len)) else { break };
        let mut read = 0;
        while read < part.len() {
            match file.read_at(&mut part[read..], (range.base + read) as u64) {
                Ok(0) | Err(_) => return done + read,
                Ok(more) => read += more,
            }
        }
        (done, used) = (done + read, used + read);
    }
    done
}

/// The parts of `buffer`, which holds memory from `start` on, that belong to `runs`.
fn parts<'b>(buffer: &'b mut [u8], start: u64, runs: &[Range<u64>]) -> Vec<IoSliceMut<'b>> {
    let (mut rest, mut at) = (buffer, start);
    let part = |run: &Range<u64>| {
        let (_, from) = std::mem::take(&mut rest).split_at_mut_checked((run.start - at) as usize)?;
        let (part, after) = from.split_at_mut_checked((run.end - run.start) as usize)?;
        (rest, at) = (after, run.end);
        Some(IoSliceMut::new(part))
    };
    runs.iter().map_while(part).collect()
}

/// The address at which the reading of `runs` ended that yielded `read` bytes; `None` if all were read.
fn stopped_at(runs: &[Range<u64>], mut read: u64) -> Option<u64> {
    for run in runs {
        let len = run.end - run.start;
        if read < len {
            return Some(run.start + read);
        }
        read -= len;
    }
    None
}

/// Returns whether the process shares any page of its private anonymous memory with another.
fn shares_pages(pid: Pid, pages: &crate::PageMap) -> Result<bool> {
    const STRIDE_BYTES: u64 = 64 << 20;
    for mapping in crate::Maps::of(pid)?.iter().filter(|mapping| mapping.is_private_anonymous()) {
        for part in pages.populated(mapping.start, mapping.len())? {
            let mut at = part.start;
            while at < part.end {
                let len = STRIDE_BYTES.min(part.end - at);
                if pages.shares_any(at, len)? {
                    return Ok(true);
                }
                at += len;
            }
        }
    }
    Ok(false)
}

impl Memory for LiveMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len();
        let unreadable = Error::Unreadable { pid: self.pid, address, len };
        let Ok(base) = usize::try_from(address) else { return Err(unreadable) };
        match self.vectored(&[RemoteIoVec { base, len }], &mut [IoSliceMut::new(buffer)])? {
            read if read == len => Ok(()),
            _ => Err(unreadable),
        }
    }

    fn residency(&self, start: u64, len: u64) -> Result<Residency> {
        self.pages.residency(start, len)
    }

    fn residency_with_files(&self, start: u64, len: u64) -> Result<Residency> {
        self.pages.residency_with_files(start, len)
    }

    fn read_resident(&self, residency: &Residency, buffer: &mut [u8]) -> Result<()> {
        let start = residency.start();
        let buffer_end = start + buffer.len() as u64;
        let mut zero = |from: u64, to: u64| {
            if let Some(gap) = buffer.get_mut((from - start) as usize..(to - start) as usize) {
                gap.fill(0);
            }
        };
        // Only what is not read is zeroed: clearing all of it would cost as much as a third of the reading.
        let end = residency.resident_runs().fold(start, |at, run| {
            zero(at, run.start);
            run.end
        });
        zero(end, buffer_end);
        let mut from = start;
        loop {
            let mut runs: Vec<_> = residency.resident_runs_from(from).take(MAX_RANGES).collect();
            let mut parts = parts(buffer, start, &runs);
            runs.truncate(parts.len());
            let Some(last) = runs.last() else { return Ok(()) };
            let remote = |run: &Range<u64>| RemoteIoVec {
                base: run.start as usize,
                len: (run.end - run.start) as usize,
            };
            let read = self.vectored(&runs.iter().map(remote).collect::<Vec<_>>(), &mut parts)?;
            from = match stopped_at(&runs, read as u64) {
                None => last.end,
                // A page in the way has gone meanwhile: it is zero.
                Some(at) => {
                    let next = at / PAGE_SIZE * PAGE_SIZE + PAGE_SIZE;
                    if let Some(gone) = buffer.get_mut((at - start) as usize..(next - start) as usize) {
                        gone.fill(0);
                    }
                    next
                }
            };
        }
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
            let complete = self.vectored(&ranges, &mut [IoSliceMut::new(part)])? / size;
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

    /// Runs with holes between them, and one that has become unreadable, as when the target gives it back meanwhile.
    #[test]
    fn resident_pages_are_read_and_the_others_are_zero() {
        let mut block = vec![7u8; 12 * PAGE_SIZE as usize];
        let start = (block.as_ptr() as u64).next_multiple_of(PAGE_SIZE);
        let mut residency = Residency::none(start, 10 * PAGE_SIZE);
        for page in [0, 1, 3, 4, 8] {
            residency.set_resident(start + page * PAGE_SIZE, true);
        }
        block.fill(9);
        let file = Some(File::open("/proc/self/mem").unwrap());
        for memory in [LiveMemory { file: None, ..memory_of_this() }, LiveMemory { file, ..memory_of_this() }]
        {
            let mut buffer = vec![1; 10 * PAGE_SIZE as usize];
            memory.read_resident(&residency, &mut buffer).unwrap();
            let pages: Vec<u8> = buffer.chunks(PAGE_SIZE as usize).map(|page| page[0]).collect();
            assert_eq!(pages, [9, 9, 0, 9, 9, 0, 0, 0, 9, 0]);
            assert!(buffer.chunks(PAGE_SIZE as usize).all(|page| page.iter().all(|&b| b == page[0])));
        }
        let mut lowest = Residency::all(0, 2 * PAGE_SIZE);
        lowest.set_resident(PAGE_SIZE, false);
        let mut buffer = vec![1; 2 * PAGE_SIZE as usize];
        memory_of_this().read_resident(&lowest, &mut buffer).unwrap();
        assert!(buffer.iter().all(|&byte| byte == 0));
        assert_eq!(stopped_at(&[0x1000..0x3000, 0x5000..0x6000], 0x2800), Some(0x5800));
        assert_eq!(stopped_at(&[0x1000..0x3000, 0x5000..0x6000], 0x3000), None);
    }

    fn memory_of_this() -> LiveMemory {
        LiveMemory::of(Pid::this()).unwrap()
    }

    #[test]
    fn an_unmapped_address_is_an_error_and_not_a_crash() {
        let memory = LiveMemory::of(Pid::this()).unwrap();
        assert!(matches!(memory.word(8), Err(Error::Unreadable { address: 8, .. })));
        assert!(matches!(memory.word(u64::MAX - 3), Err(Error::Unreadable { .. })));
    }
}
