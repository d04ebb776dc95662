//! Finds `main_arena` and `mp_` in a libc without symbols.
//!
//! `main_arena` is defined as `{ .next = &main_arena, .attached_threads = 1 }` (malloc/malloc.c) and
//! otherwise zero. In a shared libc the pointer needs a `RELATIVE` relocation, so: a relocated word at `r`
//! that will hold the address `A`, with `r - A` the offset of `next` in a known layout, only zeros from `A`
//! to `r`, and the words 0, 1, 0, 0 after it. In a statically linked program at a fixed address the pointer
//! stands in the data itself. There is exactly one such place in every libc that was tried (2.31 to 2.44,
//! amd64 and arm64), and the distance tells the layout.
//!
//! `mp_` is initialized with `trim_threshold` = `mmap_threshold` = 128 KiB and `arena_test` = 8.

use super::{Layout, Parameters};
use std::ops::{ControlFlow, Range};
use unbloat_process::elf::{Elf, Source};
use unbloat_process::{Image, Maps, Pid};

/// Writable segments larger than this are skipped.
const MAX_DATA_BYTES: u64 = 64 << 20;
/// Text before the version in the string behind `gnu_get_libc_version` (csu/version.c).
const BANNER: &[u8] = b"GNU C Library";

/// The glibc in a process, and the addresses of its allocator's variables.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Glibc {
    /// Address of `main_arena`.
    pub main_arena: u64,
    /// The layout of its arenas.
    pub layout: Layout,
    /// `mp_`, if it was found.
    pub parameters: Option<Parameters>,
    /// The version as stated by the library, for example `2.36`.
    pub version: Option<String>,
    /// glibc is linked statically into the program.
    pub linked_statically: bool,
}

/// The reason why glibc's allocator could not be found.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// No mapped file looks like glibc.
    #[error("no glibc is mapped, and the program has none linked in")]
    NoGlibc,
    /// The library is there but has no main arena of a known layout.
    #[error("{path} has no main arena with a known layout (glibc 2.27 to 2.43). Please report its version")]
    UnknownLayout {
        /// The library's file.
        path: String,
    },
    /// Several places look like the main arena.
    #[error("{path} has {count} places that look like the main arena")]
    Ambiguous {
        /// The library's file.
        path: String,
        /// Number of candidates.
        count: usize,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Image(#[from] unbloat_process::elf::ImageError),
}

impl Glibc {
    /// Finds the glibc of a process: the shared library, or the copy linked into the program.
    ///
    /// # Errors
    /// There is none, its file cannot be opened, or its layout is not known.
    pub fn locate(pid: Pid, maps: &Maps) -> Result<Self, LocateError> {
        let named = unbloat_process::elf::first_mappings(maps).find(|m| is_libc_name(m.file()));
        if let Some(mapping) = named {
            return Self::in_image(&Image::of_mapping(pid, mapping)?);
        }
        let program = unbloat_process::elf::first_mappings(maps).next().ok_or(LocateError::NoGlibc)?;
        let image = Image::of_mapping(pid, program)?;
        if !image.elf.is_static() {
            return Err(LocateError::NoGlibc);
        }
        Self::in_image(&image).map_err(|error| match error {
            LocateError::UnknownLayout { .. } => LocateError::NoGlibc,
            other => other,
        })
    }

    /// Finds the allocator's variables in one mapped file.
    ///
    /// # Errors
    /// It has no main arena of a known layout, or several.
    pub fn in_image(image: &Image) -> Result<Self, LocateError> {
        let path = || unbloat_untrusted::Untrusted::from(image.path.as_path()).shown();
        let found = Statics::find(&image.elf, image.source());
        let &[(main_arena, layout)] = &found.main_arenas[..] else {
            return Err(match found.main_arenas.len() {
                0 => LocateError::UnknownLayout { path: path() },
                count => LocateError::Ambiguous { path: path(), count },
            });
        };
        Ok(Glibc {
            main_arena: main_arena.wrapping_add(image.bias),
            layout,
            parameters: found.parameters.map(|p| p.moved_by(image.bias)),
            version: version(image),
            linked_statically: image.elf.is_static(),
        })
    }
}

/// The allocator's variables in an ELF file, by link-time addresses.
#[derive(Debug, Default)]
pub struct Statics {
    /// Candidates for the main arena.
    pub main_arenas: Vec<(u64, Layout)>,
    /// `mp_`, if there is exactly one candidate.
    pub parameters: Option<Parameters>,
}

impl Statics {
    /// Searches the writable data of an ELF file.
    #[must_use]
    pub fn find(elf: &Elf, source: &(impl Source + ?Sized)) -> Self {
        let mut found = Statics::default();
        let mut parameters = Vec::new();
        for segment in elf.segments.iter().filter(|s| s.write && s.file_bytes <= MAX_DATA_BYTES) {
            let Some(bytes) = elf.bytes_at(source, segment.addresses.start, segment.file_bytes as usize)
            else {
                continue;
            };
            let data = Data { start: segment.addresses.start, bytes };
            let mut check = |at: u64, target: u64| found.main_arenas.extend(data.main_arena(at, target));
            if elf.dynamic {
                elf.each_relative_relocation(source, &data.addresses(), |relocation| {
                    if let Some(target) = relocation.addend.or_else(|| data.word(relocation.address)) {
                        check(relocation.address, target);
                    }
                    ControlFlow::Continue(())
                });
            } else {
                data.words().for_each(|(at, word)| check(at, word));
            }
            parameters.extend(data.words().filter_map(|(at, _)| Parameters::recognize(at, |a| data.word(a))));
        }
        found.main_arenas.dedup();
        found.parameters = (parameters.len() == 1).then(|| parameters.remove(0));
        found
    }
}

/// The bytes of a writable segment as stored in the file.
struct Data {
    start: u64,
    bytes: Vec<u8>,
}

impl Data {
    fn addresses(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.bytes.len() as u64)
    }

    fn slice(&self, address: u64, len: u64) -> Option<&[u8]> {
        let from = usize::try_from(address.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(usize::try_from(len).ok()?)?)
    }

    fn word(&self, address: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.slice(address, 8)?.try_into().ok()?))
    }

    fn words(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = self.start.next_multiple_of(8);
        let last = self.addresses().end.saturating_sub(8);
        (first..=last).step_by(8).filter_map(|at| Some((at, self.word(at)?)))
    }

    /// Returns `target` as the main arena if a pointer to it at `at` makes it one.
    fn main_arena(&self, at: u64, target: u64) -> Option<(u64, Layout)> {
        let layout = Layout::with_next_at(at.checked_sub(target)?)?;
        let before = self.slice(target, layout.next())?;
        let [next_free, attached, system, max] = [8, 16, 24, 32].map(|o| self.word(at.saturating_add(o)));
        let after_fits = (next_free, attached, system, max) == (Some(0), Some(1), Some(0), Some(0));
        (after_fits && before.iter().all(|&byte| byte == 0)).then_some((target, layout))
    }
}

fn is_libc_name(path: Option<&std::path::Path>) -> bool {
    let name = path.and_then(|p| p.file_name()).and_then(|n| n.to_str()).unwrap_or("");
    name == "libc.so.6" || (name.starts_with("libc-2.") && name.ends_with(".so"))
}

/// Extracts the version from the library's banner: `GNU C Library (Debian GLIBC 2.36-9+deb12u10) stable
/// release version 2.36.`
fn version(image: &Image) -> Option<String> {
    let banner = image.find_bytes(BANNER, 256)?;
    let text = String::from_utf8_lossy(&banner);
    let after = text.split("release version ").nth(1)?;
    let version: String = after.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    Some(version.trim_end_matches('.').to_owned()).filter(|version| !version.is_empty())
}
