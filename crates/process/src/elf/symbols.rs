//! Finding symbols by name, in the dynamic table and in the full one if the file has kept it.

use super::source::{MAX_TABLE_BYTES, blocks, half, half32, table, word};
use super::{Elf, SectionHeader, Source, abi};
use std::ops::Range;

/// A symbol with its link-time address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Link-time address.
    pub address: u64,
    /// Size in bytes; 0 when the file does not say.
    pub size: u64,
}

impl Elf {
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

    /// Without section headers nothing says how many dynamic symbols there are; linkers put the strings right after them.
    fn dynamic_symbols_without_sections(&self) -> Option<(Range<u64>, Range<u64>)> {
        let symbols = self.offset_of(self.dynamic_value(abi::DT_SYMTAB)?)?;
        let strings = self.offset_of(self.dynamic_value(abi::DT_STRTAB)?)?;
        let size = self.dynamic_value(abi::DT_STRSZ)?;
        (symbols < strings).then_some((symbols..strings, strings..strings.checked_add(size)?))
    }
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
        let defined = half(entry, 6) != abi::SHN_UNDEF;
        let Some(name) = strings.get(half32(entry, 0) as usize..).filter(|_| defined) else { return };
        let is =
            |wanted: &str| name.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.first() == Some(&0));
        if let Some(i) = names.iter().position(|wanted| is(wanted)) {
            found[i].get_or_insert(Symbol { address: word(entry, 8), size: word(entry, 16) });
        }
    });
}
