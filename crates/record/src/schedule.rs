//! A drift-free schedule: the nth look is due at start + n × interval, however long earlier looks took.

use std::time::{Duration, Instant};

/// The times of looks, and their punctuality so far.
#[derive(Debug, Clone)]
pub struct Schedule {
    start: Instant,
    interval: Duration,
    next: u32,
    /// Looks taken.
    pub taken: u64,
    /// Looks taken more than half an interval late.
    pub late: u64,
    /// Looks skipped because the next one was already due.
    pub missed: u64,
}

impl Schedule {
    /// Creates a schedule whose first look is due at once.
    #[must_use]
    pub fn new(start: Instant, interval: Duration) -> Self {
        let interval = interval.max(Duration::from_millis(1));
        Schedule { start, interval, next: 0, taken: 0, late: 0, missed: 0 }
    }

    /// Returns the time of the next look.
    #[must_use]
    pub fn due(&self) -> Instant {
        self.start + self.interval * self.next
    }

    /// Returns whether a look is due. If so it counts as taken, and any overdue ones after it as missed.
    pub fn take(&mut self, now: Instant) -> bool {
        let due = self.due();
        if now < due {
            return false;
        }
        self.taken += 1;
        let behind = now - due;
        if behind > self.interval / 2 {
            self.late += 1;
        }
        let skipped = u32::try_from(behind.as_nanos() / self.interval.as_nanos()).unwrap_or(u32::MAX);
        self.missed += u64::from(skipped);
        // Some 13 years at 100 ms; then the schedule restarts.
        match self.next.checked_add(1).and_then(|n| n.checked_add(skipped)) {
            Some(next) => self.next = next,
            None => (self.start, self.next) = (now, 1),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_do_not_drift_and_late_ones_are_counted() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut schedule = Schedule::new(start, Duration::from_millis(100));
        assert!(schedule.take(at(3)));
        assert!(!schedule.take(at(99)));
        assert!(schedule.take(at(140)), "on time enough");
        assert_eq!((schedule.due(), schedule.late, schedule.missed), (at(200), 0, 0));
        assert!(schedule.take(at(260)));
        assert_eq!((schedule.due(), schedule.late, schedule.missed), (at(300), 1, 0));
        assert!(schedule.take(at(735)));
        assert_eq!((schedule.due(), schedule.late, schedule.missed, schedule.taken), (at(800), 2, 4, 4));
    }
}
