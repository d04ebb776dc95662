//! Takes PSS and the census, whose cost grows with the tree: one reading at a time, as often as the budget allows.

use super::options::Options;
use crate::budget::Budget;
use crate::cpu;
use crate::reading::{Reading, ReadingThread, Request};
use crate::tree::Tree;
use std::time::{Duration, Instant};

/// Longest wait for a reading in hand at the end of a recording.
const LAST_READING: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Readings {
    thread: ReadingThread,
    budget: Budget,
    /// Up to when the budget was paid in.
    passed: Instant,
    /// CPU of all readings so far, in seconds.
    readings_cpu_s: f64,
    /// CPU of everything else up to `passed`, in seconds.
    other_cpu_s: f64,
}

impl Readings {
    pub(super) fn new(thread: ReadingThread, options: &Options) -> Self {
        Readings {
            thread,
            budget: Budget::new(options.budget, options.interval, options.census_interval),
            passed: Instant::now(),
            readings_cpu_s: 0.0,
            other_cpu_s: cpu::of_process(),
        }
    }

    /// The result of the reading in hand, when it is done; begins the next one that the budget allows for a tree of so
    /// many resident bytes.
    pub(super) fn step(&mut self, tree: &Tree, rss_bytes: u64) -> Option<Reading> {
        self.budget.resize(rss_bytes);
        let now = Instant::now();
        let reading = self.thread.result();
        if let Some(reading) = &reading {
            self.budget.spend(reading.work, reading.cpu_s);
            self.readings_cpu_s += reading.cpu_s;
        }
        // What the work in hand has used so far is not known before it is done: the account of that time waits for it.
        if !self.thread.is_busy() {
            let elapsed = now - std::mem::replace(&mut self.passed, now);
            let other_cpu_s = cpu::of_process() - self.readings_cpu_s;
            self.budget.pass(elapsed, other_cpu_s - std::mem::replace(&mut self.other_cpu_s, other_cpu_s));
            self.begin(tree);
        }
        reading
    }

    fn begin(&mut self, tree: &Tree) {
        let Some(work) = self.budget.due().filter(|_| !tree.members.is_empty()) else { return };
        self.budget.begin(work);
        let processes = tree.members.iter().map(|(&pid, member)| (member.id, pid)).collect();
        self.thread.begin(Request { work, processes, keep_open: tree.keeps_open() });
    }

    /// The result of the reading in hand, if it is done soon. No more are taken.
    pub(super) fn end(&mut self) -> Option<Reading> {
        self.thread.end(LAST_READING)
    }
}
