//! Adds up the cost of the recording itself.

use crate::budget::Work;
use crate::cpu;
use crate::reading::Reading;
use crate::schedule::Schedule;
use crate::tree::Tree;
use unbloat_process::Pid;
use unbloat_process::watch::ProcFs;
use unbloat_recording::Cost;

#[derive(Debug)]
pub(super) struct OwnCost {
    sum: Cost,
    /// CPU seconds used by the process before the recording.
    cpu_before_s: f64,
}

impl OwnCost {
    /// Starts counting now.
    pub(super) fn new() -> Self {
        OwnCost { sum: Cost::default(), cpu_before_s: cpu::of_process() }
    }

    pub(super) fn add(&mut self, reading: &Reading) {
        match reading.work {
            Work::Pss => {
                self.sum.pss_sweeps += 1;
                self.sum.pss_held_s += reading.held_s;
            }
            Work::Census => {
                self.sum.censuses += u64::from(reading.inspected > 0);
                self.sum.census_s += reading.cpu_s;
            }
            // Their number is that of their rows; their time is part of the whole.
            Work::Classes | Work::Holders => {}
        }
    }

    pub(super) fn up_to(&mut self, time_ns: i64, schedule: &Schedule, tree: &Tree) -> Cost {
        let spent = tree.spent();
        self.sum = Cost {
            time_ns,
            cpu_s: cpu::of_process() - self.cpu_before_s,
            rss_bytes: ProcFs::default().stat(Pid::this()).ok().map(|stat| stat.rss_bytes),
            ticks: schedule.taken,
            late_ticks: schedule.late,
            missed_ticks: schedule.missed,
            short_lived: spent.short_lived,
            short_lived_cpu_s: tree.seconds(spent.short_lived_ticks),
            ..self.sum
        };
        self.sum
    }
}
