//! Reads another process's memory.
//!
//! Everything that walks a heap reads through the [`Memory`] trait, so that walks can be tested on synthetic
//! heaps. The live implementation uses `process_vm_readv(2)`: no stop, no trace, one copy.
//!
//! **The fork trap**: `process_vm_readv` pins the pages it reads. Since Linux 5.19, pinning a page that two
//! processes share after a fork gives the target its own copy (`gup_must_unshare`, mm/gup.c), so that reading
//! a forked worker would make it grow by everything it still shares. `/proc/PID/mem` does not pin and leaves
//! pages shared, but copies twice. It is therefore used exactly for processes that share anonymous pages.
//!
//! **The zero-page trap**: reading an absent anonymous page makes the kernel map the shared zero page there.
//! RSS is unchanged, but the pagemap then says "present". So query [`crate::pages`] first and read resident
//! pages only; [`Memory::read_resident`] does both.

use crate::{Error, Maps, Pid, Populated, Residency, Result, page_size, windows};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use std::fs::File;
use std::io::IoSliceMut;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// Maximum number of ranges per `process_vm_readv` (`UIO_MAXIOV`, `include/uapi/linux/uio.h`).
const MAX_RANGES: usize = 1024;

/// Readable memory: a live process's, or a synthetic heap.
pub trait Memory {
    /// Fills `buffer` starting from `address`. Only for small reads of memory known to be present.
    ///
    /// # Errors
    /// Some byte of the range is unreadable; the buffer's contents are then unspecified.
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<()>;

    /// Returns the resident pages of the range. `start` and `len` are multiples of the page size.
    ///
    /// # Errors
    /// The process is gone or access to it is denied.
    fn residency(&self, start: u64, len: u64) -> Result<Residency>;

    /// Like [`Memory::residency`], and also identifies pages of files or shared memory. For private anonymous
    /// memory, which has none, [`Memory::residency`] is several times faster.
    ///
    /// # Errors
    /// As [`Memory::residency`].
    fn residency_with_files(&self, start: u64, len: u64) -> Result<Residency> {
        self.residency(start, len)
    }

    /// Returns the parts of a range that may have resident pages, in order and disjoint. Nothing is resident elsewhere.
    /// They are as old as the list of mappings.
    fn populated(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        std::iter::once(range.clone()).filter(|range| !range.is_empty()).collect()
    }

    /// Fills `buffer` with the range that `residency` describes, reading resident pages only; other pages are
    /// zero, and so are pages that have gone meanwhile.
    ///
    /// # Errors
    /// The process is gone or access to it is denied.
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

    /// Reads one little-endian 64-bit word.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn word(&self, address: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads `size` bytes at each address into consecutive slots of `buffer`; returns which were readable.
    ///
    /// # Errors
    /// The process is gone or access to it is denied.
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
    /// The parts of the address space with resident pages, when this was opened.
    populated: Populated,
    /// `/proc/PID/mem`, if any other way of reading would un-share pages.
    file: Option<File>,
    /// The same file opened by the confined child's parent. Yama allows the parent to read its descendants
    /// and denies it to the child, which is only their sibling.
    inherited: Option<File>,
}

impl LiveMemory {
    /// Opens the memory of a process. Nothing is stopped or read yet.
    ///
    /// # Errors
    /// The process is gone, or may not be read.
    pub fn of(pid: Pid) -> Result<Self> {
        let maps = Maps::of(pid)?;
        let tables = Self::tables(pid, &maps)?;
        let open = || File::open(pid.proc("mem")).map_err(|e| Error::from_io(pid, "the memory", e));
        let file = if tables.shares_pages(&maps)? { Some(open()?) } else { None };
        Ok(LiveMemory { file, ..tables })
    }

    /// Opens the memory of a pinned process.
    ///
    /// # Errors
    /// The process is gone, or may not be read.
    pub fn of_pinned(pinned: &crate::Pinned) -> Result<Self> {
        let pid = pinned.pid();
        let Some(memory) = pinned.memory() else { return Self::of(pid) };
        let maps = Maps::of(pid)?;
        let tables = Self::tables(pid, &maps)?;
        let inherit = || memory.try_clone().map_err(|e| Error::from_io(pid, "the memory", e));
        let file = if tables.shares_pages(&maps)? { Some(inherit()?) } else { None };
        Ok(LiveMemory { file, inherited: Some(inherit()?), ..tables })
    }

    /// Opens the memory of a pinned process for single reads: through its file, which pins no page, and without a walk of its
    /// page tables, so that it costs nothing however much is mapped. [`Memory::populated`] then names no part.
    ///
    /// # Errors
    /// The process is gone, or may not be read.
    pub fn at_hand(pinned: &crate::Pinned) -> Result<Self> {
        let pid = pinned.pid();
        let file = match pinned.memory() {
            Some(memory) => memory.try_clone(),
            None => File::open(pid.proc("mem")),
        };
        let file = file.map_err(|e| Error::from_io(pid, "the memory", e))?;
        let (pages, populated) = (crate::PageMap::of(pid)?, Populated::default());
        Ok(LiveMemory { pid, pages, populated, file: Some(file), inherited: None })
    }

    /// Opens the page tables of a process whose memory may not be read: residency is known, and every read
    /// fails.
    ///
    /// # Errors
    /// The process is gone, or not even the page tables may be read.
    pub fn tables_only(pid: Pid) -> Result<Self> {
        Self::tables(pid, &Maps::of(pid)?)
    }

    fn tables(pid: Pid, maps: &Maps) -> Result<Self> {
        let pages = crate::PageMap::of(pid)?;
        let populated = Populated::of(pid, &pages, maps)?;
        Ok(LiveMemory { pid, pages, populated, file: None, inherited: None })
    }

    /// Returns whether the process shares any page of its private anonymous memory with another.
    fn shares_pages(&self, maps: &Maps) -> Result<bool> {
        const STRIDE_BYTES: u64 = 64 << 20;
        for mapping in maps.iter().filter(|mapping| mapping.is_private_anonymous()) {
            for part in windows(self, &mapping.range(), STRIDE_BYTES) {
                if self.pages.shares_any(part.start, part.end - part.start)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns whether shared zero pages are distinguished from resident ones: see
    /// [`crate::PageMap::tells_zero_pages`].
    #[must_use]
    pub fn tells_zero_pages(&self) -> bool {
        self.pages.tells_zero_pages()
    }

    /// Fills the buffers, one after the other, from the given ranges; no range crosses the end of a buffer.
    /// Returns the number of bytes read, which is smaller if a range is unreadable.
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

/// Reads one range after another until one fails.
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

/// Returns the parts of `buffer`, which holds memory from `start` on, that belong to `runs`.
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

/// Returns the address where a read of `runs` ended after `read` bytes; `None` if everything was read.
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

    fn populated(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.populated.within(range)
    }

    fn read_resident(&self, residency: &Residency, buffer: &mut [u8]) -> Result<()> {
        let start = residency.start();
        let buffer_end = start + buffer.len() as u64;
        let mut zero = |from: u64, to: u64| {
            if let Some(gap) = buffer.get_mut((from - start) as usize..(to - start) as usize) {
                gap.fill(0);
            }
        };
        // Zeroes only the unread parts: clearing everything would cost as much as a third of the read.
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
                // A page in between has gone meanwhile and becomes zero.
                Some(at) => {
                    let next = at / page_size() * page_size() + page_size();
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
            // The first failed range is skipped; the rest is retried.
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

    /// Runs with holes between them, and one that has become unreadable, as if the target had returned it
    /// meanwhile.
    #[test]
    fn resident_pages_are_read_and_the_others_are_zero() {
        let mut block = vec![7u8; 12 * page_size() as usize];
        let start = (block.as_ptr() as u64).next_multiple_of(page_size());
        let mut residency = Residency::none(start, 10 * page_size());
        for page in [0, 1, 3, 4, 8] {
            residency.set_resident(start + page * page_size(), true);
        }
        block.fill(9);
        let file = Some(File::open("/proc/self/mem").unwrap());
        for memory in [LiveMemory { file: None, ..memory_of_this() }, LiveMemory { file, ..memory_of_this() }]
        {
            let mut buffer = vec![1; 10 * page_size() as usize];
            memory.read_resident(&residency, &mut buffer).unwrap();
            let pages: Vec<u8> = buffer.chunks(page_size() as usize).map(|page| page[0]).collect();
            assert_eq!(pages, [9, 9, 0, 9, 9, 0, 0, 0, 9, 0]);
            assert!(buffer.chunks(page_size() as usize).all(|page| page.iter().all(|&b| b == page[0])));
        }
        let mut lowest = Residency::all(0, 2 * page_size());
        lowest.set_resident(page_size(), false);
        let mut buffer = vec![1; 2 * page_size() as usize];
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
