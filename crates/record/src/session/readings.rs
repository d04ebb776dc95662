//! PSS and the census, which cost time in proportion to the tree's size: one reading at a time, as often as the budget
//! allows.

use super::options::Options;
use crate::budget::Budget;
use crate::cpu;
use crate::deep::{Deep, Done, Job};
use crate::tree::Tree;
use std::time::{Duration, Instant};

/// How long the end of a recording waits for a reading in hand.
const LAST_READING: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Readings {
    deep: Deep,
    budget: Budget,
    /// Up to when the budget was paid in.
    passed: Instant,
    /// CPU of all readings so far, in seconds.
    deep_cpu_s: f64,
    /// CPU of everything else up to `passed`, in seconds.
    other_cpu_s: f64,
}

impl Readings {
    pub(super) fn new(deep: Deep, options: &Options) -> Self {
        Readings {
            deep,
            budget: Budget::new(options.budget, options.interval, options.census_interval),
            passed: Instant::now(),
            deep_cpu_s: 0.0,
            other_cpu_s: cpu::of_process(),
        }
    }

    /// What came of the reading in hand, when it is done; begins the next one that the budget allows for a tree of so
    /// many resident bytes.
    pub(super) fn step(&mut self, tree: &Tree, rss_bytes: u64) -> Option<Done> {
        self.budget.resize(rss_bytes);
        let now = Instant::now();
        let done = self.deep.done();
        if let Some(done) = &done {
            self.budget.spend(done.work, done.cpu_s);
            self.deep_cpu_s += done.cpu_s;
        }
        // What the work in hand has used so far is not known before it is done: the account of that time waits for it.
        if !self.deep.is_busy() {
            let elapsed = now - std::mem::replace(&mut self.passed, now);
            let other_cpu_s = cpu::of_process() - self.deep_cpu_s;
            self.budget.pass(elapsed, other_cpu_s - std::mem::replace(&mut self.other_cpu_s, other_cpu_s));
            self.begin(tree);
        }
        done
    }

    fn begin(&mut self, tree: &Tree) {
        let Some(work) = self.budget.due().filter(|_| !tree.members.is_empty()) else { return };
        self.budget.begin(work);
        let processes = tree.members.iter().map(|(&pid, member)| (member.id, pid)).collect();
        self.deep.begin(Job { work, processes, keep_open: tree.keeps_open() });
    }

    /// What came of the reading in hand, if it is done soon. No more are taken.
    pub(super) fn end(&mut self) -> Option<Done> {
        self.deep.end(LAST_READING)
    }
}
