//! Chooses the classes whose holders are worth finding: those that have grown most since the middle of the recording.
//!
//! Finding holders costs several times a look at classes. It is done after 6, 12, 24, … of them, so that it costs a small
//! share of all, and the newest holders are never older than half of the recording.

use std::collections::{BTreeMap, BTreeSet};
use unbloat_recording::{ClassBytes, Label, ProcessId, rubies::REST};

/// The number of looks before the first search.
const FIRST: u64 = 6;
/// Minimum growth of a class, in bytes.
const LEAST_BYTES: u64 = 65536;
/// Maximum number of classes per search.
const CLASSES: usize = 8;

type Bytes = BTreeMap<(ProcessId, Label), u64>;

/// The looks so far, as far as they matter for the choice.
#[derive(Debug)]
pub(crate) struct Growing {
    looks: u64,
    /// The number of looks after which to search next.
    next: u64,
    /// Bytes at half of `next` looks, and at the newest look.
    before: Bytes,
    now: Bytes,
}

impl Default for Growing {
    fn default() -> Self {
        Growing { looks: 0, next: FIRST, before: Bytes::new(), now: Bytes::new() }
    }
}

/// The classes whose holders are to be found, in the process in which they have grown most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suspects {
    pub(crate) process: ProcessId,
    pub(crate) classes: Vec<Label>,
}

impl Growing {
    /// Adds a look at all Rubies.
    pub(crate) fn add<'a>(&mut self, rows: impl Iterator<Item = &'a ClassBytes>) {
        let bytes = |row: &ClassBytes| row.slot_bytes.saturating_add(row.malloc_bytes.unwrap_or(0));
        self.now = rows.map(|row| ((row.process, row.label.clone()), bytes(row))).collect();
        self.looks += 1;
        if self.looks * 2 == self.next {
            self.before = self.now.clone();
        }
    }

    /// Returns the suspects when it is time to search for their holders, and starts to wait for the next time.
    pub(crate) fn due(&mut self) -> Option<Suspects> {
        if self.looks < self.next {
            return None;
        }
        let suspects = self.suspects();
        self.next = self.looks * 2;
        self.before = self.now.clone();
        suspects
    }

    fn suspects(&self) -> Option<Suspects> {
        // In a process that has just begun everything has grown.
        let known: BTreeSet<ProcessId> = self.before.keys().map(|(process, _)| *process).collect();
        let mut grown: BTreeMap<ProcessId, Vec<(u64, &Label)>> = BTreeMap::new();
        for (key, &now) in self.now.iter().filter(|((process, _), _)| known.contains(process)) {
            let (process, label) = key;
            // A class that had no row was smaller than the smallest that had one.
            let Some(rise) = now.checked_sub(self.before.get(key).copied().unwrap_or(0)) else { continue };
            if rise >= LEAST_BYTES && label.kind != *REST {
                grown.entry(*process).or_default().push((rise, label));
            }
        }
        let sum = |grown: &[(u64, &Label)]| grown.iter().map(|(rise, _)| *rise).fold(0, u64::saturating_add);
        let (process, mut classes) = grown.into_iter().max_by_key(|(_, grown)| sum(grown))?;
        classes.sort_by_key(|(rise, _)| std::cmp::Reverse(*rise));
        let classes = classes.into_iter().take(CLASSES).map(|(_, label)| label.clone()).collect();
        Some(Suspects { process, classes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(process: i64, kind: &str, name: &str, bytes: u64) -> ClassBytes {
        let label = Label { kind: kind.into(), name: name.into(), version: None };
        let (process, slot_bytes) = (ProcessId(process), bytes);
        ClassBytes { time_ns: 0, process, label, objects: 1, slot_bytes, malloc_bytes: None }
    }

    #[test]
    fn suspects_are_named_after_more_and_more_looks() {
        let mut growing = Growing::default();
        let mut found = Vec::new();
        for look in 1..=30u64 {
            let rows = [
                row(1, "class", "Leak", look * 100_000),
                row(1, "class", "Steady", 9_000_000),
                row(1, "class", "Slow", look * 1000),
                row(1, REST, "", look * 1_000_000),
                row(2, "class", "Leak", look * 200_000),
                row(2, "class", "Other", look * 90_000),
            ];
            growing.add(rows.iter());
            if let Some(suspects) = growing.due() {
                found.push((look, suspects));
            }
            assert_eq!(growing.due(), None, "once is enough");
        }
        let looks: Vec<u64> = found.iter().map(|(look, _)| *look).collect();
        assert_eq!(looks, [6, 12, 24]);
        for (_, suspects) in found {
            let names: Vec<&str> = suspects.classes.iter().map(|label| label.name.raw()).collect();
            assert_eq!((suspects.process, names), (ProcessId(2), vec!["Leak", "Other"]));
        }
    }

    #[test]
    fn a_process_that_has_just_begun_is_no_suspect() {
        let mut growing = Growing::default();
        for look in 1..=6 {
            let old = row(1, "class", "Leak", look * 100_000);
            let new = (look > 4).then(|| row(2, "class", "String", 90_000_000));
            growing.add([old].iter().chain(&new));
        }
        assert_eq!(growing.due().map(|suspects| suspects.process), Some(ProcessId(1)));
    }

    #[test]
    fn nothing_that_grows_is_nothing_to_search_for() {
        let mut growing = Growing::default();
        for _ in 0..24 {
            growing.add([row(1, "class", "Steady", 9_000_000)].iter());
            assert_eq!(growing.due(), None);
        }
    }
}
