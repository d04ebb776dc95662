//! Recent activity of the process: working or idle, and which full collections have been swept.

use super::{MILLISECOND, Observation};

/// After how long a full collection is presumed to have been swept, in nanoseconds.
const SWEEP_NS: u64 = 500 * MILLISECOND;

/// Memory of the observations so far.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Since when the process has been idle.
    idle_since_ns: Option<u64>,
    /// True if the process has collected garbage since its last rest: without work there is nothing to return.
    worked: bool,
    /// Full collections that have been swept and not been followed by a trim.
    swept_majors: u64,
    /// First sight of the full collection that is perhaps still being swept.
    sweeping_since_ns: Option<u64>,
}

impl Activity {
    /// Takes in what happened between two observations.
    pub(super) fn note(&mut self, before: &Observation, now: &Observation) {
        self.note_idleness(before, now);
        self.note_sweeps(before, now);
        self.worked |= now.collections > before.collections;
    }

    /// True if there was work since the last rest.
    pub(super) fn has_worked(&self) -> bool {
        self.worked
    }

    /// Full collections swept since the last trim.
    pub(super) fn swept_majors(&self) -> u64 {
        self.swept_majors
    }

    /// Tells of a trim, after which those full collections have nothing more to give.
    pub(super) fn trimmed(&mut self) {
        self.swept_majors = 0;
    }

    /// True if the process has been idle for so long after work.
    pub(super) fn is_at_rest(&self, now: &Observation, idle_after_ns: u64) -> bool {
        let idle_ns = self.idle_since_ns.map(|since| now.now_ns.saturating_sub(since));
        self.worked && idle_ns.is_some_and(|ns| ns >= idle_after_ns)
    }

    /// The rest has been made use of: there is none again before there is work again.
    pub(super) fn take_rest(&mut self) {
        self.worked = false;
    }

    /// A process is idle while it uses less than a twentieth of a core and collects nothing. Between two looks minutes may lie, of which
    /// a collection says that they did not end in rest.
    fn note_idleness(&mut self, before: &Observation, now: &Observation) {
        let elapsed = now.now_ns.saturating_sub(before.now_ns);
        let used = now.cpu_ns.saturating_sub(before.cpu_ns);
        if now.collections > before.collections || used.saturating_mul(20) >= elapsed.max(1) {
            self.idle_since_ns = None;
        } else if self.idle_since_ns.is_none() {
            self.idle_since_ns = Some(before.now_ns);
        }
    }

    /// A full collection counts once it has been swept: at the latest when the next collection begins, and
    /// presumably after a while.
    fn note_sweeps(&mut self, before: &Observation, now: &Observation) {
        let swept = self.sweeping_since_ns.is_some_and(|since| {
            now.collections > before.collections || now.now_ns.saturating_sub(since) >= SWEEP_NS
        });
        if swept {
            self.sweeping_since_ns = None;
            self.swept_majors += 1;
        }
        if now.majors > before.majors {
            self.sweeping_since_ns = Some(now.now_ns);
        }
    }
}
