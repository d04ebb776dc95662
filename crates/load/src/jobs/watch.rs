//! Derives the times of jobs from checks of the queue.
//!
//! A queue is first in, first out: the nth job taken is the nth pushed, so its time in the queue is known to
//! within the time between two checks. When a job ends nobody writes to Redis, but its thread blocks again,
//! waiting for the next one. So the number of busy threads is known at every check, and with it the number of
//! finished jobs. Run times are paired first started, first finished: their mean is exact (Little's law), but
//! their spread is underestimated when jobs overtake each other.

use super::sidekiq::Look;
use crate::latency::Latency;
use std::collections::VecDeque;

/// The state of the jobs.
#[derive(Debug)]
pub(super) struct Watch {
    /// Number of blocked clients when there was nothing to do.
    idle: u64,
    /// Intended push time of each waiting job.
    pushed_ns: VecDeque<u64>,
    /// Start time of each running job.
    taken_ns: VecDeque<u64>,
    pub(super) pushed: u64,
    pub(super) taken: u64,
    pub(super) ended: u64,
    looked_ns: u64,
    pub(super) queue: Latency,
    pub(super) run: Latency,
    /// Time between two checks.
    pub(super) resolution: Latency,
    pub(super) first_taken_ns: Option<u64>,
    pub(super) last_change_ns: u64,
}

impl Watch {
    /// Starts with an empty queue at which `idle` clients wait.
    pub(super) fn new(idle: u64, now_ns: u64) -> Self {
        Self {
            idle,
            pushed_ns: VecDeque::new(),
            taken_ns: VecDeque::new(),
            pushed: 0,
            taken: 0,
            ended: 0,
            looked_ns: now_ns,
            queue: Latency::new(),
            run: Latency::new(),
            resolution: Latency::new(),
            first_taken_ns: None,
            last_change_ns: now_ns,
        }
    }

    /// Records pushed jobs; their time in the queue counts from `origin_ns`.
    pub(super) fn pushed(&mut self, count: u32, origin_ns: u64) {
        if self.is_done() {
            self.last_change_ns = origin_ns;
        }
        self.pushed += u64::from(count);
        self.pushed_ns.extend(std::iter::repeat_n(origin_ns, count as usize));
    }

    /// Records the state of the queue at a check.
    pub(super) fn looked(&mut self, look: Look, now_ns: u64) {
        self.resolution.record_ns(now_ns - self.looked_ns);
        // Somewhere between the two checks; the middle is off by half the resolution at most.
        let between_ns = self.looked_ns + (now_ns - self.looked_ns) / 2;
        self.looked_ns = now_ns;
        let (taken, ended) = (self.taken, self.ended);
        while self.pushed_ns.len() as u64 > look.waiting {
            let Some(origin_ns) = self.pushed_ns.pop_front() else { break };
            self.queue.record_ns(between_ns.saturating_sub(origin_ns));
            self.taken_ns.push_back(between_ns);
            self.taken += 1;
            self.first_taken_ns.get_or_insert(between_ns);
        }
        let busy = self.idle.saturating_sub(look.blocked);
        while self.taken_ns.len() as u64 > busy {
            let Some(taken_ns) = self.taken_ns.pop_front() else { break };
            self.run.record_ns(between_ns - taken_ns);
            self.ended += 1;
        }
        if (taken, ended) != (self.taken, self.ended) {
            self.last_change_ns = now_ns;
        }
    }

    /// Returns whether all pushed jobs have finished.
    pub(super) fn is_done(&self) -> bool {
        self.ended == self.pushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn times_follow_from_the_length_of_the_queue_and_the_idle_threads() {
        let mut watch = Watch::new(2, 0);
        watch.pushed(3, 10 * MS);
        watch.looked(Look { waiting: 1, blocked: 0 }, 12 * MS);
        assert_eq!((watch.taken, watch.ended), (2, 0));
        watch.looked(Look { waiting: 1, blocked: 0 }, 100 * MS);
        watch.looked(Look { waiting: 0, blocked: 0 }, 102 * MS);
        assert_eq!((watch.taken, watch.ended), (3, 1));
        watch.looked(Look { waiting: 0, blocked: 2 }, 202 * MS);
        assert!(watch.is_done());
        let run = watch.run.summary();
        let near = |got: Option<u64>, ms: u64| got.is_some_and(|ns| ns.abs_diff(ms * MS) < MS);
        // The first ran from 6 to 101, the third from 101 to 152.
        assert!(near(run.max_ns, 146) && near(run.min_ns, 51), "{run:?}");
        assert!(near(watch.queue.summary().max_ns, 91), "{:?}", watch.queue);
    }
}
