//! `/proc/PID/smaps_rollup`: the memory of a process, summed up page by page
//! (`Documentation/filesystems/proc.rst`, section 1.1). Parsed without allocating, because a recorder reads
//! it repeatedly.

use crate::stat::number;
use crate::{Error, Pid, Result};

/// Sums over all mappings of a process, from `smaps_rollup`. In bytes; hugetlbfs pages are not included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rollup {
    /// Resident.
    pub rss_bytes: u64,
    /// Proportional: a page mapped by n processes counts 1/n.
    pub pss_bytes: u64,
    /// Unique: pages mapped exclusively.
    pub uss_bytes: u64,
    /// Swapped out.
    pub swap_bytes: u64,
    /// Resident anonymous memory.
    pub anonymous_bytes: u64,
    /// Proportional, split into anonymous memory, files and shared memory. Absent before Linux 5.4.
    pub pss_parts: Option<Backed>,
}

/// Resident or proportional bytes by backing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backed {
    /// Anonymous memory.
    pub anonymous_bytes: u64,
    /// Files.
    pub file_bytes: u64,
    /// Shared memory.
    pub shared_memory_bytes: u64,
}

impl Rollup {
    /// Reads the sums, for which the kernel walks all page tables of the process.
    ///
    /// # Errors
    /// The process is gone, may not be read, or has no memory (a kernel thread or zombie).
    pub fn of(pid: Pid) -> Result<Self> {
        let what = "smaps_rollup";
        let text =
            std::fs::read(pid.proc(what)).map_err(|e| Error::from_io(pid, "the memory counters", e))?;
        Self::parse(&text).ok_or_else(|| Error::malformed(pid, what, &text))
    }

    /// Parses the contents of the file. `None` without a `Pss` line (a process without memory, such as a
    /// zombie) or for an unexpected format.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut rollup = Rollup::default();
        let mut pss_bytes = None;
        let (mut anonymous, mut file, mut shared_memory) = (None, None, None);
        for line in text.split(|&b| b == b'\n') {
            let Some(colon) = line.iter().position(|&b| b == b':') else { continue };
            let (key, rest) = line.split_at(colon);
            let target = match key {
                b"Rss" => &mut rollup.rss_bytes,
                b"Pss" => pss_bytes.insert(0),
                b"Pss_Anon" => anonymous.insert(0),
                b"Pss_File" => file.insert(0),
                b"Pss_Shmem" => shared_memory.insert(0),
                b"Private_Clean" | b"Private_Dirty" => &mut rollup.uss_bytes,
                b"Anonymous" => &mut rollup.anonymous_bytes,
                b"Swap" => &mut rollup.swap_bytes,
                _ => continue,
            };
            let value = rest.get(1..)?.trim_ascii().strip_suffix(b" kB")?;
            // The kernel writes kB and means KiB.
            *target = target.saturating_add(u64::try_from(number(value)?).ok()?.saturating_mul(1024));
        }
        let parts = anonymous.zip(file).zip(shared_memory);
        rollup.pss_parts = parts.map(|((anonymous_bytes, file_bytes), shared_memory_bytes)| Backed {
            anonymous_bytes,
            file_bytes,
            shared_memory_bytes,
        });
        Some(Rollup { pss_bytes: pss_bytes?, ..rollup })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn private_pages_are_summed_and_parts_told_apart() {
        let old = "5581-7ffe ---p 00000000 00:00 0      [rollup]\nRss:   1760 kB\nPss:   350 kB\nPss_Dirty: 112 kB\n\
            Shared_Clean: 1 kB\nPrivate_Clean:  72 kB\nPrivate_Dirty:  112 kB\nAnonymous: 64 kB\nSwap:  8 kB\n\
            SwapPss: 4 kB\n";
        let expected = Rollup {
            rss_bytes: 1760 << 10,
            pss_bytes: 350 << 10,
            uss_bytes: 184 << 10,
            swap_bytes: 8 << 10,
            anonymous_bytes: 64 << 10,
            pss_parts: None,
        };
        assert_eq!(Rollup::parse(old.as_bytes()), Some(expected));
        let new = format!("{old}Pss_Anon: 60 kB\nPss_File: 280 kB\nPss_Shmem: 10 kB\n");
        let backed =
            Backed { anonymous_bytes: 60 << 10, file_bytes: 280 << 10, shared_memory_bytes: 10 << 10 };
        assert_eq!(Rollup::parse(new.as_bytes()), Some(Rollup { pss_parts: Some(backed), ..expected }));
        assert_eq!(Rollup::parse(b""), None);
        assert_eq!(Rollup::parse(b"Rss: 1 kB\nPss: -1 kB\n"), None);
    }

    #[test]
    fn the_own_sums_are_in_order() {
        let rollup = Rollup::of(Pid::this()).unwrap();
        assert!(rollup.uss_bytes <= rollup.pss_bytes && rollup.pss_bytes <= rollup.rss_bytes);
        assert!(matches!(Rollup::of(Pid(i32::MAX)), Err(Error::Gone { .. })));
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Rollup::parse(&text);
        }
    }
}
