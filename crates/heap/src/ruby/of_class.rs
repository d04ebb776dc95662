//! The objects of one class: their sizes, the largest, and, if asked for, the start of their texts.

use super::by_class::Counted;
use super::names::text::{ARRAY, Bytes, STRING, place};
use super::names::user;
use super::slots::Slot;
use crate::closer::Scene;
use crate::model::{Encoding, Held, LargeObject, OfClass, SizeGroup};
use std::collections::BTreeMap;
use unbloat_untrusted::Untrusted;

/// Maximum number of large objects in a report.
const LARGEST: usize = 20;
/// Maximum number of shown bytes of a text.
pub(crate) const SHOWN_BYTES: usize = 120;
const REGEXP: u8 = 0x06;
const HASH: u8 = 0x08;

/// Describes the objects of the rows with this name. `malloc` returns the malloc bytes that the object in a slot owns.
pub(crate) fn describe(
    scene: &Scene<'_>,
    counted: &mut Counted<'_>,
    name: &str,
    malloc: impl Fn(u32) -> Option<u64>,
    contents: bool,
) -> OfClass {
    let wanted: Vec<bool> = counted.by_class.classes.iter().map(|row| row.name == *name).collect();
    let mut held = Held::default();
    let mut sizes: BTreeMap<u64, Held> = BTreeMap::new();
    let mut all: Vec<(u64, u32)> = Vec::new();
    for (number, slot) in scene.space().objects() {
        let is_wanted = counted.row(&slot).and_then(|row| wanted.get(row).copied());
        if is_wanted != Some(true) {
            continue;
        }
        let own = memory_of(&slot, malloc(number));
        held += own;
        *sizes.entry(own.bytes().next_power_of_two()).or_default() += own;
        all.push((own.bytes(), number));
    }
    // The largest first; of equals, the one with the lowest address.
    all.sort_unstable_by_key(|&(bytes, number)| (std::cmp::Reverse(bytes), number));
    let largest = all.iter().take(LARGEST).filter_map(|&(_, number)| {
        let slot = scene.space().slot(number)?;
        Some(large_object(scene, &slot, memory_of(&slot, malloc(number)), contents))
    });
    OfClass {
        name: Untrusted::new(name),
        held,
        largest: largest.collect(),
        sizes: sizes.into_iter().map(|(up_to_bytes, held)| SizeGroup { up_to_bytes, held }).collect(),
    }
}

/// The memory of one object.
pub(crate) fn memory_of(slot: &Slot<'_>, malloc_bytes: Option<u64>) -> Held {
    Held { objects: 1, slot_bytes: slot.bytes.len() as u64, malloc_bytes }
}

/// The encoding of a string: seven bits of the flags from USER10 on (`ENCODING_SHIFT`, include/ruby/internal/encoding/encoding.h).
pub(crate) fn encoding(slot: &Slot<'_>) -> Encoding {
    Encoding((slot.flags >> 22 & 0x7f) as u8)
}

/// Returns the start of a string's text.
pub(crate) fn start_of_text(scene: &Scene<'_>, address: u64) -> Option<Untrusted> {
    let text = scene.texts().string_to(address, SHOWN_BYTES)?;
    Some(Untrusted::from_bytes(&text))
}

fn large_object(scene: &Scene<'_>, slot: &Slot<'_>, held: Held, contents: bool) -> LargeObject {
    let is_string = slot.code() == STRING;
    let text = match slot.code() {
        STRING => Some(slot.address),
        // struct RRegexp: the source at 24.
        REGEXP => Some(slot.word(24)),
        _ => None,
    };
    LargeObject {
        address: slot.address,
        held,
        length: length(scene, slot),
        encoding: is_string.then(|| encoding(slot)),
        contents: text.filter(|_| contents).and_then(|address| start_of_text(scene, address)),
    }
}

fn length(scene: &Scene<'_>, slot: &Slot<'_>) -> Option<u64> {
    match slot.code() {
        STRING => {
            let (place, length) = place(slot, &scene.facts.names);
            // A damaged slot has no length.
            let inside = match place {
                Bytes::InSlot(at) => slot.bytes.len().saturating_sub(at) as u64,
                Bytes::At(_) => u64::MAX >> 1,
            };
            (length <= inside).then_some(length)
        }
        ARRAY => scene.texts().array(slot.address).map(|(_, length)| length),
        HASH => Some(pairs(scene, slot)),
        _ => None,
    }
}

/// Returns the number of pairs of a hash: in the flags if it is small (`RHASH_AR_TABLE_SIZE`, internal/hash.h), otherwise
/// `num_entries` of its `st_table`, which lies apart up to 3.2 and in the slot from 3.3 on.
pub(crate) fn pairs(scene: &Scene<'_>, slot: &Slot<'_>) -> u64 {
    let in_slot = (scene.version.major, scene.version.minor) >= (3, 3);
    match (slot.flags & user(3) != 0, in_slot) {
        (false, _) => slot.flags >> 16 & 15,
        (true, false) => scene.memory.word(slot.word(16).wrapping_add(16)).unwrap_or(0),
        (true, true) => slot.word(40),
    }
}
