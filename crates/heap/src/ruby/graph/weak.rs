//! Weak tables, which do not keep their entries alive, and structures that only look like references.
//!
//! The table of frozen strings and of call information (vm_core.h), symbols by their strings (symbol.h),
//! objects with promoted transient memory (transient_heap.c, up to 3.2), the heads of heap pages, whose first
//! word is a slot's address.

use super::conservative::Follower;
use crate::closer::Scene;
use crate::ruby::names::symbols::words_of;
use crate::ruby::names::tables::{self, ST_BYTES};
use crate::ruby::names::user;
use crate::ruby::slots::Slot;
use crate::ruby::statics;
use crate::ruby::words::word;
use unbloat_process::Result;

/// Number of entries of a table to check, and number of those that must be of the kind.
const SAMPLE: u64 = 50;
const FEWEST: usize = 10;

/// Passes them to the follower.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(super) fn add(scene: &Scene<'_>, follower: &mut Follower<'_, '_>) -> Result<()> {
    let mut tables: Vec<u64> = scene.symbols.iter().map(|symbols| symbols.strings).collect();
    if let Some(vm) = follower.vm {
        let mut bytes = vec![0; follower.chunk_bytes(vm).min(1 << 20) as usize];
        // Unreadable entries name nothing.
        if scene.memory.read(vm, &mut bytes).is_ok() {
            let pointers = bytes.chunks_exact(8).filter_map(|bytes| word(bytes, 0));
            tables.extend(pointers.filter(|&pointer| is_weak_table(scene, follower, pointer)));
        }
    }
    for table in tables {
        let mut head = [0; ST_BYTES];
        follower.weak.insert(table);
        if scene.memory.read(table, &mut head).is_ok() {
            // Parts that stale words on stacks can point to: bins and entries.
            follower.weak.extend([24, 48].iter().filter_map(|&at| word(&head, at)));
        }
    }
    follower.weak.extend(scene.pages.iter().map(|page| page.header));
    if let Some(pool) = follower.first_pool {
        // rb_objspace_t starts 40 or 32 bytes before its first pool.
        let starts = [40, 32].map(|before| pool.wrapping_sub(before));
        follower.weak.extend(starts.into_iter().find(|&start| follower.chunk_bytes(start) > 0));
    }
    let mut promoted = Vec::new();
    words_of(scene.memory, scene.data, |_, bytes| {
        let here = (0..bytes.len()).step_by(8).filter_map(|at| statics::promoted_objects(&bytes[at..]));
        promoted.extend(here);
    })?;
    follower.weak.extend(promoted);
    Ok(())
}

/// Recognizes frozen strings (`RSTRING_FSTR`: USER17) or call information, by four fifths of the entries.
fn is_weak_table(scene: &Scene<'_>, follower: &Follower<'_, '_>, pointer: u64) -> bool {
    let mut head = [0; ST_BYTES];
    if !(56..=80).contains(&follower.chunk_bytes(pointer)) || scene.memory.read(pointer, &mut head).is_err() {
        return false;
    }
    let (mut strings, mut calls, mut all) = (0, 0, 0);
    tables::entries(scene.memory, &head, SAMPLE, |key, _| {
        let object = scene.space().object(key);
        let is = |of: &dyn Fn(&Slot<'_>) -> bool| usize::from(object.as_ref().is_some_and(of));
        strings += is(&|slot| slot.code() == 0x05 && slot.flags & user(17) != 0);
        calls += is(&|slot| slot.code() == 0x1a && slot.imemo_kind() == 11);
        all += 1;
    });
    all > FEWEST && strings.max(calls) * 5 > all * 4
}
