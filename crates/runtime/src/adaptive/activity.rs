//! Recent activity of the process: working or idle, and swept full collections.

use super::{MILLISECOND, Observation};

/// Time after which a full collection is presumed to be swept, in nanoseconds.
const SWEEP_NS: u64 = 500 * MILLISECOND;

/// A digest of the observations so far.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Start of the current idle period.
    idle_since_ns: Option<u64>,
    /// The process has collected garbage since its last rest; without work there is nothing to return.
    worked: bool,
    /// Full collections that have been swept and not followed by a trim.
    swept_majors: u64,
    /// First sighting of a full collection that may still be being swept.
    sweeping_since_ns: Option<u64>,
}

impl Activity {
    /// Processes the events between two observations.
    pub(super) fn note(&mut self, before: &Observation, now: &Observation) {
        self.note_idleness(before, now);
        self.note_sweeps(before, now);
        self.worked |= now.collections > before.collections;
    }

    /// Returns whether there was work since the last rest.
    pub(super) fn has_worked(&self) -> bool {
        self.worked
    }

    /// Returns the full collections swept since the last trim.
    pub(super) fn swept_majors(&self) -> u64 {
        self.swept_majors
    }

    /// Records a trim, after which those full collections have nothing more to offer.
    pub(super) fn trimmed(&mut self) {
        self.swept_majors = 0;
    }

    /// Returns whether the process has been idle for this long after work.
    pub(super) fn is_at_rest(&self, now: &Observation, idle_after_ns: u64) -> bool {
        let idle_ns = self.idle_since_ns.map(|since| now.now_ns.saturating_sub(since));
        self.worked && idle_ns.is_some_and(|ns| ns >= idle_after_ns)
    }

    /// Uses up the rest: the next one requires work first.
    pub(super) fn take_rest(&mut self) {
        self.worked = false;
    }

    /// Updates idleness. A process is idle while it uses less than a twentieth of a core and collects
    /// nothing. Minutes may pass between two looks, and a collection in them shows that they did not end in
    /// rest.
    fn note_idleness(&mut self, before: &Observation, now: &Observation) {
        let elapsed = now.now_ns.saturating_sub(before.now_ns);
        let used = now.cpu_ns.saturating_sub(before.cpu_ns);
        if now.collections > before.collections || used.saturating_mul(20) >= elapsed.max(1) {
            self.idle_since_ns = None;
        } else if self.idle_since_ns.is_none() {
            self.idle_since_ns = Some(before.now_ns);
        }
    }

    /// Updates swept collections. A full collection counts once it has been swept: at the latest when the
    /// next collection starts, and presumably after a while.
    fn note_sweeps(&mut self, before: &Observation, now: &Observation) {
        let swept = self.sweeping_since_ns.is_some_and(|since| {
            now.collections > before.collections || now.now_ns.saturating_sub(since) >= SWEEP_NS
        });
        if swept {
            self.sweeping_since_ns = None;
            self.swept_majors = self.swept_majors.saturating_add(1);
        }
        if now.majors > before.majors {
            self.sweeping_since_ns = Some(now.now_ns);
        }
    }
}
