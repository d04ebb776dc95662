//! The names of IDs, through `ruby_global_symbols` (symbol.h): `{ last_id; str_sym; ids; dsymbol_fstr_hash }`
//! in the writable data of the file with CRuby.
//!
//! `ids` is a hidden Array of Arrays (`ID_ENTRY_UNIT` 512 names each, every name followed by its Symbol). The
//! variable has no dynamic symbol, so it is found by its structure.

use super::text::Texts;
use crate::ruby::words::word;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use unbloat_process::{Result, page_size};

/// Data segments larger than this are not searched; libruby's have some hundred KiB.
const MAX_DATA_BYTES: u64 = 16 << 20;
/// Range of serials: a fresh Ruby has more than a thousand.
const LAST_IDS: Range<u64> = 200..1 << 28;
/// `ID_ENTRY_UNIT` (symbol.c).
const UNIT: u64 = 512;
/// Operators have IDs up to this value that are their own serials (`tLAST_OP_ID`, id.h); the others have
/// scope bits below (`ID_SCOPE_SHIFT` 4).
const LAST_OPERATOR: u64 = 0xff;
/// Maximum number of places to check closely.
const MAX_ATTEMPTS: usize = 64;
/// Maximum number of remembered names.
const MAX_KNOWN: usize = 1 << 18;

/// The names of IDs.
pub(crate) struct Symbols {
    /// The table of symbols by their strings, which keeps none of them alive.
    pub(crate) strings: u64,
    ids: u64,
    known: RefCell<HashMap<u64, Option<String>>>,
}

impl Symbols {
    /// Finds the symbols; `None` if nothing looks like them.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(crate) fn find(texts: &Texts<'_>, data: &[Range<u64>]) -> Result<Option<Self>> {
        let (mut found, mut attempts) = (None, 0);
        words_of(texts.memory, data, |_, words| {
            let mut looks_right = |at: usize| {
                let ids = word(words, at + 16)?;
                LAST_IDS.contains(&word(words, at)?).then_some(())?;
                (texts.space.of_type(ids, super::text::ARRAY)?.class() == 0).then_some(())?;
                attempts += 1;
                (attempts <= MAX_ATTEMPTS).then_some(())?;
                let first = texts.element(ids, 0)?;
                // The second name is that of ID 1, which no operator has; some names of the first unit must
                // exist.
                let named = (0..UNIT)
                    .filter(|i| texts.element(first, 2 * i).is_some_and(|v| texts.string(v).is_some()));
                (named.take(20).count() == 20).then_some((word(words, at + 8)?, ids))
            };
            if found.is_none() {
                found = (0..words.len().saturating_sub(31)).step_by(8).find_map(&mut looks_right);
            }
        })?;
        Ok(found.map(|(strings, ids)| Symbols { strings, ids, known: RefCell::default() }))
    }

    /// Returns the name of a full ID, as in the tables of instance variables and methods.
    pub(crate) fn of_id(&self, texts: &Texts<'_>, id: u64) -> Option<String> {
        self.of_serial(texts, if id <= LAST_OPERATOR { id } else { id >> 4 })
    }

    /// Returns the name of a serial, as in `struct rb_id_table`.
    pub(crate) fn of_serial(&self, texts: &Texts<'_>, serial: u64) -> Option<String> {
        if let Some(known) = self.known.borrow().get(&serial) {
            return known.clone();
        }
        let unit = texts.element(self.ids, serial / UNIT);
        let name = unit.and_then(|unit| texts.string(texts.element(unit, serial % UNIT * 2)?));
        let name = name.map(|name| String::from_utf8_lossy(&name).into_owned());
        let mut known = self.known.borrow_mut();
        if known.len() < MAX_KNOWN {
            known.insert(serial, name.clone());
        }
        name
    }
}

/// Calls `each` with the address and the bytes of each piece of writable data; non-resident bytes are zero.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(crate) fn words_of(
    memory: &dyn unbloat_process::Memory,
    data: &[Range<u64>],
    mut each: impl FnMut(u64, &[u8]),
) -> Result<()> {
    for range in data {
        let start = range.start / page_size() * page_size();
        let len = range.end.saturating_sub(start).min(u64::MAX - page_size()).next_multiple_of(page_size());
        if len > MAX_DATA_BYTES {
            continue;
        }
        let residency = memory.residency(start, len)?;
        let mut bytes = vec![0; len as usize];
        memory.read_resident(&residency, &mut bytes)?;
        each(start, &bytes);
    }
    Ok(())
}
