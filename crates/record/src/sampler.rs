//! Reads memory, CPU, faults and threads of several processes at one moment, with PSS, USS and swap.
//! Recordings and experiments share this sampler.

use std::collections::{BTreeMap, HashMap};
use unbloat_process::stat::Stat;
use unbloat_process::watch::{ProcFs, Watched, ticks_per_second};
use unbloat_process::{Error, Pid, Rollup};
use unbloat_recording::{ProcessId, Sample};
use unbloat_store::clock::monotonic_ns;

/// Keeps the files of the most recently read processes open.
#[derive(Debug)]
pub struct Sampler {
    proc: ProcFs,
    ticks_per_second: f64,
    watched: HashMap<ProcessId, Watched>,
    buffer: Vec<u8>,
}

/// One reading of all processes.
#[derive(Debug, Default)]
pub struct Sweep {
    /// A sample of each process that still exists.
    pub samples: Vec<Sample>,
    /// Parts that could not be read, with the reasons.
    pub notes: Vec<(ProcessId, String)>,
    /// Total time for which the processes' mmap locks may have been held.
    pub held_s: f64,
}

impl Sweep {
    /// Returns PSS by process.
    #[must_use]
    pub fn pss(&self) -> BTreeMap<ProcessId, u64> {
        self.samples.iter().filter_map(|sample| Some((sample.process, sample.pss_bytes?))).collect()
    }

    /// Returns the PSS of all processes, in bytes.
    #[must_use]
    pub fn pss_bytes(&self) -> u64 {
        self.samples.iter().filter_map(|sample| sample.pss_bytes).fold(0, u64::saturating_add)
    }
}

impl Sampler {
    /// Creates a sampler for this `/proc`.
    #[must_use]
    pub fn new(proc: ProcFs) -> Self {
        Sampler {
            proc,
            ticks_per_second: ticks_per_second(),
            watched: HashMap::new(),
            buffer: Vec::with_capacity(4096),
        }
    }

    /// Reads all processes; samples are dated `time_ns`. `keep_open`: their files may stay open for the next
    /// call.
    pub fn sweep(&mut self, processes: &[(ProcessId, Pid)], time_ns: i64, keep_open: bool) -> Sweep {
        let wanted: HashMap<ProcessId, Pid> = processes.iter().copied().collect();
        self.watched.retain(|id, _| wanted.contains_key(id));
        let mut sweep = Sweep { samples: Vec::with_capacity(processes.len()), ..Sweep::default() };
        for &(id, pid) in processes {
            match self.read(id, pid, time_ns, keep_open, &mut sweep) {
                Ok(Some(sample)) => sweep.samples.push(sample),
                Ok(None) | Err(Error::Gone { .. }) => {}
                Err(error) => sweep.notes.push((id, error.to_string())),
            }
        }
        sweep
    }

    /// Reads one process; `None` if it has ended.
    fn read(
        &mut self,
        id: ProcessId,
        pid: Pid,
        time_ns: i64,
        keep_open: bool,
        sweep: &mut Sweep,
    ) -> unbloat_process::Result<Option<Sample>> {
        let watched = self.watched.entry(id).or_insert_with(|| self.proc.watch(pid, keep_open));
        let stat = watched.stat(&mut self.buffer)?;
        if stat.is_dead() {
            return Ok(None);
        }
        let sample = sample(id, time_ns, &stat, self.ticks_per_second);
        let begun_ns = monotonic_ns();
        let rollup = watched.rollup(&mut self.buffer);
        sweep.held_s += (monotonic_ns() - begun_ns) as f64 / 1e9;
        match rollup {
            Ok(rollup) => Ok(rollup.map(|rollup| with_rollup(sample, rollup))),
            // Readable parts are kept, the others are absent.
            Err(error @ Error::NotPermitted { .. }) => {
                sweep.notes.push((id, error.to_string()));
                Ok(Some(sample))
            }
            Err(error) => Err(error),
        }
    }
}

fn with_rollup(sample: Sample, rollup: Rollup) -> Sample {
    Sample {
        rss_bytes: Some(rollup.rss_bytes),
        pss_bytes: Some(rollup.pss_bytes),
        uss_bytes: Some(rollup.uss_bytes),
        swap_bytes: Some(rollup.swap_bytes),
        ..sample
    }
}

/// Creates a sample from the contents of `stat`.
pub(crate) fn sample(process: ProcessId, time_ns: i64, stat: &Stat, ticks_per_second: f64) -> Sample {
    Sample {
        time_ns,
        process,
        rss_bytes: Some(stat.rss_bytes),
        minor_faults: Some(stat.minor_faults),
        major_faults: Some(stat.major_faults),
        user_s: Some(stat.user_ticks as f64 / ticks_per_second),
        system_s: Some(stat.system_ticks as f64 / ticks_per_second),
        threads: Some(stat.threads),
        ..Sample::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_living_are_sampled_and_the_gone_are_left_out() {
        let mut sampler = Sampler::new(ProcFs::default());
        let processes = [(ProcessId(1), Pid::this()), (ProcessId(2), Pid(i32::MAX))];
        for time_ns in [5, 6] {
            let sweep = sampler.sweep(&processes, time_ns, true);
            let [sample] = sweep.samples[..] else { panic!("{sweep:?}") };
            assert_eq!((sample.process, sample.time_ns), (ProcessId(1), time_ns));
            assert!(sample.pss_bytes.unwrap() > 0 && sample.threads.unwrap() > 0);
            assert_eq!(sweep.pss(), BTreeMap::from([(ProcessId(1), sweep.pss_bytes())]));
            assert_eq!(sweep.notes, []);
        }
    }
}
