//! The names of types wrapped by extensions: `wrap_struct_name` of `rb_data_type_t`
//! (include/ruby/internal/core/rtypeddata.h).

use super::facts::DataType;
use super::text::Texts;
use crate::ruby::slots::Slot;
use std::cell::RefCell;
use std::collections::HashMap;

/// Maximum number of types to look up.
const MAX_TYPES: usize = 1 << 16;

/// The types of wrapped data.
pub(crate) struct DataTypes<'a> {
    texts: &'a Texts<'a>,
    names: RefCell<HashMap<u64, Option<String>>>,
}

impl<'a> DataTypes<'a> {
    pub(crate) fn new(texts: &'a Texts<'a>) -> Self {
        DataTypes { texts, names: RefCell::default() }
    }

    /// Returns the address of the type of a T_DATA; `None` if it has none (`struct RData`).
    pub(crate) fn of(&self, slot: &Slot<'_>) -> Option<u64> {
        let address = match self.texts.facts.data_type {
            DataType::Flagged => slot.word(16),
            DataType::Tagged => slot.word(24) & !7,
        };
        let typed = match self.texts.facts.data_type {
            DataType::Flagged => (1..=3).contains(&slot.word(24)),
            DataType::Tagged => address != 0 && self.name(address).is_some(),
        };
        typed.then_some(address)
    }

    /// Returns the name of a type.
    pub(crate) fn name(&self, address: u64) -> Option<String> {
        let mut names = self.names.borrow_mut();
        if names.len() >= MAX_TYPES && !names.contains_key(&address) {
            return None;
        }
        let read = || {
            let bytes = self.texts.bytes(address, 8)?;
            self.texts.c_string(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        names.entry(address).or_insert_with(read).clone()
    }
}
