//! What a recording says over time, ready to be drawn or listed.

use super::cpu::CpuSum;
use super::latency::{self, Distribution};
use crate::segment::Segment;
use std::collections::{BTreeMap, BTreeSet};
use unbloat_recording::{Folded, Header, Mark, Process, ProcessId, Sample};
use unbloat_store::{Reader, Result};

/// A recording in memory.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it is called in a legend: the file's name without its ending.
    pub name: String,
    /// What the file says about itself.
    pub header: Header,
    /// Facts about where the figures come from.
    pub provenance: Vec<(String, String)>,
    /// The processes.
    pub processes: Vec<Process>,
    /// Short-lived processes that are only counted.
    pub folded: Vec<Folded>,
    /// The samples in the order of time.
    pub samples: Vec<Sample>,
    /// Bytes by category of the whole tree at each census, proportional where that is known.
    pub censuses: Vec<(f64, BTreeMap<String, u64>)>,
    /// Whether the censuses are proportional throughout: then they sum up to PSS, else to RSS.
    pub census_is_proportional: bool,
    /// Sums over the tree of the counters that came with the censuses.
    pub counters: Vec<(f64, BTreeMap<String, u64>)>,
    /// The marks.
    pub marks: Vec<Mark>,
    /// What `unbloat bench` has measured.
    pub latencies: Vec<Distribution>,
}

/// The tree at one look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Seconds since the recording began.
    pub time_s: f64,
    /// Processes.
    pub processes: u64,
    /// Sum of RSS.
    pub rss_bytes: Option<u64>,
    /// Sum of PSS, where it was taken.
    pub pss_bytes: Option<u64>,
    /// Sum of USS.
    pub uss_bytes: Option<u64>,
    /// Sum of swap.
    pub swap_bytes: Option<u64>,
    /// CPU in use since the look before, in cores.
    pub cpu_cores: Option<f64>,
}

/// Nanoseconds to seconds.
#[must_use]
pub fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

impl Loaded {
    /// Reads a whole recording.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(reader: &Reader) -> Result<Self> {
        let rows = reader.census()?;
        // All or none: parts of which some are divided and some are not add up to nothing.
        let census_is_proportional = rows.iter().all(|row| row.proportional_bytes.is_some());
        let mut censuses: BTreeMap<i64, BTreeMap<String, u64>> = BTreeMap::new();
        for row in rows {
            let bytes = row.proportional_bytes.filter(|_| census_is_proportional).unwrap_or(row.bytes);
            *censuses.entry(row.time_ns).or_default().entry(row.category).or_default() += bytes;
        }
        let mut counters: BTreeMap<i64, BTreeMap<String, u64>> = BTreeMap::new();
        for row in reader.counters()? {
            *counters.entry(row.time_ns).or_default().entry(row.name).or_default() += row.value;
        }
        let in_seconds =
            |map: BTreeMap<i64, _>| map.into_iter().map(|(ns, sums)| (seconds(ns), sums)).collect();
        Ok(Loaded {
            name: reader.path().file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            header: reader.header().clone(),
            provenance: reader.provenance(None)?,
            processes: reader.processes()?,
            folded: reader.folded()?,
            samples: reader.samples()?,
            censuses: in_seconds(censuses),
            census_is_proportional,
            counters: in_seconds(counters),
            marks: reader.marks()?,
            latencies: latency::read(reader)?,
        })
    }

    /// A fact about where the figures come from.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.provenance.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// How long it took, as far as it is written.
    #[must_use]
    pub fn duration_s(&self) -> f64 {
        let last = self.samples.last().map_or(0, |sample| sample.time_ns);
        seconds(self.header.ended_ns.unwrap_or(last))
    }

    /// The tree at each look.
    #[must_use]
    pub fn looks(&self) -> Vec<Look> {
        let mut cpu = CpuSum::of(self);
        let mut before = None::<(f64, f64)>;
        let mut looks = Vec::new();
        for look in self.samples.chunk_by(|a, b| a.time_ns == b.time_ns) {
            for sample in look {
                if let Some((user_s, system_s)) = sample.user_s.zip(sample.system_s) {
                    cpu.read(sample.process, user_s + system_s);
                }
            }
            let Some(first) = look.first().filter(|_| look.iter().any(|sample| sample.rss_bytes.is_some()))
            else {
                continue;
            };
            let sum = |pick: fn(&Sample) -> Option<u64>| {
                let values: Vec<u64> = look.iter().filter_map(pick).collect();
                (!values.is_empty()).then(|| values.iter().sum::<u64>())
            };
            let (time_s, cpu_s) = (seconds(first.time_ns), cpu.up_to(first.time_ns));
            // Clock ticks are too coarse for the shortest intervals: over at least 0.2 s.
            let cpu_cores = match before {
                Some((from, at)) if time_s - from >= 0.2 => {
                    before = Some((time_s, cpu_s));
                    Some((cpu_s - at) / (time_s - from))
                }
                Some(_) => None,
                None => {
                    before = Some((time_s, cpu_s));
                    None
                }
            };
            looks.push(Look {
                time_s,
                processes: look.iter().filter(|sample| sample.rss_bytes.is_some()).count() as u64,
                rss_bytes: sum(|s| s.rss_bytes),
                pss_bytes: sum(|s| s.pss_bytes),
                uss_bytes: sum(|s| s.uss_bytes),
                swap_bytes: sum(|s| s.swap_bytes),
                cpu_cores,
            });
        }
        looks
    }

    /// The tree's memory over time, (seconds, bytes): PSS, or RSS where PSS was never taken; and which of the two.
    #[must_use]
    pub fn memory(&self) -> (Vec<(f64, f64)>, &'static str) {
        let pss = self.each_look(|look| look.pss_bytes);
        if pss.is_empty() { (self.each_look(|look| look.rss_bytes), "RSS") } else { (pss, "PSS") }
    }

    /// As [`Loaded::memory`], counted as the censuses are: what their parts sum up to.
    #[must_use]
    pub fn memory_as_in_census(&self) -> (Vec<(f64, f64)>, &'static str) {
        if self.census_is_proportional {
            self.memory()
        } else {
            (self.each_look(|look| look.rss_bytes), "RSS")
        }
    }

    fn each_look(&self, pick: fn(&Look) -> Option<u64>) -> Vec<(f64, f64)> {
        self.looks().iter().filter_map(|look| Some((look.time_s, pick(look)? as f64))).collect()
    }

    /// CPU of the tree over time, in cores.
    #[must_use]
    pub fn cpu(&self) -> Vec<(f64, f64)> {
        self.looks().iter().filter_map(|look| Some((look.time_s, look.cpu_cores?))).collect()
    }

    /// Memory of each process on a common grid of at most `columns` moments: PSS, or RSS where PSS was never taken.
    /// A process that does not live at a moment has 0 there.
    #[must_use]
    pub fn memory_by_process(&self, columns: usize) -> (Vec<f64>, Vec<(&Process, Vec<f64>)>) {
        let has_pss = self.samples.iter().any(|sample| sample.pss_bytes.is_some());
        let value = |sample: &Sample| if has_pss { sample.pss_bytes } else { sample.rss_bytes };
        let times: BTreeSet<i64> =
            self.samples.iter().filter(|s| value(s).is_some()).map(|sample| sample.time_ns).collect();
        let every = times.len().div_ceil(columns.max(1)).max(1);
        let grid: Vec<i64> = times.iter().copied().step_by(every).collect();
        let mut by_process: BTreeMap<ProcessId, Vec<(i64, u64)>> = BTreeMap::new();
        for sample in &self.samples {
            if let Some(bytes) = value(sample) {
                by_process.entry(sample.process).or_default().push((sample.time_ns, bytes));
            }
        }
        let on_grid = |points: &[(i64, u64)]| -> Vec<f64> {
            let last = points.last().map_or(i64::MIN, |point| point.0);
            grid.iter()
                .map(|&at| {
                    let index = points.partition_point(|&(time, _)| time <= at);
                    let known = index.checked_sub(1).and_then(|i| points.get(i));
                    known.filter(|_| at <= last).map_or(0.0, |&(_, bytes)| bytes as f64)
                })
                .collect()
        };
        let series = self
            .processes
            .iter()
            .filter_map(|process| Some((process, on_grid(by_process.get(&process.id)?))))
            .collect();
        (grid.into_iter().map(seconds).collect(), series)
    }

    /// The segments of memory over time, in the order of [`Segment::STACKED`].
    pub(crate) fn memory_by_segment(&self) -> Vec<(Segment, Vec<(f64, f64)>)> {
        let over_time = |segment: Segment| {
            self.censuses.iter().map(|(at, census)| (*at, segment.recorded_bytes(census) as f64)).collect()
        };
        Segment::STACKED.iter().map(|&segment| (segment, over_time(segment))).collect()
    }
}
