//! Entries of CRuby's hash tables: `struct st_table` (include/ruby/st.h) and `struct rb_id_table` (id_table.c), the same from 2.7
//! to 4.0.

use crate::ruby::words::{half_word, word};
use unbloat_process::Memory;

/// Bytes of `struct st_table`.
pub(crate) const ST_BYTES: usize = 56;
/// Bytes of `struct st_table_entry`: hash, key, record.
const ENTRY_BYTES: usize = 24;
/// A deleted entry's hash (`DELETED_ENTRY_P`, st.c: reserved as `~0`).
const DELETED: u64 = u64::MAX;

/// Calls `each` with key and record of at most `limit` entries of a table. `head` is the table itself.
pub(crate) fn entries(memory: &dyn Memory, head: &[u8], limit: u64, mut each: impl FnMut(u64, u64)) {
    let field = |at| word(head, at).unwrap_or(0);
    let (start, bound, address) = (field(32), field(40), field(48));
    let count = bound.saturating_sub(start).min(limit);
    let from = start.checked_mul(ENTRY_BYTES as u64).and_then(|offset| address.checked_add(offset));
    let Some(from) = from.filter(|_| address != 0 && count > 0) else { return };
    let mut bytes = vec![0; count as usize * ENTRY_BYTES];
    if memory.read(from, &mut bytes).is_err() {
        return;
    }
    for entry in bytes.chunks_exact(ENTRY_BYTES) {
        let field = |at| word(entry, at).unwrap_or(DELETED);
        if field(0) != DELETED {
            each(field(8), field(16));
        }
    }
}

/// Maximum number of items of an ID table to follow; the largest method tables have some thousands.
const MAX_ITEMS: u32 = 1 << 16;
/// Bytes of `item_t`: a key of four bytes, padding, and the value.
const ITEM_BYTES: usize = 16;

/// Calls `each` with the serial of the key and the value of the items of the `struct rb_id_table` at this address: `capa` at 0,
/// `items` at 16. An item without a key is empty.
pub(crate) fn id_values(memory: &dyn Memory, table: u64, mut each: impl FnMut(u32, u64)) {
    let mut head = [0; 24];
    if table == 0 || memory.read(table, &mut head).is_err() {
        return;
    }
    let (capacity, items) = (half_word(&head, 0).unwrap_or(0), word(&head, 16).unwrap_or(0));
    if items == 0 || capacity > MAX_ITEMS {
        return;
    }
    let mut bytes = vec![0; capacity as usize * ITEM_BYTES];
    if memory.read(items, &mut bytes).is_err() {
        return;
    }
    for item in bytes.chunks_exact(ITEM_BYTES) {
        if let (Some(key @ 1..), Some(value)) = (half_word(item, 0), word(item, 8)) {
            each(key, value);
        }
    }
}
