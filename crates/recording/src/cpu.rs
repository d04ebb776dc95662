//! The CPU of the whole tree up to a moment: the use seen in each process, the totals of ended processes (a
//! short-lived one was never seen before), and that of processes that are only counted.

use crate::{Folded, Key, Process, ProcessId, Recording};
use std::collections::{BTreeMap, BTreeSet};

/// The span of a row of `folded`.
const MINUTE_NS: f64 = 60e9;

/// A sum that grows with time.
#[derive(Debug)]
pub(crate) struct CpuSum<'a> {
    /// Processes that ran before the recording: their earlier use does not belong to it.
    older: BTreeSet<ProcessId>,
    used: BTreeMap<ProcessId, f64>,
    /// End times of processes and their total CPU, earliest last.
    endings: Vec<(i64, ProcessId, f64)>,
    folded: &'a [Folded],
    sum_s: f64,
}

impl<'a> CpuSum<'a> {
    pub(crate) fn of(recording: &'a Recording) -> Self {
        let first = recording.samples.first().map_or(0, |sample| sample.time_ns);
        let all_born = recording.fact(Key::Recorded).is_some_and(|recorded| recorded == "a command");
        let older = recording.processes.iter().filter(|process| !all_born && process.first_seen_ns <= first);
        let ending =
            |process: &Process| Some((process.ended_ns?, process.id, process.user_s? + process.system_s?));
        let mut endings: Vec<_> = recording.processes.iter().filter_map(ending).collect();
        endings.sort_by_key(|&(ended_ns, ..)| std::cmp::Reverse(ended_ns));
        CpuSum {
            older: older.map(|process| process.id).collect(),
            used: BTreeMap::new(),
            endings,
            folded: &recording.folded,
            sum_s: 0.0,
        }
    }

    /// Records that a process has used this many seconds since it started.
    pub(crate) fn read(&mut self, process: ProcessId, total_s: f64) {
        match self.used.insert(process, total_s) {
            Some(known_s) => self.sum_s += (total_s - known_s).max(0.0),
            None if self.older.contains(&process) => {}
            None => self.sum_s += total_s,
        }
    }

    /// Returns the CPU seconds up to a moment for which all readings are known.
    pub(crate) fn up_to(&mut self, time_ns: i64) -> f64 {
        while let Some((_, process, total_s)) = self.endings.pop_if(|&mut (ended_ns, ..)| ended_ns <= time_ns)
        {
            self.read(process, total_s);
        }
        // Spread evenly over their minute.
        let passed = |row: &Folded| ((time_ns as f64 - row.time_ns as f64) / MINUTE_NS).clamp(0.0, 1.0);
        self.sum_s + self.folded.iter().map(|row| (row.user_s + row.system_s) * passed(row)).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuSource, Header, Kind, Sample};

    const SECOND_NS: i64 = 1_000_000_000;

    fn process(id: i64, first_seen_ns: i64) -> Process {
        Process {
            id: ProcessId(id),
            run: None,
            pid: id as i32,
            start_ticks: None,
            parent: None,
            command: String::new().into(),
            first_seen_ns,
            last_seen_ns: first_seen_ns,
            ended_ns: None,
            exit_status: None,
            user_s: None,
            system_s: None,
            cpu_source: None,
            peak_rss_bytes: None,
            runtime: None,
            note: None,
        }
    }

    fn recording(processes: Vec<Process>, samples: Vec<Sample>) -> Recording {
        Recording {
            name: "a".into(),
            header: Header {
                kind: Kind::Record,
                tool_version: String::new(),
                started_wall_ns: 0,
                started_monotonic_ns: 0,
                owner: None,
                ended_ns: Some(3 * SECOND_NS),
                end_reason: None,
                exit_status: None,
            },
            provenance: Vec::new(),
            processes,
            folded: Vec::new(),
            samples,
            censuses: crate::Censuses::default(),
            counters: Vec::new(),
            rubies: crate::Rubies::default(),
            marks: Vec::new(),
            latencies: Vec::new(),
            cost: None,
        }
    }

    #[test]
    fn the_cpu_of_those_that_nobody_saw_counts() {
        let sample = |seconds: i64, user_s| Sample {
            time_ns: seconds * SECOND_NS,
            process: ProcessId(1),
            rss_bytes: Some(1 << 20),
            user_s: Some(user_s),
            system_s: Some(0.0),
            ..Sample::default()
        };
        let short_lived = Process {
            ended_ns: Some(2 * SECOND_NS + SECOND_NS / 2),
            user_s: Some(0.25),
            system_s: Some(0.125),
            cpu_source: Some(CpuSource::Exit),
            ..process(2, 2 * SECOND_NS + 1)
        };
        let samples = vec![sample(1, 100.0), sample(2, 100.5), sample(3, 100.5)];
        let mut recorded = recording(vec![process(1, 0), short_lived], samples);
        let rounded = |recorded: &Recording| -> Vec<(f64, f64)> {
            recorded.cpu().into_iter().map(|(at, cores)| (at, (cores * 1e6).round() / 1e6)).collect()
        };
        assert_eq!(rounded(&recorded), [(2.0, 0.5), (3.0, 0.375)]);
        recorded.folded = vec![Folded { time_ns: 0, processes: 600, user_s: 40.0, system_s: 20.0 }];
        assert_eq!(rounded(&recorded), [(2.0, 1.5), (3.0, 1.375)]);
    }
}
