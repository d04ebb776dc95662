//! The ELF files mapped by a process, and their addresses.
//!
//! The files are opened from the *target's* point of view: through `/proc/PID/map_files` (the very file that
//! is mapped, even if its name is gone) or `/proc/PID/root` (its mount namespace). Nothing is read from the
//! target's memory, so none of its pages becomes resident.

use crate::elf::{Elf, ElfError, available};
use crate::target_file::{NotOpened, open_mapped};
use crate::{Error, Mapping, Maps, Pid, Result, page_size};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// An ELF file mapped by a process.
#[derive(Debug)]
pub struct Image {
    /// Its path in the target's mount namespace.
    pub path: PathBuf,
    /// The distance between run-time and link-time addresses.
    pub bias: u64,
    /// Its headers.
    pub elf: Elf,
    file: File,
}

/// Maximum number of bytes of a file that are searched.
const MAX_SEARCHED_BYTES: u64 = 256 << 20;

/// The reason why a mapped file could not be used.
#[derive(Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum ImageError {
    /// The file cannot be opened by this process.
    #[error("cannot open {path}: {reason}")]
    Unopened {
        /// Its path in the target.
        #[serde(with = "crate::sandbox::path")]
        path: PathBuf,
        /// The kernel's reason, or that the path now names another file.
        reason: String,
    },
    /// It is not a supported ELF file.
    #[error("{path} is {error}")]
    Elf {
        /// Its path in the target.
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
    /// It is not a file, cannot be opened by this process (deleted or replaced, without permission for
    /// `/proc/PID/map_files`), or is not a 64-bit little-endian ELF file.
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

    /// Returns the run-time address of a symbol.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<u64> {
        Some(self.elf.symbol(&self.file, name)?.address.wrapping_add(self.bias))
    }

    /// Returns the run-time addresses of several symbols, in the order of `names`.
    #[must_use]
    pub fn symbols(&self, names: &[&str]) -> Vec<Option<u64>> {
        let found = self.elf.symbols(&self.file, names);
        found.into_iter().map(|s| Some(s?.address.wrapping_add(self.bias))).collect()
    }

    /// Returns the file's contents.
    #[must_use]
    pub fn source(&self) -> &File {
        &self.file
    }

    /// Returns the file's bytes for a *run-time* address: the contents before relocation, as far as the file
    /// has them.
    #[must_use]
    pub fn file_bytes(&self, address: u64, len: usize) -> Option<Vec<u8>> {
        self.elf.bytes_at(&self.file, address.wrapping_sub(self.bias), len)
    }

    /// Returns the run-time addresses of the writable segments, including `.bss`.
    pub fn writable(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let place = |a: u64| a.wrapping_add(self.bias);
        self.elf
            .segments
            .iter()
            .filter(|s| s.write)
            .map(move |s| place(s.addresses.start)..place(s.addresses.end))
    }

    /// Returns the file's name without directories.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or("")
    }

    /// Finds the first occurrence of `needle` in the file's read-only segments, with up to `after` following
    /// bytes.
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

/// Returns the first mapping of each mapped file in address order, as one candidate image per file.
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
    value / page_size() * page_size()
}

impl From<ImageError> for Error {
    fn from(error: ImageError) -> Self {
        Error::Image(error)
    }
}
