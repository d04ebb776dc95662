//! The difference of two looks at live memory: by class of objects, or by origin of code.
//!
//! A look counts, so the difference bounds what happened and does not name single objects: of a class that had 100 objects
//! and has 130, at least 30 were born, and at most 100 stayed.

use crate::rubies::{Amount, Label, REST};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Objects and their memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// Number of objects, or of instruction sequences.
    pub objects: u64,
    /// Bytes of slots.
    pub slot_bytes: u64,
    /// Bytes of malloc memory; `None` if unknown.
    pub malloc_bytes: Option<u64>,
}

/// Live memory at one moment, all processes added up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Look {
    /// The name of its source.
    pub source: String,
    /// Seconds since the recording began; `None` for a single look.
    pub time_s: Option<f64>,
    /// Number of processes.
    pub processes: usize,
    /// The rows.
    pub rows: BTreeMap<Label, Sum>,
}

impl Look {
    /// Adds a row.
    pub fn add(&mut self, label: Label, sum: Sum) {
        let known =
            self.rows.entry(label).or_insert(Sum { malloc_bytes: Some(0), objects: 0, slot_bytes: 0 });
        known.objects = known.objects.saturating_add(sum.objects);
        known.slot_bytes = known.slot_bytes.saturating_add(sum.slot_bytes);
        known.malloc_bytes = known.malloc_bytes.zip(sum.malloc_bytes).map(|(a, b)| a.saturating_add(b));
    }

    /// Returns whether everything has its own row, so that whatever has none did not exist.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.rows.keys().any(|label| label.kind == *REST)
    }

    fn knows_malloc(&self) -> bool {
        self.rows.values().all(|sum| sum.malloc_bytes.is_some())
    }
}

/// The direction in which a class went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It had no object before.
    Born,
    /// It has none any more.
    Died,
    /// It has more objects.
    Grew,
    /// It has fewer.
    Shrank,
    /// It has as many; they may be others.
    Stayed,
    /// One of the looks has it among the rest.
    Unknown,
}

/// One class, or one origin of code.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its name.
    pub label: Label,
    /// Before; `None` if unknown, because it was among the rest.
    pub before: Option<Amount>,
    /// After; as before.
    pub after: Option<Amount>,
}

impl Row {
    fn objects(&self) -> Option<(u64, u64)> {
        Some((self.before?.objects, self.after?.objects))
    }

    /// Returns the minimum number of objects that were born.
    #[must_use]
    pub fn born_at_least(&self) -> Option<u64> {
        self.objects().map(|(before, after)| after.saturating_sub(before))
    }

    /// Returns the minimum number of objects that died.
    #[must_use]
    pub fn died_at_least(&self) -> Option<u64> {
        self.objects().map(|(before, after)| before.saturating_sub(after))
    }

    /// Returns the maximum number of objects that stayed.
    #[must_use]
    pub fn stayed_at_most(&self) -> Option<u64> {
        self.objects().map(|(before, after)| before.min(after))
    }

    /// Returns the difference in bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<i64> {
        let difference = i128::from(self.after?.bytes) - i128::from(self.before?.bytes);
        Some(i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX }))
    }

    /// Returns its direction.
    #[must_use]
    pub fn change(&self) -> Change {
        match self.objects() {
            None => Change::Unknown,
            Some((0, 1..)) => Change::Born,
            Some((1.., 0)) => Change::Died,
            Some((before, after)) if after > before => Change::Grew,
            Some((before, after)) if after < before => Change::Shrank,
            Some(_) => Change::Stayed,
        }
    }
}

/// The difference of two looks.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The rows, those whose bytes differ most first, unknown ones and the rest at the end.
    pub rows: Vec<Row>,
    /// Everything, before and after.
    pub total: (Amount, Amount),
    /// The bytes include malloc memory, because both looks know all of it.
    pub with_malloc: bool,
}

impl Difference {
    /// Compares two looks.
    #[must_use]
    pub fn of(before: &Look, after: &Look) -> Self {
        let with_malloc = before.knows_malloc() && after.knows_malloc();
        let amount = |sum: &Sum| Amount {
            objects: sum.objects,
            bytes: sum.slot_bytes.saturating_add(sum.malloc_bytes.filter(|_| with_malloc).unwrap_or(0)),
        };
        let at = |look: &Look, label: &Label| match look.rows.get(label) {
            Some(sum) => Some(amount(sum)),
            // The rest is that of another look, too.
            None => (look.is_complete() || label.kind == *REST).then_some(Amount::default()),
        };
        let labels: BTreeSet<&Label> = before.rows.keys().chain(after.rows.keys()).collect();
        let row =
            |label: &Label| Row { label: label.clone(), before: at(before, label), after: at(after, label) };
        let mut rows: Vec<Row> = labels.into_iter().map(row).collect();
        rows.sort_by_key(|row| {
            let difference = row.bytes().map_or(0, i64::unsigned_abs);
            (row.label.kind == *REST, std::cmp::Reverse(difference), row.bytes().is_none())
        });
        let total = |look: &Look| {
            look.rows.values().map(amount).fold(Amount::default(), |a, b| Amount {
                objects: a.objects.saturating_add(b.objects),
                bytes: a.bytes.saturating_add(b.bytes),
            })
        };
        Difference { rows, total: (total(before), total(after)), with_malloc }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(rows: &[(&str, u64, Option<u64>)], rest: bool) -> Look {
        let mut look = Look { processes: 1, ..Look::default() };
        for &(name, objects, malloc_bytes) in rows {
            let label = Label { kind: "class".into(), name: name.into(), version: None };
            look.add(label, Sum { objects, slot_bytes: objects * 40, malloc_bytes });
        }
        if rest {
            let label = Label { kind: REST.into(), ..Label::default() };
            look.add(label, Sum { objects: 5, slot_bytes: 200, malloc_bytes: Some(0) });
        }
        look
    }

    fn changes(difference: &Difference) -> Vec<(&str, Change, Option<i64>)> {
        difference.rows.iter().map(|row| (row.label.name.raw(), row.change(), row.bytes())).collect()
    }

    #[test]
    fn classes_are_born_die_grow_shrink_and_stay() {
        let before = look(
            &[("Gone", 3, Some(0)), ("Leak", 10, Some(100)), ("Less", 8, Some(0)), ("Same", 4, Some(0))],
            false,
        );
        let after = look(
            &[("Leak", 30, Some(900)), ("Less", 7, Some(0)), ("New", 9, Some(0)), ("Same", 4, Some(0))],
            false,
        );
        let difference = Difference::of(&before, &after);
        assert_eq!(
            changes(&difference),
            [
                ("Leak", Change::Grew, Some(1600)),
                ("New", Change::Born, Some(360)),
                ("Gone", Change::Died, Some(-120)),
                ("Less", Change::Shrank, Some(-40)),
                ("Same", Change::Stayed, Some(0)),
            ]
        );
        let leak = &difference.rows[0];
        assert_eq!(
            (leak.born_at_least(), leak.died_at_least(), leak.stayed_at_most()),
            (Some(20), Some(0), Some(10))
        );
        assert_eq!((difference.total.0.objects, difference.total.1.objects), (25, 50));
    }

    #[test]
    fn a_class_among_the_rest_is_unknown_and_not_new() {
        let before = look(&[("Leak", 10, Some(0))], true);
        let after = look(&[("Leak", 10, Some(0)), ("Other", 50, Some(0))], true);
        let difference = Difference::of(&before, &after);
        let expected = [
            ("Leak", Change::Stayed, Some(0)),
            ("Other", Change::Unknown, None),
            ("", Change::Stayed, Some(0)),
        ];
        assert_eq!(changes(&difference), expected);
    }

    #[test]
    fn malloc_memory_counts_only_if_both_know_it() {
        let (known, unknown) = (look(&[("A", 1, Some(500))], false), look(&[("A", 1, None)], false));
        let difference = Difference::of(&known, &unknown);
        assert_eq!((difference.with_malloc, difference.rows[0].bytes()), (false, Some(0)));
        assert!(Difference::of(&known, &known).with_malloc);
    }
}
