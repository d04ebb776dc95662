//! What an ELF file says: segments, dynamic symbols, relative relocations, build ID.
//!
//! The files are hostile input: every number in them is checked before it is used, and what is read is bounded.
//!
//! The `object` crate, which `launch` uses for files of its own, wants a whole file in memory or mapped; here a few tables
//! of files of any size are read in blocks, and what is damaged costs nothing but its own answer.
//!
//! Formats: System V ABI, chapters 4 and 5; `DT_RELR`: the gABI proposal "Relative relocations in compact form".

pub use crate::image::{Image, ImageError, first_mappings};
use std::fs::File;
use std::ops::Range;

/// Tables larger than this are not believed.
const MAX_TABLE_BYTES: u64 = 256 << 20;
/// Bytes of a table that are in memory at once.
const BLOCK_BYTES: usize = 1 << 16;

/// Where an ELF file's bytes come from: a file, or bytes that a test has made.
pub trait Source {
    /// Fills `buffer` from `offset` on, as far as the source goes; returns the bytes read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize;
}

impl Source for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match std::os::unix::fs::FileExt::read_at(self, rest, offset.saturating_add(done as u64)) {
                Ok(0) | Err(_) => break,
                Ok(read) => done += read,
            }
        }
        done
    }
}

impl Source for [u8] {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let rest = usize::try_from(offset).ok().and_then(|from| self.get(from..)).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        read
    }
}

/// Why an ELF file could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
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
    /// A table lies outside of the file or contradicts itself.
    #[error("a damaged ELF file ({0})")]
    Damaged(&'static str),
}

/// A `PT_LOAD` segment, by link-time addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Addresses in memory.
    pub addresses: Range<u64>,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Bytes that come from the file; the rest is zero (`.bss`).
    pub file_bytes: u64,
    /// Mapped writable.
    pub write: bool,
    /// Mapped executable.
    pub execute: bool,
}

/// A symbol with its link-time address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Link-time address.
    pub address: u64,
    /// Size in bytes; 0 when the file does not say.
    pub size: u64,
}

/// What the headers of a 64-bit little-endian ELF file say.
#[derive(Debug, Clone, Default)]
pub struct Elf {
    /// `e_machine`, for example 62 for x86-64.
    pub machine: u16,
    /// Position-independent (`ET_DYN`).
    pub dynamic: bool,
    /// The program asks for a dynamic linker (`PT_INTERP`).
    pub interpreter: Option<String>,
    /// `PT_LOAD` segments in order of address.
    pub segments: Vec<Segment>,
    /// `PT_TLS`: size of the thread-local block in memory, in bytes.
    pub tls_bytes: Option<u64>,
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

/// A `RELATIVE` relocation: the loader puts `addend` + load bias at `address`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelativeRelocation {
    /// Link-time address of the word.
    pub address: u64,
    /// The addend; `None` when it lies in the word itself (`DT_RELR`).
    pub addend: Option<u64>,
}

impl Elf {
    /// Parses headers, dynamic table and notes.
    ///
    /// # Errors
    /// Not a 64-bit little-endian ELF file, or its program headers cannot be read.
    pub fn parse(source: &(impl Source + ?Sized)) -> Result<Self, ElfError> {
        let mut header = [0; 64];
        let read = source.read_at(0, &mut header);
        if read < 20 || header[..4] != constant::ELFMAG {
            return Err(ElfError::NotElf);
        }
        if header[4] != constant::ELFCLASS64 {
            return Err(ElfError::Class32);
        }
        if header[5] != constant::ELFDATA2LSB {
            return Err(ElfError::BigEndian);
        }
        if read < header.len() {
            return Err(ElfError::Damaged("its header is cut short"));
        }
        let mut this = Elf {
            machine: half(&header, 18),
            dynamic: half(&header, 16) == constant::ET_DYN,
            ..Elf::default()
        };
        let count = usize::from(half(&header, 56));
        let programs = table(source, word(&header, 32), 56 * count)
            .ok_or(ElfError::Damaged("its program headers lie outside of it"))?;
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
            constant::PT_LOAD => {
                let Some(end) = address.checked_add(memory_bytes) else { return };
                self.segments.push(Segment {
                    addresses: address..end,
                    offset,
                    file_bytes: file_bytes.min(memory_bytes),
                    write: flags & constant::PF_W != 0,
                    execute: flags & constant::PF_X != 0,
                });
            }
            constant::PT_INTERP => {
                let text = table(source, offset, file_bytes.min(4096) as usize).unwrap_or_default();
                self.interpreter = Some(c_string(&text));
            }
            constant::PT_TLS => self.tls_bytes = Some(memory_bytes),
            constant::PT_NOTE => {
                let notes = table(source, offset, file_bytes.min(1 << 16) as usize).unwrap_or_default();
                self.build_id = self.build_id.take().or_else(|| build_id(&notes));
            }
            constant::PT_DYNAMIC => {
                let entries = table(source, offset, file_bytes.min(1 << 16) as usize).unwrap_or_default();
                self.dynamic_table = entries
                    .chunks_exact(16)
                    .map(|entry| (word(entry, 0), word(entry, 8)))
                    .take_while(|&(tag, _)| tag != constant::DT_NULL)
                    .collect();
            }
            _ => {}
        }
    }

    /// Offset in the file of a link-time address, if the file has bytes for it.
    #[must_use]
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| segment.addresses.contains(&address))?;
        let into = address - segment.addresses.start;
        (into < segment.file_bytes).then(|| segment.offset.checked_add(into)).flatten()
    }

    /// The file's bytes for a range of link-time addresses, as far as it has them.
    #[must_use]
    pub fn bytes_at(&self, source: &(impl Source + ?Sized), address: u64, len: usize) -> Option<Vec<u8>> {
        table(source, self.offset_of(address)?, len)
    }

    /// Link-time address of the dynamic symbol `name`, or of the symbol in the full table if the file has kept one.
    #[must_use]
    pub fn symbol(&self, source: &(impl Source + ?Sized), name: &str) -> Option<Symbol> {
        self.symbols(source, &[name]).into_iter().next().flatten()
    }

    /// Several symbols at once, in the order of `names`: one pass over the tables.
    #[must_use]
    pub fn symbols(&self, source: &(impl Source + ?Sized), names: &[&str]) -> Vec<Option<Symbol>> {
        let mut found = vec![None; names.len()];
        for (symbols, strings) in self.symbol_tables() {
            find_symbols(source, symbols, strings, names, &mut found);
            if found.iter().all(Option::is_some) {
                break;
            }
        }
        found
    }

    /// File ranges of the symbol tables with their string tables, the dynamic one first.
    fn symbol_tables(&self) -> Vec<(Range<u64>, Range<u64>)> {
        let file_range = |s: &SectionHeader| Some(s.offset..s.offset.checked_add(s.size)?);
        let mut tables: Vec<_> = [constant::SHT_DYNSYM, constant::SHT_SYMTAB]
            .iter()
            .filter_map(|&kind| self.sections.iter().find(|section| section.kind == kind))
            .filter_map(|s| Some((file_range(s)?, file_range(self.sections.get(s.link)?)?)))
            .collect();
        if tables.is_empty() {
            tables.extend(self.dynamic_symbols_without_sections());
        }
        tables
    }

    /// Without section headers nothing says how many dynamic symbols there are; linkers put the strings right after them.
    fn dynamic_symbols_without_sections(&self) -> Option<(Range<u64>, Range<u64>)> {
        let symbols = self.offset_of(self.dynamic_value(constant::DT_SYMTAB)?)?;
        let strings = self.offset_of(self.dynamic_value(constant::DT_STRTAB)?)?;
        let size = self.dynamic_value(constant::DT_STRSZ)?;
        (symbols < strings).then_some((symbols..strings, strings..strings.checked_add(size)?))
    }

    fn dynamic_value(&self, tag: u64) -> Option<u64> {
        self.dynamic_table.iter().find(|(t, _)| *t == tag).map(|&(_, value)| value)
    }

    /// The library's own name (`DT_SONAME`).
    #[must_use]
    pub fn soname(&self, source: &(impl Source + ?Sized)) -> Option<String> {
        let strings = self.dynamic_value(constant::DT_STRTAB)?;
        let name = strings.checked_add(self.dynamic_value(constant::DT_SONAME)?)?;
        Some(c_string(&available(source, self.offset_of(name)?, 256)))
    }

    /// Whether the file is neither linked against libraries nor started through a dynamic linker.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.interpreter.is_none() && self.dynamic_value(constant::DT_NEEDED).is_none()
    }

    /// All `RELATIVE` relocations (`DT_RELA` and `DT_RELR`) of words within `addresses`.
    #[must_use]
    pub fn relative_relocations(
        &self,
        source: &(impl Source + ?Sized),
        addresses: &Range<u64>,
    ) -> Vec<RelativeRelocation> {
        let mut found = Vec::new();
        self.each_rela(source, |relocation| found.push(relocation), addresses);
        self.each_relr(source, |relocation| found.push(relocation), addresses);
        found
    }

    fn each_rela(
        &self,
        source: &(impl Source + ?Sized),
        mut yields: impl FnMut(RelativeRelocation),
        within: &Range<u64>,
    ) {
        let Some(range) = self.dynamic_range(constant::DT_RELA, constant::DT_RELASZ) else { return };
        let relative = match self.machine {
            constant::EM_X86_64 => constant::R_X86_64_RELATIVE,
            constant::EM_AARCH64 => constant::R_AARCH64_RELATIVE,
            _ => return,
        };
        blocks(source, range, 24, |entry| {
            let address = word(entry, 0);
            if half32(entry, 8) == relative && within.contains(&address) {
                yields(RelativeRelocation { address, addend: Some(word(entry, 16)) });
            }
        });
    }

    fn each_relr(
        &self,
        source: &(impl Source + ?Sized),
        mut yields: impl FnMut(RelativeRelocation),
        within: &Range<u64>,
    ) {
        let Some(range) = self.dynamic_range(constant::DT_RELR, constant::DT_RELRSZ) else { return };
        let mut at = 0u64;
        let mut give = |address| {
            if within.contains(&address) {
                yields(RelativeRelocation { address, addend: None });
            }
        };
        blocks(source, range, 8, |entry| {
            let entry = word(entry, 0);
            if entry & 1 == 0 {
                give(entry);
                at = entry.wrapping_add(8);
            } else {
                // Bit i + 1 stands for the i-th of the 63 words from `at` on.
                (0..63).filter(|i| entry >> (i + 1) & 1 != 0).for_each(|i| give(at.wrapping_add(8 * i)));
                at = at.wrapping_add(63 * 8);
            }
        });
    }

    fn dynamic_range(&self, address: u64, size: u64) -> Option<Range<u64>> {
        let offset = self.offset_of(self.dynamic_value(address)?)?;
        Some(offset..offset.checked_add(self.dynamic_value(size)?)?)
    }
}

/// The numbers of the ABI that are used here, with their names in `elf.h`.
mod constant {
    pub(super) const ELFMAG: [u8; 4] = *b"\x7fELF";
    pub(super) const ELFCLASS64: u8 = 2;
    pub(super) const ELFDATA2LSB: u8 = 1;
    pub(super) const ET_DYN: u16 = 3;
    pub(super) const EM_X86_64: u16 = 62;
    pub(super) const EM_AARCH64: u16 = 183;
    pub(super) const R_X86_64_RELATIVE: u32 = 8;
    pub(super) const R_AARCH64_RELATIVE: u32 = 1027;
    pub(super) const PT_LOAD: u32 = 1;
    pub(super) const PT_DYNAMIC: u32 = 2;
    pub(super) const PT_INTERP: u32 = 3;
    pub(super) const PT_NOTE: u32 = 4;
    pub(super) const PT_TLS: u32 = 7;
    pub(super) const PF_X: u32 = 1;
    pub(super) const PF_W: u32 = 2;
    pub(super) const DT_NULL: u64 = 0;
    pub(super) const DT_NEEDED: u64 = 1;
    pub(super) const DT_STRTAB: u64 = 5;
    pub(super) const DT_SYMTAB: u64 = 6;
    pub(super) const DT_RELA: u64 = 7;
    pub(super) const DT_RELASZ: u64 = 8;
    pub(super) const DT_STRSZ: u64 = 10;
    pub(super) const DT_SONAME: u64 = 14;
    pub(super) const DT_RELRSZ: u64 = 35;
    pub(super) const DT_RELR: u64 = 36;
    pub(super) const SHT_SYMTAB: u32 = 2;
    pub(super) const SHT_DYNSYM: u32 = 11;
    pub(super) const SHN_UNDEF: u16 = 0;
    pub(super) const NT_GNU_BUILD_ID: u32 = 3;
}

fn find_symbols(
    source: &(impl Source + ?Sized),
    symbols: Range<u64>,
    strings: Range<u64>,
    names: &[&str],
    found: &mut [Option<Symbol>],
) {
    let Some(strings) =
        table(source, strings.start, (strings.end - strings.start).min(MAX_TABLE_BYTES) as usize)
    else {
        return;
    };
    blocks(source, symbols, 24, |entry| {
        let defined = half(entry, 6) != constant::SHN_UNDEF;
        let Some(name) = strings.get(half32(entry, 0) as usize..).filter(|_| defined) else { return };
        let is =
            |wanted: &str| name.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.first() == Some(&0));
        if let Some(i) = names.iter().position(|wanted| is(wanted)) {
            found[i].get_or_insert(Symbol { address: word(entry, 8), size: word(entry, 16) });
        }
    });
}

/// Gives every whole entry of a table to `take`, reading block by block.
fn blocks(source: &(impl Source + ?Sized), range: Range<u64>, entry: usize, mut take: impl FnMut(&[u8])) {
    let end = range.end.min(range.start.saturating_add(MAX_TABLE_BYTES));
    let step = BLOCK_BYTES / entry * entry;
    let mut at = range.start;
    while at < end {
        let block = available(source, at, (end - at).min(step as u64) as usize);
        block.chunks_exact(entry).for_each(&mut take);
        if block.len() < step {
            break;
        }
        at += step as u64;
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
        if kind == constant::NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(id.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        rest = rest.get(desc_end.checked_next_multiple_of(4)?..)?;
    }
}

/// Exactly `len` bytes, or nothing.
fn table(source: &(impl Source + ?Sized), offset: u64, len: usize) -> Option<Vec<u8>> {
    let bytes = available(source, offset, len);
    (bytes.len() == len).then_some(bytes)
}

/// At most `len` bytes. Memory is taken as the source yields them, so that a lie about `len` costs nothing.
pub(crate) fn available(source: &(impl Source + ?Sized), offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let (from, step) = (bytes.len(), (len - bytes.len()).min(1 << 20));
        bytes.resize(from + step, 0);
        let read = source.read_at(offset.saturating_add(from as u64), &mut bytes[from..]);
        bytes.truncate(from + read);
        if read < step {
            break;
        }
    }
    bytes
}

fn c_string(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Little-endian numbers at an offset; the callers' slices are long enough, a shorter one reads as 0.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn half32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Maps, Pid};

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
        let relocations = libc.elf.relative_relocations(libc.source(), &data);
        assert!(relocations.len() > 50, "{}", relocations.len());
    }

    #[test]
    fn garbage_is_refused() {
        assert_eq!(Elf::parse(&b"#!/bin/sh\n and more and more"[..]).unwrap_err(), ElfError::NotElf);
        let mut cut = constant::ELFMAG.to_vec();
        cut.extend([2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(matches!(Elf::parse(&cut[..]), Err(ElfError::Damaged(_))));
        cut[4] = 1;
        assert_eq!(Elf::parse(&cut[..]).unwrap_err(), ElfError::Class32);
    }

    proptest::proptest! {
        #[test]
        fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 64..4096)) {
            bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
            if let Ok(elf) = Elf::parse(&bytes[..]) {
                let _ = elf.symbols(&bytes[..], &["main_arena"]);
                let _ = elf.relative_relocations(&bytes[..], &(0..u64::MAX));
                let _ = elf.soname(&bytes[..]);
            }
        }
    }
}
