//! The ELF files that a process has mapped, and their places in its memory.
//!
//! The files are read from the *target's* point of view: through `/proc/PID/map_files` (the very file that is mapped,
//! even when its name is gone) or `/proc/PID/root` (its mount namespace). Nothing is read from the target's memory, so
//! no page of it becomes resident.

use crate::elf::{Elf, ElfError, available};
use crate::target_file::{NotOpened, open_mapped};
use crate::{Error, Mapping, Maps, PAGE_SIZE, Pid, Result};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// An ELF file as a process has mapped it.
#[derive(Debug)]
pub struct Image {
    /// Its name in the target's mount namespace.
    pub path: PathBuf,
    /// The distance between run-time and link-time addresses.
    pub bias: u64,
    /// Its headers.
    pub elf: Elf,
    file: File,
}

/// Bytes of a file that are searched at most.
const MAX_SEARCHED_BYTES: u64 = 256 << 20;

/// The reason why a mapped file could not be looked at.
#[derive(Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum ImageError {
    /// The file cannot be opened from here.
    #[error("cannot open {path}: {reason}")]
    Unopened {
        /// Its name in the target.
        #[serde(with = "crate::sandbox::path")]
        path: PathBuf,
        /// The kernel's reason, or that the name now means another file.
        reason: String,
    },
    /// It is no ELF file that this tool reads.
    #[error("{path} is {error}")]
    Elf {
        /// Its name in the target.
        #[serde(with = "crate::sandbox::path")]
        path: PathBuf,
        /// The fault.
        error: ElfError,
    },
}

impl Image {
    /// Opens the file behind a mapping.
    ///
    /// # Errors
    /// It is not a file, cannot be opened from here (deleted or replaced and no right to `/proc/PID/map_files`), or is
    /// not a 64-bit little-endian ELF file.
    pub fn of_mapping(pid: Pid, mapping: &Mapping) -> Result<Self, ImageError> {
        let path = mapping.file().map(Path::to_owned).unwrap_or_default();
        let file = open_mapped(pid, mapping).map_err(|reason: NotOpened| ImageError::Unopened {
            path: path.clone(),
            reason: reason.to_string(),
        })?;
        let elf = Elf::parse(&file).map_err(|error| ImageError::Elf { path: path.clone(), error })?;
        let bias = elf
            .segments
            .iter()
            .find(|segment| page_floor(segment.offset) == mapping.offset)
            .map_or(mapping.start.wrapping_sub(mapping.offset), |segment| {
                mapping.start.wrapping_sub(page_floor(segment.addresses.start))
            });
        Ok(Image { path, bias, elf, file })
    }

    /// Run-time address of a symbol.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<u64> {
        Some(self.elf.symbol(&self.file, name)?.address.wrapping_add(self.bias))
    }

    /// Run-time addresses of several symbols, in the order of `names`.
    #[must_use]
    pub fn symbols(&self, names: &[&str]) -> Vec<Option<u64>> {
        let found = self.elf.symbols(&self.file, names);
        found.into_iter().map(|s| Some(s?.address.wrapping_add(self.bias))).collect()
    }

    /// The file's contents.
    #[must_use]
    pub fn source(&self) -> &File {
        &self.file
    }

    /// The file's bytes for a *run-time* address: what was there before relocation, as far as the file has them.
    #[must_use]
    pub fn file_bytes(&self, address: u64, len: usize) -> Option<Vec<u8>> {
        self.elf.bytes_at(&self.file, address.wrapping_sub(self.bias), len)
    }

    /// Run-time addresses of the writable segments, `.bss` included.
    pub fn writable(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let place = |a: u64| a.wrapping_add(self.bias);
        self.elf
            .segments
            .iter()
            .filter(|s| s.write)
            .map(move |s| place(s.addresses.start)..place(s.addresses.end))
    }

    /// The file's name without its directories.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or("")
    }

    /// The first place of `needle` in the file's segments that are not writable, with up to `after` bytes that follow.
    #[must_use]
    pub fn find_bytes(&self, needle: &[u8], after: usize) -> Option<Vec<u8>> {
        const STEP: u64 = 1 << 20;
        let mut budget = MAX_SEARCHED_BYTES;
        let overlap = (needle.len() + after) as u64;
        for segment in self.elf.segments.iter().filter(|s| !s.write && !s.execute) {
            let (mut at, end) = (segment.offset, segment.offset.saturating_add(segment.file_bytes));
            while at < end && budget > 0 {
                budget = budget.saturating_sub(STEP);
                let block = available(&self.file, at, (STEP + overlap).min(end - at) as usize);
                if let Some(i) = memory_find(&block, needle) {
                    return Some(block[i..block.len().min(i + needle.len() + after)].to_vec());
                }
                at = at.saturating_add(STEP);
            }
        }
        None
    }
}

/// The first mapping of each mapped file, in order of address: one candidate image a file.
pub fn first_mappings(maps: &Maps) -> impl Iterator<Item = &Mapping> {
    let mut previous: Option<(u64, &Path)> = None;
    maps.iter().filter(move |mapping| {
        let Some(path) = mapping.file() else { return false };
        let here = (mapping.inode, path);
        previous.replace(here) != Some(here)
    })
}

fn memory_find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    loop {
        from += haystack.get(from..)?.iter().position(|&byte| byte == first)?;
        if haystack[from..].starts_with(needle) {
            return Some(from);
        }
        from += 1;
    }
}

fn page_floor(value: u64) -> u64 {
    value / PAGE_SIZE * PAGE_SIZE
}

impl From<ImageError> for Error {
    fn from(error: ImageError) -> Self {
        Error::Image(error)
    }
}
