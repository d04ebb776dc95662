//! Detects steps of the wall clock.
//!
//! Samples are timed by the monotonic clock, so a step does not affect them. It is recorded when detected.

use std::time::{SystemTime, UNIX_EPOCH};
use unbloat_store::clock::monotonic_ns;

/// Deviation above which the wall clock counts as stepped (or has drifted that far).
const STEP_NS: i64 = 100_000_000;

/// Maximum time between two readings of one clock for a reading of the other to count as simultaneous.
const TOGETHER_NS: i64 = 10_000_000;

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub(crate) monotonic_ns: i64,
    /// Nanoseconds since 1970 UTC.
    pub(crate) wall_ns: i64,
}

impl Moment {
    /// Reads the current time; `None` if something interrupted the readings, so that they do not belong
    /// together.
    pub(crate) fn now() -> Option<Self> {
        let before_ns = monotonic_ns();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let together = monotonic_ns() - before_ns < TOGETHER_NS;
        let wall_ns = i64::try_from(wall.as_nanos()).unwrap_or(i64::MAX);
        together.then_some(Moment { monotonic_ns: before_ns, wall_ns })
    }
}

/// Watches the wall clock.
#[derive(Debug)]
pub(crate) struct WallClock {
    offset_ns: i64,
}

impl WallClock {
    /// Starts from the beginning of the recording.
    pub(crate) fn since(start: Moment) -> Self {
        WallClock { offset_ns: start.wall_ns - start.monotonic_ns }
    }

    /// Returns whether the clock was stepped since the last call.
    pub(crate) fn was_stepped(&mut self, now: Moment) -> bool {
        let offset_ns = now.wall_ns - now.monotonic_ns;
        let stepped = (offset_ns - self.offset_ns).abs() > STEP_NS;
        if stepped {
            self.offset_ns = offset_ns;
        }
        stepped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_once_and_in_both_directions() {
        let at = |monotonic_s: i64, wall_s: i64| Moment {
            monotonic_ns: monotonic_s * 1_000_000_000,
            wall_ns: wall_s * 1_000_000_000,
        };
        let mut clock = WallClock::since(at(100, 5000));
        assert!(!clock.was_stepped(at(101, 5001)));
        assert!(clock.was_stepped(at(102, 8602)), "an hour ahead");
        assert!(!clock.was_stepped(at(103, 8603)));
        assert!(clock.was_stepped(at(104, 4004)), "and back beyond the start");
        assert!(!clock.was_stepped(Moment { wall_ns: 4_005_050_000_000, ..at(105, 0) }), "50 ms is no step");
    }

    #[test]
    fn both_clocks_are_read_together() {
        let read = std::iter::repeat_with(Moment::now).take(1000).flatten().collect::<Vec<_>>();
        assert!(read.windows(2).all(|two| matches!(two, [a, b] if a.monotonic_ns <= b.monotonic_ns)));
    }
}
