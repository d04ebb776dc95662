//! Takes PSS, the census and looks at Rubies, whose cost grows with the tree: one reading at a time, as often as the budget
//! allows.

use super::options::Options;
use crate::budget::{Budget, Work};
use crate::cpu;
use crate::growing::{Growing, Suspects};
use crate::ops::Op;
use crate::reading::{Reading, ReadingThread, Request};
use crate::tree::Tree;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use unbloat_recording::ProcessId;

/// Maximum wait for a reading in progress at the end of a recording.
const LAST_READING: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Readings {
    thread: ReadingThread,
    budget: Budget,
    /// Time up to which the budget has been paid in.
    passed: Instant,
    /// CPU of all readings so far, in seconds.
    readings_cpu_s: f64,
    /// CPU of everything else up to `passed`, in seconds.
    other_cpu_s: f64,
    /// The Rubies of the last census.
    rubies: BTreeSet<ProcessId>,
    growing: Growing,
    /// The classes whose holders are found at the next opportunity.
    suspects: Option<Suspects>,
}

impl Readings {
    pub(super) fn new(thread: ReadingThread, options: &Options) -> Self {
        Readings {
            thread,
            budget: Budget::new(options.budget, options.interval, options.census_interval)
                .with_classes(options.class_interval),
            passed: Instant::now(),
            readings_cpu_s: 0.0,
            other_cpu_s: cpu::of_process(),
            rubies: BTreeSet::new(),
            growing: Growing::default(),
            suspects: None,
        }
    }

    /// Returns the finished reading, if any, and starts the next one that the budget allows for a tree of
    /// this many resident bytes.
    pub(super) fn step(&mut self, tree: &Tree, rss_bytes: u64) -> Option<Reading> {
        self.budget.resize(rss_bytes);
        let now = Instant::now();
        let reading = self.thread.result();
        if let Some(reading) = &reading {
            self.budget.spend(reading.work, reading.cpu_s);
            self.readings_cpu_s += reading.cpu_s;
            self.learn(reading);
        }
        // The CPU use of a reading in progress is unknown until it is done, so the accounting of that time
        // waits for it.
        if !self.thread.is_busy() {
            let elapsed = now - std::mem::replace(&mut self.passed, now);
            let other_cpu_s = cpu::of_process() - self.readings_cpu_s;
            self.budget.pass(elapsed, other_cpu_s - std::mem::replace(&mut self.other_cpu_s, other_cpu_s));
            self.begin(tree);
        }
        reading
    }

    /// Remembers the Rubies of a census, and the classes that grow.
    fn learn(&mut self, reading: &Reading) {
        match reading.work {
            Work::Census if reading.inspected > 0 => {
                self.rubies = reading.rubies.iter().copied().collect();
                self.budget.want_classes(!self.rubies.is_empty());
            }
            Work::Classes if reading.inspected > 0 => {
                let rows = reading.ops.iter().filter_map(|op| match op {
                    Op::Classes(rows) => Some(rows),
                    _ => None,
                });
                self.growing.add(rows.flatten());
                self.suspects = self.growing.due().or(self.suspects.take());
            }
            Work::Pss | Work::Census | Work::Classes | Work::Holders => {}
        }
    }

    fn begin(&mut self, tree: &Tree) {
        let Some(work) = self.budget.due().filter(|_| !tree.members.is_empty()) else { return };
        self.budget.begin(work);
        let all = tree.members.iter().map(|(&pid, member)| (member.id, pid));
        let (work, processes, classes) = match work {
            Work::Pss | Work::Census => (work, all.collect(), Vec::new()),
            Work::Classes | Work::Holders => match self.suspects.take() {
                Some(Suspects { process, classes }) => {
                    (Work::Holders, all.filter(|(id, _)| *id == process).collect(), classes)
                }
                None => (Work::Classes, all.filter(|(id, _)| self.rubies.contains(id)).collect(), Vec::new()),
            },
        };
        self.thread.begin(Request { work, processes, classes, keep_open: tree.keeps_open() });
    }

    /// Returns the reading in progress if it finishes soon. No more are taken.
    pub(super) fn end(&mut self) -> Option<Reading> {
        self.thread.end(LAST_READING)
    }
}
