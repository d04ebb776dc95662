//! A whole recording in memory, as a report works on it.

use crate::{CategoryBytes, Cost, Counter, Folded, Header, Key, Mark, Process, Sample};
use std::collections::BTreeMap;

/// Sums over the tree at one moment, by name.
pub type Sums = BTreeMap<String, u64>;

/// A whole recording.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Its name in a legend: the file's name without its extension.
    pub name: String,
    /// The header of the file.
    pub header: Header,
    /// Facts about where the figures come from, with their names in the file.
    pub provenance: Vec<(String, String)>,
    /// The processes.
    pub processes: Vec<Process>,
    /// Short-lived processes that are only counted.
    pub folded: Vec<Folded>,
    /// The samples in the order of time.
    pub samples: Vec<Sample>,
    /// The composition of memory over time.
    pub censuses: Censuses,
    /// Seconds since the start, and sums over the tree of the counters that came with the census.
    pub counters: Vec<(f64, Sums)>,
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
    /// Seconds since the start, and bytes by category.
    pub over_time: Vec<(f64, Sums)>,
    /// The way the bytes are counted, and so the sum they add up to.
    pub counted: Counted,
}

/// The two ways to count memory that processes share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counted {
    /// Divided among those that share it.
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
    pub step: String,
    /// End of the step, in seconds since the recording began; `None` when it was cut short.
    pub ended_s: Option<f64>,
    /// `fan_out`, `ack`, `delivery`, `response`, …
    pub kind: String,
    /// HdrHistogram V2 bytes (not deflated), values in nanoseconds.
    pub histogram: Vec<u8>,
}

/// Nanoseconds to seconds.
#[must_use]
pub fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

impl Recording {
    /// A fact about where the figures come from, whichever version wrote it.
    #[must_use]
    pub fn fact(&self, key: Key) -> Option<&str> {
        let fact = self.provenance.iter().find(|(name, _)| Key::named(name) == Some(key));
        fact.map(|(_, value)| value.as_str())
    }

    /// Its length in seconds, as far as it is written.
    #[must_use]
    pub fn duration_s(&self) -> f64 {
        let last = self.samples.last().map_or(0, |sample| sample.time_ns);
        seconds(self.header.ended_ns.unwrap_or(last))
    }
}

impl Censuses {
    /// Sums up the rows of each moment.
    #[must_use]
    pub fn of(rows: Vec<CategoryBytes>) -> Self {
        // All or none: divided and undivided parts do not add up.
        let proportional = rows.iter().all(|row| row.proportional_bytes.is_some());
        let bytes =
            |row: &CategoryBytes| row.proportional_bytes.filter(|_| proportional).unwrap_or(row.bytes);
        let rows = rows.into_iter().map(|row| (row.time_ns, bytes(&row), row.category));
        Censuses {
            over_time: sums_over_time(rows.map(|(time_ns, bytes, category)| (time_ns, category, bytes))),
            counted: if proportional { Counted::Pss } else { Counted::Rss },
        }
    }

    /// Tells whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.over_time.is_empty()
    }

    /// The newest one: bytes by category.
    #[must_use]
    pub fn last(&self) -> Option<&Sums> {
        self.over_time.last().map(|(_, census)| census)
    }
}

/// Sums up the counters of each moment.
#[must_use]
pub fn counters_over_time(rows: Vec<Counter>) -> Vec<(f64, Sums)> {
    sums_over_time(rows.into_iter().map(|row| (row.time_ns, row.name, row.value)))
}

fn sums_over_time(rows: impl Iterator<Item = (i64, String, u64)>) -> Vec<(f64, Sums)> {
    let mut sums: BTreeMap<i64, Sums> = BTreeMap::new();
    for (time_ns, name, value) in rows {
        let sum = sums.entry(time_ns).or_default().entry(name).or_default();
        *sum = sum.saturating_add(value);
    }
    sums.into_iter().map(|(time_ns, sums)| (seconds(time_ns), sums)).collect()
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
        let divided = Censuses::of(vec![row(1_000_000_000, 10, Some(4)), row(1_000_000_000, 10, Some(5))]);
        assert_eq!(divided, Censuses { over_time: vec![(1.0, sums(9))], counted: Counted::Pss });
        let mixed = Censuses::of(vec![row(1_000_000_000, 10, Some(4)), row(2_000_000_000, 10, None)]);
        let over_time = vec![(1.0, sums(10)), (2.0, sums(10))];
        assert_eq!(mixed, Censuses { over_time, counted: Counted::Rss });
    }
}
