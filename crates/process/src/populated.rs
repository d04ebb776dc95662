//! The parts of an address space that have resident pages.
//!
//! An address space may be a million times as large as what is resident of it: a look has to cost what is resident, and not
//! what a process has mapped. So every walk of addresses goes over these parts. With `PAGEMAP_SCAN` (Linux 6.7) the kernel
//! yields them in one pass over the page tables, which skips what has none. Older kernels tell for each mapping how much of
//! it is resident (`Rss` in `/proc/PID/smaps`): there a part is a mapping that has any.

use crate::pages::{ANY_PAGE, RESIDENT, bits_of};
use crate::{Backing, Error, Maps, Memory, PageMap, Pid, Result, page_size};
use std::io::{BufReader, Read as _};
use std::ops::Range;

/// The pieces in which residency is told: what one page table covers.
pub const POPULATED_BYTES: u64 = 2 << 20;
/// Bytes whose residency is asked for at once.
const STRIDE_BYTES: u64 = 64 << 20;
/// Bytes of `smaps` that are read: a thousand for each mapping that the kernel allows by default.
const MAX_SMAPS_BYTES: u64 = 64 << 20;

/// The parts of an address space that had resident pages at one moment, in order and disjoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Populated(Vec<Range<u64>>);

impl Populated {
    /// The parts of all mappings of a process.
    ///
    /// # Errors
    /// The process is gone.
    pub fn of(pid: Pid, pages: &PageMap, maps: &Maps) -> Result<Self> {
        // The kernel's own pages (vsyscall lies outside of what can be asked about) are not the process's.
        let own = || maps.iter().filter(|mapping| !matches!(mapping.backing, Backing::Kernel(_)));
        let (Some(first), Some(last)) = (own().next(), own().next_back()) else { return Ok(Self::default()) };
        match pages.scan_populated(first.start, last.end - first.start)? {
            Some(parts) => Ok(Populated(parts)),
            None => Ok(Self::of_smaps(pid).unwrap_or_else(|| Populated(own().map(|m| m.range()).collect()))),
        }
    }

    /// The mappings with resident pages; `None` where the kernel does not tell.
    fn of_smaps(pid: Pid) -> Option<Self> {
        let file = std::fs::File::open(pid.proc("smaps")).ok()?;
        Self::parse(BufReader::new(file.take(MAX_SMAPS_BYTES)))
    }

    /// Reads lines such as `7f00-7f01 rw-p 00000000 00:00 0` and, for each, `Rss:    12 kB`.
    fn parse(mut smaps: impl std::io::BufRead) -> Option<Self> {
        let (mut parts, mut mapping, mut line) = (Vec::new(), None, Vec::new());
        loop {
            line.clear();
            if smaps.read_until(b'\n', &mut line).ok()? == 0 {
                return Some(Populated(parts));
            }
            let text = String::from_utf8_lossy(&line);
            match text.strip_prefix("Rss:") {
                Some(bytes) if bytes.trim() != "0 kB" => parts.extend(mapping.take()),
                Some(_) => {}
                None => mapping = addresses(&text).or(mapping),
            }
        }
    }

    /// Returns the parts within a range.
    #[must_use]
    pub fn within(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let first = self.0.partition_point(|part| part.end <= range.start);
        let parts = self.0[first..].iter().take_while(|part| part.start < range.end);
        parts.map(|part| part.start.max(range.start)..part.end.min(range.end)).collect()
    }

    /// As [`windows`].
    pub fn windows(&self, range: &Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        self.within(range).into_iter().flat_map(move |part| cut(part, most))
    }
}

fn addresses(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// The populated parts of a range in windows that end at multiples of `most` bytes at the latest.
pub fn windows<M: Memory + ?Sized>(
    memory: &M,
    range: &Range<u64>,
    most: u64,
) -> impl Iterator<Item = Range<u64>> + use<M> {
    memory.populated(range).into_iter().flat_map(move |part| cut(part, most))
}

/// The resident bytes of a range of any length; of a page that is covered in part, the part.
///
/// # Errors
/// The process is gone or may not be looked at.
pub fn resident_bytes(memory: &(impl Memory + ?Sized), range: &Range<u64>) -> Result<u64> {
    let mut sum: u64 = 0;
    for part in windows(memory, range, STRIDE_BYTES) {
        let first = part.start / page_size() * page_size();
        let Some(end) = part.end.checked_next_multiple_of(page_size()) else { continue };
        sum = sum.saturating_add(memory.residency(first, end - first)?.resident_within(part));
    }
    Ok(sum)
}

/// A range in windows that end at multiples of `most` bytes.
fn cut(range: Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let from = at;
        at = (from / most * most).saturating_add(most).min(range.end);
        (from < range.end).then_some(from..at)
    })
}

impl PageMap {
    /// The parts of a range that have resident pages, in pieces of whole [`POPULATED_BYTES`]: as many as there are resident
    /// pages at most, however large the range is. On kernels without `PAGEMAP_SCAN` the whole range.
    ///
    /// # Errors
    /// The process is gone.
    pub fn populated(&self, start: u64, len: u64) -> Result<Vec<Range<u64>>> {
        let whole = || std::iter::once(start..start.saturating_add(len)).collect();
        Ok(self.scan_populated(start, len)?.unwrap_or_else(whole))
    }

    /// The same; `None` on kernels without `PAGEMAP_SCAN`.
    fn scan_populated(&self, start: u64, len: u64) -> Result<Option<Vec<Range<u64>>>> {
        let end = start.saturating_add(len);
        let mut parts: Vec<Range<u64>> = Vec::new();
        let mut add = |from: u64, to: u64| {
            let from = (from / POPULATED_BYTES * POPULATED_BYTES).max(start);
            let to = to.checked_next_multiple_of(POPULATED_BYTES).unwrap_or(end).min(end);
            match parts.last_mut().filter(|last| last.end >= from) {
                Some(last) => last.end = last.end.max(to),
                None => parts.push(from..to),
            }
        };
        if !self.tells_zero_pages() {
            return Ok(None);
        }
        match self.each_region(start, len, ANY_PAGE, |region| {
            if bits_of(region.categories) & RESIDENT != 0 {
                add(region.start, region.end);
            }
        }) {
            Ok(()) => Ok(Some(parts)),
            Err(nix::errno::Errno::ENOTTY | nix::errno::Errno::EINVAL) => {
                self.scan_is_missing();
                Ok(None)
            }
            Err(nix::errno::Errno::EFAULT) => Ok(Some(Vec::new())),
            Err(errno) => Err(Error::from_io(self.pid(), "the page map", errno.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn a_huge_range_has_as_many_parts_as_it_has_pages() {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
        let len = std::num::NonZeroUsize::new(1 << 40).unwrap();
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let at = unsafe { mmap_anonymous(None, len, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags) };
        let at = at.unwrap();
        let start = at.as_ptr() as u64;
        for offset in [0, 1 << 30, (1 << 40) - 1] {
            // SAFETY: within the mapping.
            unsafe { at.as_ptr().cast::<u8>().add(offset).write(1) };
        }
        let map = PageMap::of(Pid::this()).unwrap();
        let parts = map.populated(start, 1 << 40).unwrap();
        if map.tells_zero_pages() {
            assert_eq!(parts.len(), 3, "{parts:x?}");
            assert!(parts.iter().all(|part| part.end - part.start <= 2 * POPULATED_BYTES));
            assert!(parts[1].contains(&(start + (1 << 30))));
            let all = Populated::of(Pid::this(), &map, &Maps::of(Pid::this()).unwrap()).unwrap();
            assert_eq!(all.within(&(start..start + (1 << 40))), parts);
        }
        let smaps = Populated::of_smaps(Pid::this()).unwrap();
        assert!(smaps.within(&(start..start + (1 << 40))).iter().any(|part| part.contains(&start)));
        // SAFETY: nothing refers to the mapping.
        unsafe { munmap(at, len.get()) }.unwrap();
    }

    #[test]
    fn mappings_without_resident_pages_are_left_out() {
        let smaps = "1000-3000 rw-p 00000000 00:00 0 \nSize: 8 kB\nRss:        0 kB\nPss: 0 kB\n\
                     5000-9000 r--p 00000000 08:01 7 /Rss: a-b\nSize: 16 kB\nRss:        4 kB\nPss: 1 kB\n";
        let populated = Populated::parse(smaps.as_bytes()).unwrap();
        assert_eq!(populated, Populated(vec![0x5000..0x9000]));
        assert_eq!(populated.within(&(0x1000..0x6000)), [0x5000..0x6000]);
        assert_eq!(populated.within(&(0x9000..0xa000)), []);
    }

    #[test]
    fn windows_end_at_multiples() {
        assert_eq!(cut(0x1800..0x4800, 0x1000).count(), 4);
        assert_eq!(cut(u64::MAX - 7..u64::MAX, 8).collect::<Vec<_>>(), [u64::MAX - 7..u64::MAX]);
    }
}
