//! Live memory of Rubies over time: by class of objects, by origin of code, and the holders of classes that grow.

use crate::ProcessId;
use crate::recording::seconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use unbloat_untrusted::Untrusted;

/// The kind of a row that sums up everything without a row of its own.
pub const REST: &str = "rest";

/// The name under which objects or code are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Label {
    /// `class`, `internal`, `gem`, `application`, …; [`REST`].
    pub kind: Untrusted,
    /// The name of a class or gem; empty if the kind says everything.
    pub name: Untrusted,
    /// The version of a gem.
    pub version: Option<Untrusted>,
}

/// A row of `class_census`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the columns, explained in schema.sql
pub struct ClassBytes {
    pub time_ns: i64,
    pub process: ProcessId,
    pub label: Label,
    pub objects: u64,
    pub slot_bytes: u64,
    pub malloc_bytes: Option<u64>,
}

/// A row of `code_census`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the columns, explained in schema.sql
pub struct CodeBytes {
    pub time_ns: i64,
    pub process: ProcessId,
    pub label: Label,
    pub sequences: u64,
    pub slot_bytes: u64,
    pub malloc_bytes: Option<u64>,
}

/// A row of `holder`: the objects of a class that roots reach, and the one that holds most of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassHolder {
    /// Time of the look.
    pub time_ns: i64,
    /// The process.
    pub process: ProcessId,
    /// The class.
    pub label: Label,
    /// Objects that a root reaches.
    pub objects: u64,
    /// Their bytes, malloc memory included.
    pub bytes: u64,
    /// Their holder; `None` if no single object holds a large part of them.
    pub holder: Option<HeldBy>,
}

/// The holder of objects of a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldBy {
    /// Its description: `Array[12000]`.
    pub what: Untrusted,
    /// The objects of the class that would be freed with it.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// All bytes that would be freed with it.
    pub retained_bytes: u64,
    /// All objects that would be freed with it.
    pub retained_objects: u64,
    /// The shortest path from a root, the root first.
    pub path: Vec<PathStep>,
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathStep {
    /// The name by which the previous step holds it: `@cache`; empty if there is none.
    pub by: Untrusted,
    /// Its description: `Hash{49}`.
    pub what: Untrusted,
}

/// Objects, or instruction sequences, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Number of objects, or of instruction sequences.
    pub objects: u64,
    /// Bytes of slots and malloc memory.
    pub bytes: u64,
}

/// All Rubies of the tree at one moment, each counted in full.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RubyMoment {
    /// Seconds since the start.
    pub time_s: f64,
    /// Sums over the processes.
    pub sums: BTreeMap<Label, Amount>,
}

impl RubyMoment {
    /// Returns the sum of everything.
    #[must_use]
    pub fn total(&self) -> Amount {
        let add = |a: Amount, b: &Amount| Amount {
            objects: a.objects.saturating_add(b.objects),
            bytes: a.bytes.saturating_add(b.bytes),
        };
        self.sums.values().fold(Amount::default(), add)
    }
}

/// Live memory of all Rubies over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rubies {
    /// Objects by class.
    pub classes: Vec<RubyMoment>,
    /// Code by origin.
    pub code: Vec<RubyMoment>,
    /// Holders, in chronological order.
    pub holders: Vec<ClassHolder>,
    /// The bytes include malloc memory, because it is known of every row.
    pub with_malloc: bool,
}

impl Rubies {
    /// Adds up the rows of each moment.
    #[must_use]
    pub fn of(classes: Vec<ClassBytes>, code: Vec<CodeBytes>, holders: Vec<ClassHolder>) -> Self {
        // All or none, since sums with and without malloc memory cannot be compared.
        let known = |malloc: Option<u64>| malloc.is_some();
        let with_malloc = classes.iter().all(|row| known(row.malloc_bytes))
            && code.iter().all(|row| known(row.malloc_bytes));
        let bytes = |slots: u64, malloc: Option<u64>| {
            slots.saturating_add(malloc.filter(|_| with_malloc).unwrap_or(0))
        };
        let classes = classes.into_iter().map(|row| {
            let bytes = bytes(row.slot_bytes, row.malloc_bytes);
            (row.time_ns, row.label, Amount { objects: row.objects, bytes })
        });
        let code = code.into_iter().map(|row| {
            let bytes = bytes(row.slot_bytes, row.malloc_bytes);
            (row.time_ns, row.label, Amount { objects: row.sequences, bytes })
        });
        let (classes, code) = (moments(classes), moments(code));
        Rubies { classes, code, holders, with_malloc }
    }

    /// Returns whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.code.is_empty()
    }

    /// Returns the newest holder of a class.
    #[must_use]
    pub fn holder(&self, label: &Label) -> Option<&ClassHolder> {
        self.holders.iter().rev().find(|holder| holder.label == *label)
    }
}

fn moments(rows: impl Iterator<Item = (i64, Label, Amount)>) -> Vec<RubyMoment> {
    let mut all: BTreeMap<i64, BTreeMap<Label, Amount>> = BTreeMap::new();
    for (time_ns, label, amount) in rows {
        let sum = all.entry(time_ns).or_default().entry(label).or_default();
        sum.objects = sum.objects.saturating_add(amount.objects);
        sum.bytes = sum.bytes.saturating_add(amount.bytes);
    }
    all.into_iter().map(|(time_ns, sums)| RubyMoment { time_s: seconds(time_ns), sums }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time_ns: i64, process: i64, name: &str, malloc_bytes: Option<u64>) -> ClassBytes {
        let label = Label { kind: "class".into(), name: name.into(), version: None };
        ClassBytes { time_ns, process: ProcessId(process), label, objects: 2, slot_bytes: 80, malloc_bytes }
    }

    #[test]
    fn processes_are_added_up_and_unknown_malloc_memory_is_left_out_everywhere() {
        let rows = vec![row(0, 1, "A", Some(20)), row(0, 2, "A", Some(30)), row(1_000_000_000, 1, "A", None)];
        let bytes = |rubies: &Rubies| -> Vec<u64> {
            rubies.classes.iter().map(|moment| moment.total().bytes).collect()
        };
        let known = Rubies::of(rows[..2].to_vec(), Vec::new(), Vec::new());
        assert_eq!((bytes(&known), known.with_malloc), (vec![210], true));
        let mixed = Rubies::of(rows, Vec::new(), Vec::new());
        assert_eq!((bytes(&mixed), mixed.with_malloc), (vec![160, 80], false));
        assert_eq!(mixed.classes[0].total().objects, 4);
    }
}
