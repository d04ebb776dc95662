//! The recorded tree over time: its memory and CPU at each look, and the memory of each process.

use crate::cpu::CpuSum;
use crate::recording::{Counted, Recording, seconds};
use crate::{Process, ProcessId, Sample};
use std::collections::{BTreeMap, BTreeSet};

/// Values over time: seconds since the recording began, and the value.
pub type Points = Vec<(f64, f64)>;

/// Minimum time over which CPU is averaged, since the kernel counts it in clock ticks.
const CPU_SPAN_S: f64 = 0.2;

/// The tree at one look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Seconds since the recording began.
    pub time_s: f64,
    /// Number of processes.
    pub processes: u64,
    /// Sum of RSS.
    pub rss_bytes: Option<u64>,
    /// Sum of PSS, if taken.
    pub pss_bytes: Option<u64>,
    /// Sum of USS.
    pub uss_bytes: Option<u64>,
    /// Sum of swap.
    pub swap_bytes: Option<u64>,
    /// CPU use since the previous look, in cores.
    pub cpu_cores: Option<f64>,
}

impl Recording {
    /// Returns the tree at each look.
    #[must_use]
    pub fn looks(&self) -> Vec<Look> {
        let mut cpu = CpuSum::of(self);
        let mut before = None::<(f64, f64)>;
        let mut looks = Vec::new();
        for samples in self.samples.chunk_by(|a, b| a.time_ns == b.time_ns) {
            for sample in samples {
                if let Some((user_s, system_s)) = sample.user_s.zip(sample.system_s) {
                    cpu.read(sample.process, user_s + system_s);
                }
            }
            if let Some(first) = samples.first().filter(|_| samples.iter().any(|s| s.rss_bytes.is_some())) {
                let now = (seconds(first.time_ns), cpu.up_to(first.time_ns));
                looks.push(Look { cpu_cores: cpu_cores(&mut before, now), ..Look::sum(now.0, samples) });
            }
        }
        looks
    }

    /// Returns the tree's memory over time, (seconds, bytes), and its unit: PSS, or RSS if PSS was never
    /// taken.
    #[must_use]
    pub fn memory(&self) -> (Points, Counted) {
        let pss = self.each_look(|look| look.pss_bytes);
        if pss.is_empty() {
            (self.each_look(|look| look.rss_bytes), Counted::Rss)
        } else {
            (pss, Counted::Pss)
        }
    }

    /// Like [`Recording::memory`], but in the unit of the censuses, to match the sum of their parts.
    #[must_use]
    pub fn memory_as_in_census(&self) -> (Points, Counted) {
        match self.censuses.counted {
            Counted::Pss => self.memory(),
            Counted::Rss => (self.each_look(|look| look.rss_bytes), Counted::Rss),
        }
    }

    fn each_look(&self, pick: fn(&Look) -> Option<u64>) -> Points {
        self.looks().iter().filter_map(|look| Some((look.time_s, pick(look)? as f64))).collect()
    }

    /// Returns the tree's CPU use over time, in cores.
    #[must_use]
    pub fn cpu(&self) -> Points {
        self.looks().iter().filter_map(|look| Some((look.time_s, look.cpu_cores?))).collect()
    }

    /// Returns the memory of each process on a common grid of at most `columns` moments: PSS, or RSS if PSS
    /// was never taken. A process has 0 at moments when it does not exist.
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
}

impl Look {
    /// Adds up the samples of one look. CPU is not included, because it is the difference of two looks.
    fn sum(time_s: f64, samples: &[Sample]) -> Self {
        let sum =
            |pick: fn(&Sample) -> Option<u64>| samples.iter().filter_map(pick).reduce(u64::saturating_add);
        Look {
            time_s,
            processes: samples.iter().filter(|sample| sample.rss_bytes.is_some()).count() as u64,
            rss_bytes: sum(|s| s.rss_bytes),
            pss_bytes: sum(|s| s.pss_bytes),
            uss_bytes: sum(|s| s.uss_bytes),
            swap_bytes: sum(|s| s.swap_bytes),
            cpu_cores: None,
        }
    }
}

/// Returns the cores in use between `before` and `now` (seconds, and total CPU seconds by then), once the
/// interval is long enough; then `before` moves on.
fn cpu_cores(before: &mut Option<(f64, f64)>, now: (f64, f64)) -> Option<f64> {
    let Some((from_s, from_cpu_s)) = *before else {
        *before = Some(now);
        return None;
    };
    (now.0 - from_s >= CPU_SPAN_S).then(|| {
        *before = Some(now);
        (now.1 - from_cpu_s) / (now.0 - from_s)
    })
}
