//! Progress reports of a driver while it runs.

use crate::latency::Summary;

/// Follows a run. All methods have a default that does nothing.
pub trait Progress {
    /// A part of the run starts, for example "connecting 1,000 clients" or "step 2".
    fn phase(&mut self, _phase: &str) {}

    /// Progress within the current part; called a few times per second.
    fn live(&mut self, _live: &Live) {}

    /// Returns whether the user wants to stop the run. It then ends soon, with the results so far.
    fn interrupted(&self) -> bool {
        false
    }
}

/// A follower that ignores everything.
#[derive(Debug, Default)]
pub struct Silent;

impl Progress for Silent {}

/// Progress within a part of a run.
#[derive(Debug, Clone)]
pub struct Live {
    /// Completed units.
    pub done: u64,
    /// Total units; 0 if unknown.
    pub total: u64,
    /// The times so far, with a name for them; absent if nothing is timed.
    pub latency: Option<(&'static str, Summary)>,
    /// Number of faults so far.
    pub errors: u64,
}
