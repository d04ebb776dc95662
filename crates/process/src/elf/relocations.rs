//! `RELATIVE` relocations: the words that the loader fills with addresses.

use super::source::{blocks, half32, word};
use super::{Elf, Source, abi};
use std::ops::Range;

/// A `RELATIVE` relocation: the loader puts `addend` + load bias at `address`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelativeRelocation {
    /// Link-time address of the word.
    pub address: u64,
    /// The addend; `None` when it lies in the word itself (`DT_RELR`).
    pub addend: Option<u64>,
}

impl Elf {
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
        let Some(range) = self.dynamic_range(abi::DT_RELA, abi::DT_RELASZ) else { return };
        let relative = match self.machine {
            abi::EM_X86_64 => abi::R_X86_64_RELATIVE,
            abi::EM_AARCH64 => abi::R_AARCH64_RELATIVE,
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
        let Some(range) = self.dynamic_range(abi::DT_RELR, abi::DT_RELRSZ) else { return };
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

    /// The file range of a table that the dynamic table gives an address and a size.
    fn dynamic_range(&self, address: u64, size: u64) -> Option<Range<u64>> {
        let offset = self.offset_of(self.dynamic_value(address)?)?;
        Some(offset..offset.checked_add(self.dynamic_value(size)?)?)
    }
}
