//! Reads ELF files: segments, dynamic symbols, relative relocations, build ID.
//!
//! The files are hostile input: every number in them is checked before use, and all reads are bounded.
//!
//! The `object` crate requires a whole file in memory or mapped. Here a few tables of files of any size are
//! read in blocks, and a damaged table affects only its own results.
//!
//! Formats: System V ABI, chapters 4 and 5; `DT_RELR`: the gABI proposal "Relative relocations in compact
//! form".
//!
//! | module | concept |
//! |---|---|
//! | `abi` | ABI constants |
//! | `source` | the source of the bytes, and bounded reads of tables and numbers |
//! | `symbols` | finds symbols by name |
//! | `relocations` | `RELATIVE` relocations |

mod abi;
mod relocations;
mod source;
mod symbols;

pub use crate::image::{Image, ImageError, first_mappings};
pub use relocations::RelativeRelocation;
pub use source::Source;
pub(crate) use source::available;
pub use symbols::Symbol;

use crate::sandbox::names::Name;
use source::{c_string, half, half32, table, word};
use std::ops::Range;

/// Upper bound on the number of program headers; linkers write about a dozen.
const MAX_PROGRAM_HEADERS: usize = 256;

/// The reason why an ELF file could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum ElfError {
    /// Not an ELF file at all.
    #[error("not an ELF file")]
    NotElf,
    /// A 32-bit program or library.
    #[error("a 32-bit ELF file")]
    Class32,
    /// The other byte order.
    #[error("a big-endian ELF file")]
    BigEndian,
    /// A table lies outside the file or contradicts itself.
    #[error("a damaged ELF file ({0})")]
    Damaged(#[serde(with = "crate::sandbox::names")] Name),
}

/// Maximum length of a library name (`NAME_MAX` of Linux is 255).
const MAX_NAME_BYTES: usize = 256;
/// Maximum length of a list of directories.
const MAX_PATHS_BYTES: usize = 4096;

/// A `PT_LOAD` segment, by link-time addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Addresses in memory.
    pub addresses: Range<u64>,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Bytes taken from the file; the rest is zero (`.bss`).
    pub file_bytes: u64,
    /// Mapped writable.
    pub write: bool,
    /// Mapped executable.
    pub execute: bool,
}

/// The headers of a 64-bit little-endian ELF file.
#[derive(Debug, Clone, Default)]
pub struct Elf {
    /// `e_machine`, for example 62 for x86-64.
    pub machine: u16,
    /// Position-independent (`ET_DYN`).
    pub dynamic: bool,
    /// The dynamic linker that the program requests (`PT_INTERP`).
    pub interpreter: Option<String>,
    /// `PT_LOAD` segments in address order.
    pub segments: Vec<Segment>,
    /// `PT_TLS`: size of the thread-local block in memory, in bytes.
    pub tls_bytes: Option<u64>,
    /// `PT_GNU_EH_FRAME`: link-time addresses of `.eh_frame_hdr`, the index of the call frame information.
    pub unwind_index: Option<Range<u64>>,
    /// The build ID, in lower-case hexadecimal digits.
    pub build_id: Option<String>,
    dynamic_table: Vec<(u64, u64)>,
    sections: Vec<SectionHeader>,
}

#[derive(Debug, Clone, Copy)]
struct SectionHeader {
    kind: u32,
    offset: u64,
    size: u64,
    link: usize,
}

impl Elf {
    /// Parses headers, dynamic table and notes.
    ///
    /// # Errors
    /// Not a 64-bit little-endian ELF file, or its program headers cannot be read.
    pub fn parse(source: &(impl Source + ?Sized)) -> Result<Self, ElfError> {
        let mut header = [0; 64];
        let read = source.read_at(0, &mut header);
        if read < 20 || header[..4] != abi::ELFMAG {
            return Err(ElfError::NotElf);
        }
        if header[4] != abi::ELFCLASS64 {
            return Err(ElfError::Class32);
        }
        if header[5] != abi::ELFDATA2LSB {
            return Err(ElfError::BigEndian);
        }
        if read < header.len() {
            return Err(ElfError::Damaged("its header is truncated"));
        }
        let mut this =
            Elf { machine: half(&header, 18), dynamic: half(&header, 16) == abi::ET_DYN, ..Elf::default() };
        let count = usize::from(half(&header, 56));
        if count > MAX_PROGRAM_HEADERS {
            return Err(ElfError::Damaged("it has more program headers than any linker writes"));
        }
        let programs = table(source, word(&header, 32), 56 * count)
            .ok_or(ElfError::Damaged("its program headers lie outside the file"))?;
        for program in programs.chunks_exact(56) {
            this.add_program_header(source, program);
        }
        this.segments.sort_by_key(|segment| segment.addresses.start);
        this.sections = sections(source, word(&header, 40), usize::from(half(&header, 60)));
        Ok(this)
    }

    fn add_program_header(&mut self, source: &(impl Source + ?Sized), header: &[u8]) {
        let (kind, flags) = (half32(header, 0), half32(header, 4));
        let (offset, address) = (word(header, 8), word(header, 16));
        let (file_bytes, memory_bytes) = (word(header, 32), word(header, 40));
        match kind {
            abi::PT_LOAD => {
                let Some(end) = address.checked_add(memory_bytes) else { return };
                self.segments.push(Segment {
                    addresses: address..end,
                    offset,
                    file_bytes: file_bytes.min(memory_bytes),
                    write: flags & abi::PF_W != 0,
                    execute: flags & abi::PF_X != 0,
                });
            }
            abi::PT_INTERP => {
                let text = table(source, offset, file_bytes.min(4096) as usize).unwrap_or_default();
                self.interpreter = Some(c_string(&text));
            }
            abi::PT_TLS => self.tls_bytes = Some(memory_bytes),
            abi::PT_GNU_EH_FRAME => {
                self.unwind_index = address.checked_add(file_bytes).map(|end| address..end);
            }
            abi::PT_NOTE => {
                let notes = table(source, offset, file_bytes.min(1 << 16) as usize).unwrap_or_default();
                self.build_id = self.build_id.take().or_else(|| build_id(&notes));
            }
            abi::PT_DYNAMIC => {
                let entries = table(source, offset, file_bytes.min(1 << 16) as usize).unwrap_or_default();
                self.dynamic_table = entries
                    .chunks_exact(16)
                    .map(|entry| (word(entry, 0), word(entry, 8)))
                    .take_while(|&(tag, _)| tag != abi::DT_NULL)
                    .collect();
            }
            _ => {}
        }
    }

    /// Returns the file offset of a link-time address, if the file has bytes for it.
    #[must_use]
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| segment.addresses.contains(&address))?;
        let into = address - segment.addresses.start;
        (into < segment.file_bytes).then(|| segment.offset.checked_add(into)).flatten()
    }

    /// Returns the file's bytes for a range of link-time addresses, as far as it has them.
    #[must_use]
    pub fn bytes_at(&self, source: &(impl Source + ?Sized), address: u64, len: usize) -> Option<Vec<u8>> {
        table(source, self.offset_of(address)?, len)
    }

    fn dynamic_value(&self, tag: u64) -> Option<u64> {
        self.dynamic_table.iter().find(|(t, _)| *t == tag).map(|&(_, value)| value)
    }

    /// Returns the library's own name (`DT_SONAME`).
    #[must_use]
    pub fn soname(&self, source: &(impl Source + ?Sized)) -> Option<String> {
        self.dynamic_string(source, self.dynamic_value(abi::DT_SONAME)?, MAX_NAME_BYTES)
    }

    /// Returns the names of required libraries (`DT_NEEDED`).
    #[must_use]
    pub fn needed(&self, source: &(impl Source + ?Sized)) -> Vec<String> {
        let needed = self.dynamic_table.iter().filter(|(tag, _)| *tag == abi::DT_NEEDED);
        let names = needed.filter_map(|&(_, name)| self.dynamic_string(source, name, MAX_NAME_BYTES));
        names.collect()
    }

    /// Returns the directories searched first for its libraries, with `$ORIGIN` unexpanded (`DT_RUNPATH`,
    /// `DT_RPATH`).
    #[must_use]
    pub fn library_paths(&self, source: &(impl Source + ?Sized)) -> Vec<String> {
        let values = [abi::DT_RUNPATH, abi::DT_RPATH].into_iter().filter_map(|tag| self.dynamic_value(tag));
        let lists = values.filter_map(|list| self.dynamic_string(source, list, MAX_PATHS_BYTES));
        lists.flat_map(|list| list.split(':').map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// Reads a string at an offset of the dynamic string table.
    fn dynamic_string(
        &self,
        source: &(impl Source + ?Sized),
        offset: u64,
        max_bytes: usize,
    ) -> Option<String> {
        let address = self.dynamic_value(abi::DT_STRTAB)?.checked_add(offset)?;
        Some(c_string(&available(source, self.offset_of(address)?, max_bytes)))
    }

    /// Returns whether the file is neither linked against libraries nor started through a dynamic linker.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.interpreter.is_none() && self.dynamic_value(abi::DT_NEEDED).is_none()
    }
}

fn sections(source: &(impl Source + ?Sized), offset: u64, count: usize) -> Vec<SectionHeader> {
    let parse = |header: &[u8]| SectionHeader {
        kind: half32(header, 4),
        offset: word(header, 24),
        size: word(header, 32),
        link: half32(header, 40) as usize,
    };
    let headers = table(source, offset, 64 * count).unwrap_or_default();
    headers.chunks_exact(64).map(parse).collect()
}

fn build_id(notes: &[u8]) -> Option<String> {
    let mut rest = notes;
    loop {
        let (name, desc) = (half32(rest.get(..12)?, 0) as usize, half32(rest, 4) as usize);
        let kind = half32(rest, 8);
        let name_end = 12usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let desc_end = name_end.checked_add(desc)?;
        let (name, id) = (rest.get(12..12 + name)?, rest.get(name_end..desc_end)?);
        if kind == abi::NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(id.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        rest = rest.get(desc_end.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Maps, Pid};
    use std::ops::ControlFlow;

    fn own_libc() -> Image {
        let maps = Maps::of(Pid::this()).unwrap();
        let mapping =
            first_mappings(&maps).find(|m| m.file().unwrap().to_string_lossy().contains("libc.so")).unwrap();
        Image::of_mapping(Pid::this(), mapping).unwrap()
    }

    #[test]
    fn symbols_have_the_address_that_the_linker_gave_them() {
        let libc = own_libc();
        assert_eq!(libc.symbol("getpid"), Some(nix::libc::getpid as *const () as u64));
        assert_eq!(libc.symbol("no_such_symbol_anywhere"), None);
        assert!(libc.elf.build_id.as_ref().is_some_and(|id| id.len() == 40));
        assert!(libc.elf.soname(libc.source()).unwrap().starts_with("libc.so"));
    }

    #[test]
    fn relative_relocations_lie_in_writable_memory() {
        let libc = own_libc();
        let data = libc.elf.segments.iter().find(|s| s.write).unwrap().addresses.clone();
        let mut count = 0;
        libc.elf.each_relative_relocation(libc.source(), &data, |relocation| {
            assert!(data.contains(&relocation.address));
            count += 1;
            ControlFlow::Continue(())
        });
        assert!(count > 50, "{count}");
    }

    #[test]
    fn garbage_is_refused() {
        assert_eq!(Elf::parse(&b"#!/bin/sh\n and more and more"[..]).unwrap_err(), ElfError::NotElf);
        let mut cut = abi::ELFMAG.to_vec();
        cut.extend([2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(matches!(Elf::parse(&cut[..]), Err(ElfError::Damaged(_))));
        cut[4] = 1;
        assert_eq!(Elf::parse(&cut[..]).unwrap_err(), ElfError::Class32);
    }

    /// Builds a file of one segment with a `DT_RELR` table at its end.
    fn with_relr(table: &[u64]) -> Vec<u8> {
        let (headers, dynamic) = (64 + 2 * 56, 3 * 16);
        let at = headers + dynamic;
        let size = at + 8 * table.len();
        let mut file = vec![0; size];
        let mut put = |at: usize, value: u64, bytes: usize| {
            file[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        };
        put(0, u64::from_le_bytes(*b"\x7fELF\x02\x01\x01\0"), 8);
        put(16, u64::from(abi::ET_DYN), 2);
        put(18, u64::from(abi::EM_X86_64), 2);
        put(32, 64, 8);
        put(56, 2, 2);
        for (header, kind, offset, length) in
            [(64, abi::PT_LOAD, 0, size), (120, abi::PT_DYNAMIC, headers, dynamic)]
        {
            put(header, u64::from(kind), 4);
            for (field, value) in [(8, offset), (16, offset), (32, length), (40, length)] {
                put(header + field, value as u64, 8);
            }
        }
        for (i, (tag, value)) in
            [(abi::DT_RELR, at), (abi::DT_RELRSZ, 8 * table.len())].into_iter().enumerate()
        {
            put(headers + 16 * i, tag, 8);
            put(headers + 16 * i + 8, value as u64, 8);
        }
        for (i, &entry) in table.iter().enumerate() {
            put(at + 8 * i, entry, 8);
        }
        file
    }

    fn addresses_of(file: &[u8], within: Range<u64>) -> Vec<u64> {
        let mut addresses = Vec::new();
        Elf::parse(file).unwrap().each_relative_relocation(file, &within, |relocation| {
            addresses.push(relocation.address);
            ControlFlow::Continue(())
        });
        addresses
    }

    #[test]
    fn packed_relocations_are_unpacked() {
        let file = with_relr(&[0x1000, 0b1011, 0x2000]);
        assert_eq!(addresses_of(&file, 0..u64::MAX), [0x1000, 0x1008, 0x1018, 0x2000]);
        assert_eq!(addresses_of(&file, 0x1008..0x1010), [0x1008]);
    }

    /// Audit, finding 1: eight bytes of a file expanded to 1.5 KiB of memory, without end.
    #[test]
    fn hostile_packed_relocations_come_to_an_end() {
        let bitmaps = with_relr(&vec![u64::MAX; 1 << 20]);
        assert!(addresses_of(&bitmaps, 0..0x10000).len() <= 0x10000 / 8);
        let again_and_again = with_relr(&[0x1000; 1000]);
        assert_eq!(addresses_of(&again_and_again, 0..u64::MAX), [0x1000]);
        let at_the_end = with_relr(&[u64::MAX - 1, u64::MAX, 0]);
        assert!(addresses_of(&at_the_end, 0..u64::MAX).len() <= 64);
    }

    proptest::proptest! {
        #[test]
        fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 64..4096)) {
            bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
            if let Ok(elf) = Elf::parse(&bytes[..]) {
                let _ = elf.symbols(&bytes[..], &["main_arena"]);
                elf.each_relative_relocation(&bytes[..], &(0..u64::MAX), |_| ControlFlow::Continue(()));
                let _ = elf.soname(&bytes[..]);
            }
        }
    }
}
