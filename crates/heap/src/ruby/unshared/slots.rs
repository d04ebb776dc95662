//! The kind of a write to a slot, from both copies of it.

use super::owners::Owned;
use super::{Window, plain};
use crate::closer::Scene;
use crate::model::{Cause, CauseKind};

/// The bits of the flags in which the collector keeps an object's age: `FL_PROMOTED0`, `FL_PROMOTED1` up to 3.2,
/// `FL_PROMOTED` from 3.3 on (include/ruby/internal/fl_type.h). An old object has all of them.
const AGE: [u64; 2] = [3 << 5, 1 << 5];
/// The type of an object, in the low five bits of the flags.
const TYPE: u64 = 0x1f;

/// Tells writes to slots.
pub(super) struct Slots<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) owned: &'a Owned,
    pub(super) window: &'a Window<'a>,
}

impl Slots<'_> {
    /// Returns the cause of a write to the slot at this address.
    pub(super) fn cause(&self, slot: u64, bytes: u64) -> Cause {
        let word = |offset: u64| {
            let address = slot + offset;
            // A word of the page before is the same in both, or was compared there.
            match (self.window.ours(address), self.window.before(address)) {
                (Some(ours), Some(before)) => (ours, before),
                _ => {
                    let known =
                        self.scene.space().object(slot).map_or(0, |object| object.word(offset as usize));
                    (known, known)
                }
            }
        };
        let age = AGE[usize::from((self.scene.version.major, self.scene.version.minor) >= (3, 3))];
        let differs = |from: u64| {
            (from..bytes / 8).any(|n| {
                let (ours, before) = word(8 * n);
                ours != before
            })
        };
        let kind = kind(word(0), word(8), differs(2), age);
        if kind == CauseKind::FreedSlots {
            return plain(kind);
        }
        let label = self.scene.space().find(slot).and_then(|number| self.owned.of_slot(number));
        let Some(label) = label else { return plain(CauseKind::FreedSlots) };
        let old = word(0).0 & age == age;
        Cause { class: Some(label.kind), name: label.name.clone(), old: Some(old), ..plain(kind) }
    }
}

/// Returns the kind of a write, from (the worker's, the parent's) flags and class.
fn kind(flags: (u64, u64), class: (u64, u64), rest_differs: bool, age: u64) -> CauseKind {
    let (ours, before) = flags;
    if ours & TYPE == 0 {
        return CauseKind::FreedSlots;
    }
    if before & TYPE != ours & TYPE || class.0 != class.1 {
        return CauseKind::NewObjects;
    }
    match !rest_differs && (ours ^ before) & !age == 0 {
        true => CauseKind::AgedObjects,
        false => CauseKind::WrittenObjects,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRING: u64 = 5;

    #[test]
    fn a_write_is_told_by_flags_and_class() {
        let kind = |ours, before, class, rest| super::kind((ours, before), class, rest, AGE[0]);
        assert_eq!(kind(0, STRING, (0, 9), true), CauseKind::FreedSlots);
        assert_eq!(kind(STRING, 0, (9, 0), true), CauseKind::NewObjects);
        assert_eq!(kind(STRING, STRING, (9, 8), true), CauseKind::NewObjects);
        assert_eq!(kind(STRING | 3 << 5, STRING | 1 << 5, (9, 9), false), CauseKind::AgedObjects);
        assert_eq!(kind(STRING | 3 << 5, STRING, (9, 9), true), CauseKind::WrittenObjects);
        assert_eq!(kind(STRING | 1 << 20, STRING, (9, 9), false), CauseKind::WrittenObjects);
    }
}
