//! Input of the state machine: the process at one moment, and the outcome of a trim.

use super::{Returning, known};

/// The process at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Observation {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub now_ns: u64,
    /// Resident set in bytes; 0 if unreadable.
    pub resident_bytes: u64,
    /// The moment at which the allocator returns freed pages, if controllable.
    pub returning: Option<Returning>,
    /// Bytes that the allocator reports as returnable, if it does.
    pub returnable_bytes: Option<u64>,
    /// Pages that the allocator has returned so far, in trims and otherwise, if it counts them.
    pub returned_pages: Option<u64>,
    /// Time for which a trim would now hold a lock that allocations wait for, in nanoseconds; 0 for an
    /// allocator that holds none.
    pub hold_ns: u64,
    /// Minor page faults of the process so far.
    pub minor_faults: u64,
    /// CPU time of the process so far, excluding that of the runtime itself, in nanoseconds.
    pub cpu_ns: u64,
    /// Garbage collections so far.
    pub collections: u64,
    /// Number of full collections among them.
    pub majors: u64,
}

/// The outcome of a trim.
#[derive(Debug, Clone, Copy)]
pub struct TrimOutcome {
    /// The process just after it.
    pub after: Observation,
    /// Resident set just before it, in bytes.
    pub before_bytes: u64,
    /// Wall time it took, in nanoseconds.
    pub took_ns: u64,
}

impl TrimOutcome {
    /// Returns the bytes by which the resident set shrank; 0 if unreadable.
    pub fn returned_bytes(&self) -> u64 {
        known(self.after.resident_bytes).map_or(0, |after| self.before_bytes.saturating_sub(after))
    }
}
