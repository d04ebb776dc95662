//! Finds symbols by name in the dynamic table, and in the full one if the file has kept it.

use super::source::{MAX_STREAMED_BYTES, available, blocks, half, half32, word};
use super::{Elf, SectionHeader, Source, abi};
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

/// Bytes of a string table in memory at once, excluding the overlap of a name.
const STRINGS_STEP: u64 = 1 << 16;
/// Maximum number of name offsets kept. A valid table has a handful.
const MAX_PLACES: usize = 1 << 12;

/// A symbol with its link-time address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Link-time address.
    pub address: u64,
    /// Size in bytes; 0 if the file does not state it.
    pub size: u64,
}

impl Elf {
    /// Returns the dynamic symbol `name`, or the one in the full table if the file has kept it.
    #[must_use]
    pub fn symbol(&self, source: &(impl Source + ?Sized), name: &str) -> Option<Symbol> {
        self.symbols(source, &[name]).into_iter().next().flatten()
    }

    /// Finds several symbols, in the order of `names`, with one pass over the tables.
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

    /// Returns the file ranges of the symbol tables with their string tables, the dynamic one first.
    fn symbol_tables(&self) -> Vec<(Range<u64>, Range<u64>)> {
        let file_range = |s: &SectionHeader| Some(s.offset..s.offset.checked_add(s.size)?);
        let mut tables: Vec<_> = [abi::SHT_DYNSYM, abi::SHT_SYMTAB]
            .iter()
            .filter_map(|&kind| self.sections.iter().find(|section| section.kind == kind))
            .filter_map(|s| Some((file_range(s)?, file_range(self.sections.get(s.link)?)?)))
            .collect();
        if tables.is_empty() {
            tables.extend(self.dynamic_symbols_without_sections());
        }
        tables
    }

    /// Locates the dynamic symbols without section headers, where nothing states their number; linkers put
    /// the strings right after them.
    fn dynamic_symbols_without_sections(&self) -> Option<(Range<u64>, Range<u64>)> {
        let symbols = self.offset_of(self.dynamic_value(abi::DT_SYMTAB)?)?;
        let strings = self.offset_of(self.dynamic_value(abi::DT_STRTAB)?)?;
        let size = self.dynamic_value(abi::DT_STRSZ)?;
        (symbols < strings).then_some((symbols..strings, strings..strings.checked_add(size)?))
    }
}

/// Finds symbols in one table. Both tables are read block by block: first the offsets of the names among the
/// strings, then the symbols that refer to one of them.
fn find_symbols(
    source: &(impl Source + ?Sized),
    symbols: Range<u64>,
    strings: Range<u64>,
    names: &[&str],
    found: &mut [Option<Symbol>],
) {
    let places = places_of(source, strings, names);
    blocks(source, symbols, 24, |entry| {
        let defined = half(entry, 6) != abi::SHN_UNDEF;
        if let Some(&name) = places.get(&half32(entry, 0)).filter(|_| defined) {
            found[name].get_or_insert(Symbol { address: word(entry, 8), size: word(entry, 16) });
        }
        if found.iter().all(Option::is_some) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
}

/// Returns the string table offsets at which a symbol's name may be one of `names`: wherever the name and a
/// zero byte occur, since linkers let a name share the end of a longer one.
fn places_of(source: &(impl Source + ?Sized), strings: Range<u64>, names: &[&str]) -> HashMap<u32, usize> {
    let wanted: Vec<Vec<u8>> = names.iter().map(|name| [name.as_bytes(), b"\0"].concat()).collect();
    let longest = wanted.iter().map(Vec::len).max().unwrap_or(0) as u64;
    let end = strings.end.min(strings.start.saturating_add(MAX_STREAMED_BYTES));
    let mut places = HashMap::new();
    let mut at = strings.start;
    while at < end && places.len() < MAX_PLACES {
        let block = available(source, at, (end - at).min(STRINGS_STEP + longest) as usize);
        for (index, name) in wanted.iter().enumerate() {
            for place in memchr::memmem::find_iter(&block, name).take(MAX_PLACES) {
                let offset = at - strings.start + place as u64;
                places.insert(u32::try_from(offset).unwrap_or(u32::MAX), index);
            }
        }
        at += STRINGS_STEP;
    }
    places
}
