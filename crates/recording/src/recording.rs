//! A whole recording in memory, as input of a report.

use crate::{CategoryBytes, Cost, Counter, Folded, Header, Key, Mark, Process, Rubies, Sample};
use std::collections::BTreeMap;
use unbloat_untrusted::Untrusted;

/// Sums over the tree at one moment, by name.
pub type Sums = BTreeMap<String, u64>;

/// A whole recording.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Its name in a legend: the file's name without its extension.
    pub name: String,
    /// The header of the file.
    pub header: Header,
    /// Facts about the origin of the figures, with their names in the file.
    pub provenance: Vec<(String, Untrusted)>,
    /// The processes.
    pub processes: Vec<Process>,
    /// Short-lived processes that are only counted.
    pub folded: Vec<Folded>,
    /// The samples in chronological order.
    pub samples: Vec<Sample>,
    /// The composition of memory over time.
    pub censuses: Censuses,
    /// Seconds since the start, and sums over the tree of the counters that came with the census.
    pub counters: Vec<(f64, Sums)>,
    /// Live memory of Rubies over time.
    pub rubies: Rubies,
    /// The marks.
    pub marks: Vec<Mark>,
    /// Latencies that a load driver measured.
    pub latencies: Vec<StepLatency>,
    /// The cost of the recording.
    pub cost: Option<Cost>,
}

/// The composition of the whole tree's memory over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Censuses {
    /// One for each moment.
    pub over_time: Vec<Composition>,
    /// The unit of the bytes, and so of their sum.
    pub counted: Counted,
}

/// The composition of the whole tree's memory at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Composition {
    /// Seconds since the start.
    pub time_s: f64,
    /// Bytes by category.
    pub bytes: Sums,
    /// Freed memory is told from live in all processes, because each one's allocator was walked. `None`: an Unbloat that did
    /// not keep this wrote the file.
    pub walked: Option<bool>,
}

/// The counter that says whether the heap of a process's allocator was walked for the census beside it: 1, or 0.
pub const HEAP_WALKED: &str = "heap_walked";

/// The two ways to count memory shared by processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counted {
    /// Divided among the processes that share it.
    #[default]
    Pss,
    /// In full for each process.
    Rss,
}

impl Counted {
    /// The field's abbreviation.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Counted::Pss => "PSS",
            Counted::Rss => "RSS",
        }
    }
}

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A latency distribution of a load step that belongs to no run of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct StepLatency {
    /// The step: `100 clients`.
    pub step: Untrusted,
    /// End of the step, in seconds since the recording began; `None` if it was cut short.
    pub ended_s: Option<f64>,
    /// `fan_out`, `ack`, `delivery`, `response`, …
    pub kind: Untrusted,
    /// HdrHistogram V2 bytes (not deflated), values in nanoseconds.
    pub histogram: Vec<u8>,
}

/// Converts nanoseconds to seconds.
#[must_use]
pub fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

impl Recording {
    /// Returns a fact about the origin of the figures, whichever version wrote it.
    #[must_use]
    pub fn fact(&self, key: Key) -> Option<&Untrusted> {
        let fact = self.provenance.iter().find(|(name, _)| Key::named(name) == Some(key));
        fact.map(|(_, value)| value)
    }

    /// Returns its length in seconds, as far as it was written.
    #[must_use]
    pub fn duration_s(&self) -> f64 {
        let last = self.samples.last().map_or(0, |sample| sample.time_ns);
        seconds(self.header.ended_ns.unwrap_or(last))
    }
}

impl Censuses {
    /// Adds up the rows of each moment. `counters` are those recorded with them.
    #[must_use]
    pub fn of(rows: Vec<CategoryBytes>, counters: &[Counter]) -> Self {
        // All or none, since divided and undivided parts do not add up.
        let proportional = rows.iter().all(|row| row.proportional_bytes.is_some());
        let bytes =
            |row: &CategoryBytes| row.proportional_bytes.filter(|_| proportional).unwrap_or(row.bytes);
        let walked = counters.iter().filter(|counter| counter.name == HEAP_WALKED);
        let mut all_walked: BTreeMap<i64, bool> = BTreeMap::new();
        walked.for_each(|counter| *all_walked.entry(counter.time_ns).or_insert(true) &= counter.value > 0);
        let rows = rows.into_iter().map(|row| (row.time_ns, bytes(&row), row.category));
        let sums = sums_by_moment(rows.map(|(time_ns, bytes, category)| (time_ns, category, bytes)));
        let composition = |(time_ns, bytes)| Composition {
            time_s: seconds(time_ns),
            bytes,
            walked: all_walked.get(&time_ns).copied(),
        };
        Censuses {
            over_time: sums.into_iter().map(composition).collect(),
            counted: if proportional { Counted::Pss } else { Counted::Rss },
        }
    }

    /// Returns whether there are no censuses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.over_time.is_empty()
    }

    /// Returns the newest census: bytes by category.
    #[must_use]
    pub fn last(&self) -> Option<&Sums> {
        self.over_time.last().map(|census| &census.bytes)
    }
}

/// Adds up the counters of each moment.
#[must_use]
pub fn counters_over_time(rows: Vec<Counter>) -> Vec<(f64, Sums)> {
    let sums = sums_by_moment(rows.into_iter().map(|row| (row.time_ns, row.name, row.value)));
    sums.into_iter().map(|(time_ns, sums)| (seconds(time_ns), sums)).collect()
}

fn sums_by_moment(rows: impl Iterator<Item = (i64, String, u64)>) -> BTreeMap<i64, Sums> {
    let mut sums: BTreeMap<i64, Sums> = BTreeMap::new();
    for (time_ns, name, value) in rows {
        let sum = sums.entry(time_ns).or_default().entry(name).or_default();
        *sum = sum.saturating_add(value);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_undivided_part_makes_the_whole_series_rss() {
        let row = |time_ns, bytes, proportional_bytes| CategoryBytes {
            time_ns,
            process: crate::ProcessId(1),
            category: "malloc_live".into(),
            bytes,
            proportional_bytes,
        };
        let sums = |bytes: u64| Sums::from([("malloc_live".to_owned(), bytes)]);
        let at = |time_s, bytes| Composition { time_s, bytes: sums(bytes), walked: None };
        let divided =
            Censuses::of(vec![row(1_000_000_000, 10, Some(4)), row(1_000_000_000, 10, Some(5))], &[]);
        assert_eq!(divided, Censuses { over_time: vec![at(1.0, 9)], counted: Counted::Pss });
        let mixed = Censuses::of(vec![row(1_000_000_000, 10, Some(4)), row(2_000_000_000, 10, None)], &[]);
        assert_eq!(mixed, Censuses { over_time: vec![at(1.0, 10), at(2.0, 10)], counted: Counted::Rss });
    }

    #[test]
    fn a_moment_is_walked_if_every_process_was() {
        let row = |time_ns, process| CategoryBytes {
            time_ns,
            process: crate::ProcessId(process),
            category: "malloc_live".into(),
            bytes: 10,
            proportional_bytes: None,
        };
        let walked = |time_ns, process, value| Counter {
            time_ns,
            process: crate::ProcessId(process),
            name: HEAP_WALKED.into(),
            value,
        };
        let counters = [walked(1, 1, 1), walked(1, 2, 1), walked(2, 1, 1), walked(2, 2, 0)];
        let censuses = Censuses::of(vec![row(1, 1), row(1, 2), row(2, 1), row(2, 2), row(3, 1)], &counters);
        let walked: Vec<_> = censuses.over_time.iter().map(|census| census.walked).collect();
        assert_eq!(walked, [Some(true), Some(false), None]);
    }
}
