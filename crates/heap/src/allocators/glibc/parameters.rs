//! The allocator's settings: `mp_`, a `struct malloc_par` (malloc/malloc.c).
//!
//! The first five words are the same in all versions: `trim_threshold`, `top_pad`, `mmap_threshold`,
//! `arena_test`, `arena_max`. The huge page fields follow and vary: none up to 2.34, `thp_pagesize`,
//! `hp_pagesize`, `hp_flags` from 2.35 on, `thp_mode` before them from 2.43 on. The fields after them are
//! therefore located from `n_mmaps_max`, which is initialized with 65,536 and follows `n_mmaps`.

use super::Glibc;
use crate::model::GlibcSettings;
use unbloat_process::{Memory, Result};

/// `DEFAULT_MMAP_THRESHOLD_MIN` and `DEFAULT_TRIM_THRESHOLD`.
const DEFAULT_THRESHOLD: u64 = 128 << 10;
/// `NARENAS_FROM_NCORES (1)`.
const DEFAULT_ARENA_TEST: u64 = 8;
/// `DEFAULT_MMAP_MAX`.
const DEFAULT_MMAP_MAX: u32 = 65536;

/// The address of `mp_`, and the offsets of its varying fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Parameters {
    address: u64,
    /// Offset of `n_mmaps`.
    n_mmaps: u64,
}

/// A snapshot of `mp_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParameterValues {
    /// Size in bytes above which `free` returns the main arena's top.
    pub trim_threshold: u64,
    /// Bytes added to each request to the kernel.
    pub top_pad: u64,
    /// Smallest size of a chunk that gets its own mapping.
    pub mmap_threshold: u64,
    /// `arena_max`; 0 if unset.
    pub arena_max: u64,
    /// Size of the huge pages that malloc requests through `madvise` (`glibc.malloc.hugetlb=1`); 0 if it does
    /// not.
    pub thp_pagesize: u64,
    /// Size of the huge pages that malloc maps (`glibc.malloc.hugetlb=2`); 0 if it does not.
    pub hp_pagesize: u64,
    /// Number of mapped chunks.
    pub n_mmaps: u64,
    /// The thresholds were set explicitly and no longer adapt.
    pub no_dyn_threshold: bool,
    /// Bytes of the mapped chunks.
    pub mmapped_mem: u64,
    /// The first address returned by `sbrk`; 0 if it was never called.
    pub sbrk_base: u64,
}

impl Parameters {
    /// Recognizes a freshly initialized `mp_` at `address`.
    pub(super) fn recognize(address: u64, word: impl Fn(u64) -> Option<u64>) -> Option<Self> {
        let at = |offset: u64| word(address.checked_add(offset)?);
        let fits = at(0)? == DEFAULT_THRESHOLD
            && at(0x10)? == DEFAULT_THRESHOLD
            && at(0x18)? == DEFAULT_ARENA_TEST
            && at(0x20)? == 0;
        fits.then_some(())?;
        let half = |offset: u64| Some((at(offset / 8 * 8)? >> (offset % 8 * 8)) as u32);
        let n_mmaps_max = (0x28..=0x60).step_by(4).find(|&offset| half(offset) == Some(DEFAULT_MMAP_MAX))?;
        Some(Parameters { address, n_mmaps: n_mmaps_max - 4 })
    }

    pub(super) fn moved_by(self, bias: u64) -> Self {
        Parameters { address: self.address.wrapping_add(bias), ..self }
    }

    /// Address of `mp_`.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Reads the settings in force.
    ///
    /// # Errors
    /// The memory cannot be read.
    pub fn read(&self, memory: &dyn Memory) -> Result<ParameterValues> {
        let mut bytes = [0; 0xa0];
        // `n_mmaps`, `n_mmaps_max`, `max_n_mmaps`, `no_dyn_threshold` are ints; then 8-aligned words.
        let words = (self.n_mmaps + 16).next_multiple_of(8);
        let len = (words + 24) as usize;
        let part = &mut bytes[..len.min(0xa0)];
        memory.read(self.address, part)?;
        let word = |o: u64| {
            let o = o as usize;
            bytes.get(o..o + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let int = |o: u64| word(o / 8 * 8) >> (o % 8 * 8) & 0xffff_ffff;
        // `thp_pagesize`, `hp_pagesize`, `hp_flags` right before `n_mmaps`, if they exist.
        let huge = self.n_mmaps >= 0x3c;
        Ok(ParameterValues {
            trim_threshold: word(0),
            top_pad: word(8),
            mmap_threshold: word(0x10),
            arena_max: word(0x20),
            thp_pagesize: if huge { word(self.n_mmaps - 0x14) } else { 0 },
            hp_pagesize: if huge { word(self.n_mmaps - 0x0c) } else { 0 },
            n_mmaps: int(self.n_mmaps),
            no_dyn_threshold: int(self.n_mmaps + 12) != 0,
            mmapped_mem: word(words),
            sbrk_base: word(words + 16),
        })
    }
}

impl ParameterValues {
    /// Converts the settings for the report. `cores` is the number of cores as glibc counts them, for the
    /// default limit of 8 arenas per core (`arena_get2`, malloc/arena.c).
    #[must_use]
    pub fn settings(&self, cores: Option<u64>) -> GlibcSettings {
        let arena_max = (self.arena_max != 0).then_some(self.arena_max);
        GlibcSettings {
            arena_max,
            arena_limit: arena_max.or(cores.map(|n| n * 8)),
            trim_threshold_bytes: Some(self.trim_threshold),
            mmap_threshold_bytes: Some(self.mmap_threshold),
            dynamic_thresholds: Some(!self.no_dyn_threshold),
            mmapped_chunks: Some((self.n_mmaps, self.mmapped_mem)),
        }
    }
}

impl Glibc {
    /// The number of cores that glibc uses for its limit of arenas (`arena_get2`, malloc/arena.c):
    ///
    /// - up to 2.33, the online cores (`__get_nprocs`, sysdeps/unix/sysv/linux/getsysstats.c);
    /// - in 2.34, the cores that the process may run on (903bc7dcc2 made `__get_nprocs` ask
    ///   `sched_getaffinity`);
    /// - from 2.35 to 2.38, the same (`__get_nprocs_sched`, 11a02b035b);
    /// - from 2.39 on, the online cores again (472894d2cf, BZ 30945).
    ///
    /// The last change was backported to the release branches 2.34 to 2.38 (since October 2023), and
    /// distributions follow those without a new version number. For these versions the result is therefore
    /// known only if both counts agree.
    #[must_use]
    pub fn cores(&self, online: Option<u64>, allowed: Option<u64>) -> Option<u64> {
        let minor = self.version.as_deref().and_then(|v| v.strip_prefix("2.")?.parse::<u32>().ok());
        match minor {
            Some(..=33 | 39..) => online,
            _ => online.filter(|_| online == allowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognize(halves: &[(u64, u32)]) -> Option<Parameters> {
        let value = |o: u64| halves.iter().find(|(at, _)| *at == o).map_or(0, |(_, v)| u64::from(*v));
        Parameters::recognize(0x1000, |a| Some(value(a - 0x1000) | value(a - 0x1000 + 4) << 32))
    }

    #[test]
    fn the_varying_fields_are_found_in_all_versions() {
        let common = [(0, 0x20000), (8, 0x20000), (0x10, 0x20000), (0x18, 8)];
        for (n_mmaps_max, n_mmaps) in [(0x2c, 0x28), (0x40, 0x3c), (0x48, 0x44)] {
            let mut fields = common.to_vec();
            fields.push((n_mmaps_max, DEFAULT_MMAP_MAX));
            assert_eq!(recognize(&fields), Some(Parameters { address: 0x1000, n_mmaps }));
        }
        assert_eq!(recognize(&common), None);
    }
}
