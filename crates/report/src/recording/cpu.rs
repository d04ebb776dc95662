//! The CPU of the whole tree up to a moment: what each process was seen to have used, what it had used in all when it
//! ended (a short-lived one was never seen before), and that of the processes that are only counted.

use super::series::Loaded;
use std::collections::{BTreeMap, BTreeSet};
use unbloat_recording::{Folded, ProcessId};

/// The span of a row of `folded`.
const MINUTE_NS: f64 = 60e9;

/// A sum that grows with time.
#[derive(Debug)]
pub(super) struct CpuSum<'a> {
    /// Ran before the recording: what they had used then does not belong to it.
    older: BTreeSet<ProcessId>,
    used: BTreeMap<ProcessId, f64>,
    /// When processes ended and what they had used, the first at the end.
    endings: Vec<(i64, ProcessId, f64)>,
    folded: &'a [Folded],
    sum_s: f64,
}

impl<'a> CpuSum<'a> {
    pub(super) fn of(loaded: &'a Loaded) -> Self {
        let first = loaded.samples.first().map_or(0, |sample| sample.time_ns);
        let all_born = loaded.fact("recorded") == Some("a command");
        let older = loaded.processes.iter().filter(|process| !all_born && process.first_seen_ns <= first);
        let ending = |process: &unbloat_recording::Process| {
            Some((process.ended_ns?, process.id, process.user_s? + process.system_s?))
        };
        let mut endings: Vec<_> = loaded.processes.iter().filter_map(ending).collect();
        endings.sort_by_key(|&(ended_ns, ..)| std::cmp::Reverse(ended_ns));
        CpuSum {
            older: older.map(|process| process.id).collect(),
            used: BTreeMap::new(),
            endings,
            folded: &loaded.folded,
            sum_s: 0.0,
        }
    }

    /// A process has used so many seconds since it began.
    pub(super) fn read(&mut self, process: ProcessId, total_s: f64) {
        match self.used.insert(process, total_s) {
            Some(known_s) => self.sum_s += (total_s - known_s).max(0.0),
            None if self.older.contains(&process) => {}
            None => self.sum_s += total_s,
        }
    }

    /// CPU seconds up to a moment, of which the readings are known.
    pub(super) fn up_to(&mut self, time_ns: i64) -> f64 {
        while let Some((_, process, total_s)) = self.endings.pop_if(|&mut (ended_ns, ..)| ended_ns <= time_ns)
        {
            self.read(process, total_s);
        }
        // Evenly over their minute.
        let passed = |row: &Folded| ((time_ns - row.time_ns) as f64 / MINUTE_NS).clamp(0.0, 1.0);
        self.sum_s + self.folded.iter().map(|row| (row.user_s + row.system_s) * passed(row)).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use unbloat_recording::{Kind, NewProcess, ProcessEnd, Sample};
    use unbloat_store::{Reader, Writer, begin};

    #[test]
    fn the_cpu_of_those_that_nobody_saw_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.unbloat");
        let mut writer = Writer::create(&path, &begin(Kind::Record)).unwrap();
        let second = 1_000_000_000;
        writer
            .batch(|batch| {
                let new = |pid, first_seen_ns| NewProcess { pid, first_seen_ns, ..NewProcess::default() };
                let server = batch.process(&new(1, 0))?;
                for (time_ns, user_s) in [(second, 100.0), (2 * second, 100.5), (3 * second, 100.5)] {
                    let (rss_bytes, user_s, system_s) = (Some(1 << 20), Some(user_s), Some(0.0));
                    let process = server;
                    batch.sample(&Sample {
                        time_ns,
                        process,
                        rss_bytes,
                        user_s,
                        system_s,
                        ..Sample::default()
                    })?;
                }
                let short_lived = batch.process(&new(2, 2 * second + 1))?;
                batch.process_ended(
                    short_lived,
                    &ProcessEnd {
                        ended_ns: 2 * second + second / 2,
                        user_s: Some(0.25),
                        system_s: Some(0.125),
                        ..ProcessEnd::default()
                    },
                )
            })
            .unwrap();
        writer.finish(3 * second, "test", None).unwrap();
        let mut loaded = Loaded::read(&Reader::open(&path).unwrap()).unwrap();
        let rounded = |loaded: &Loaded| -> Vec<(f64, f64)> {
            loaded.cpu().into_iter().map(|(at, cores)| (at, (cores * 1e6).round() / 1e6)).collect()
        };
        assert_eq!(rounded(&loaded), [(2.0, 0.5), (3.0, 0.375)]);
        loaded.folded = vec![Folded { time_ns: 0, processes: 600, user_s: 40.0, system_s: 20.0 }];
        assert_eq!(rounded(&loaded), [(2.0, 1.5), (3.0, 1.375)]);
    }
}
