//! `RELATIVE` relocations: the words that the loader fills with addresses.

use super::source::{blocks, half32, word};
use super::{Elf, Source, abi};
use std::ops::{ControlFlow, Range};

/// A `RELATIVE` relocation: the loader puts `addend` + load bias at `address`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelativeRelocation {
    /// Link-time address of the word.
    pub address: u64,
    /// The addend; `None` when it lies in the word itself (`DT_RELR`).
    pub addend: Option<u64>,
}

impl Elf {
    /// Passes the `RELATIVE` relocations (`DT_RELA` and `DT_RELR`) of words within `addresses` to `take`
    /// until it has enough. Nothing is stored, whatever the tables claim.
    pub fn each_relative_relocation(
        &self,
        source: &(impl Source + ?Sized),
        addresses: &Range<u64>,
        mut take: impl FnMut(RelativeRelocation) -> ControlFlow<()>,
    ) {
        let mut within = |relocation: RelativeRelocation| {
            if addresses.contains(&relocation.address) { take(relocation) } else { ControlFlow::Continue(()) }
        };
        if self.each_rela(source, &mut within).is_continue() {
            self.each_relr(source, addresses.end, &mut within);
        }
    }

    fn each_rela(
        &self,
        source: &(impl Source + ?Sized),
        take: &mut impl FnMut(RelativeRelocation) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let go_on = ControlFlow::Continue(());
        let Some(range) = self.dynamic_range(abi::DT_RELA, abi::DT_RELASZ) else { return go_on };
        let relative = match self.machine {
            abi::EM_X86_64 => abi::R_X86_64_RELATIVE,
            abi::EM_AARCH64 => abi::R_AARCH64_RELATIVE,
            _ => return go_on,
        };
        let mut state = go_on;
        blocks(source, range, 24, |entry| {
            if half32(entry, 8) == relative {
                state = take(RelativeRelocation { address: word(entry, 0), addend: Some(word(entry, 16)) });
            }
            state
        });
        state
    }

    /// Decodes entries, which are addresses or bitmaps of the 63 words after the last one. Linkers write them
    /// in ascending order (gABI, `DT_RELR`), so the table ends at an address that goes back or passes `end`.
    fn each_relr(
        &self,
        source: &(impl Source + ?Sized),
        end: u64,
        take: &mut impl FnMut(RelativeRelocation) -> ControlFlow<()>,
    ) {
        let Some(range) = self.dynamic_range(abi::DT_RELR, abi::DT_RELRSZ) else { return };
        let mut at = 0u64;
        blocks(source, range, 8, |entry| {
            let entry = word(entry, 0);
            if entry & 1 == 0 {
                let next = entry.checked_add(8).filter(|_| (at..end).contains(&entry));
                let Some(next) = next else { return ControlFlow::Break(()) };
                at = next;
                return take(RelativeRelocation { address: entry, addend: None });
            }
            for bit in (0..63).filter(|bit| entry >> (bit + 1) & 1 != 0) {
                take(RelativeRelocation { address: at.saturating_add(8 * bit), addend: None })?;
            }
            at = at.saturating_add(63 * 8);
            if at < end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }

    /// Returns the file range of a table with an address and a size in the dynamic table.
    fn dynamic_range(&self, address: u64, size: u64) -> Option<Range<u64>> {
        let offset = self.offset_of(self.dynamic_value(address)?)?;
        Some(offset..offset.checked_add(self.dynamic_value(size)?)?)
    }
}
