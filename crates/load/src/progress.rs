//! Progress reports of a driver while it runs.

use crate::latency::Summary;

/// Follows a run. All methods have a default that does nothing.
pub trait Progress {
    /// A part of the run begins, for example "connecting 1,000 clients" or "step 2".
    fn phase(&mut self, _phase: &str) {}

    /// How far the current part is; called a few times a second.
    fn live(&mut self, _live: &Live) {}

    /// Returns whether the user wants the run to end. It then ends soon, and with what it has.
    fn interrupted(&self) -> bool {
        false
    }
}

/// A follower that does not care.
#[derive(Debug, Default)]
pub struct Silent;

impl Progress for Silent {}

/// How far a part of a run is.
#[derive(Debug, Clone)]
pub struct Live {
    /// How much of it is done.
    pub done: u64,
    /// How much there is; 0 if that is not known.
    pub total: u64,
    /// The times so far, with what they are the times of; absent where nothing is timed.
    pub latency: Option<(&'static str, Summary)>,
    /// What went wrong so far.
    pub errors: u64,
}
