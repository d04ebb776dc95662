//! Instance variables of objects without space for them: `generic_iv_tbl_` (variable.c), an `st_table` whose
//! keys are objects with `FL_EXIVAR`.
//!
//! It has no symbol, so it is found in the data of the file with CRuby as the table whose keys have that
//! flag. It keeps nothing alive: an object's variables are marked with the object.

use super::build::{Builder, GENERIC_VARIABLES};
use super::jobs::Kind;
use crate::closer::Scene;
use crate::ruby::names::symbols::words_of;
use crate::ruby::names::tables::{self, ST_BYTES};
use crate::ruby::words::word;
use unbloat_process::Result;

/// Maximum number of tables to check.
const MAX_TABLES: usize = 256;
/// Maximum number of entries.
const MAX_ENTRIES: u64 = 1 << 24;
/// Types whose objects have space for variables: T_OBJECT, T_CLASS, T_MODULE, T_ICLASS.
const OWN: [u8; 4] = [0x01, 0x02, 0x03, 0x1c];

/// Requests the variables of each object. Returns the table's chunks.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(super) fn add(scene: &Scene<'_>, builder: &mut Builder<'_>) -> Result<Vec<u64>> {
    let flagged = |flags: u64, code: u8| flags & GENERIC_VARIABLES != 0 && !OWN.contains(&code);
    let count = scene.space().objects().filter(|(_, slot)| flagged(slot.flags, slot.code())).count() as u64;
    let Some(chunks) = scene.chunks.filter(|_| count > 0) else { return Ok(Vec::new()) };
    let mut best: Vec<(u32, u64)> = Vec::new();
    let mut own = Vec::new();
    let mut looked = 0;
    words_of(scene.memory, scene.data, |_, bytes| {
        for pointer in bytes.chunks_exact(8).filter_map(|bytes| word(bytes, 0)) {
            let mut head = [0; ST_BYTES];
            let is_chunk = chunks.find(pointer).is_some_and(|(_, bytes)| bytes >= ST_BYTES as u64);
            if looked >= MAX_TABLES || !is_chunk || scene.memory.read(pointer, &mut head).is_err() {
                continue;
            }
            let entries = word(&head, 16).unwrap_or(0);
            if entries == 0 || entries > 2 * count + 100 || (entries as usize) <= best.len() {
                continue;
            }
            looked += 1;
            let (mut good, mut all) = (Vec::new(), 0u64);
            tables::entries(scene.memory, &head, MAX_ENTRIES.min(8 * count + 1000), |key, value| {
                all += 1;
                let object = scene.space().find(key).zip(scene.space().object(key));
                let known = object.filter(|(_, slot)| slot.flags & GENERIC_VARIABLES != 0);
                good.extend(known.map(|(number, _)| (number, value)));
            });
            if good.len() > best.len() && good.len() as u64 * 10 > all * 9 {
                best = good;
                own = [24, 48].iter().filter_map(|&at| word(&head, at)).chain([pointer]).collect();
            }
        }
    })?;
    for (number, variables) in best {
        let bytes = chunks.find(variables).map_or(0, |(_, bytes)| bytes);
        if bytes >= 8 {
            // In one piece, because the count is at its start.
            builder.jobs.ask(Kind::GenericVariables, (variables, bytes.min(1 << 20)), 1 << 20, number);
        }
    }
    Ok(own)
}
