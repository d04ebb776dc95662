//! Settings of adaptive trimming, and their defaults.

use super::{MIB, MILLISECOND};

/// Settings of the state machine. All have defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Minimum growth of the resident set since the last trim, in bytes.
    pub min_growth_bytes: u64,
    /// Minimum growth as a share of the resident set after the last trim, in percent; the larger of the two
    /// applies.
    pub min_growth_percent: u64,
    /// Minimum time from the end of one trim to the start of the next, in nanoseconds.
    pub min_interval_ns: u64,
    /// Share of one core that trimming and its page faults may use, in thousandths.
    pub budget_permille: u64,
    /// Bytes per millisecond of trimming below which a trim was not worthwhile.
    pub min_yield_per_ms: u64,
    /// Maximum time for which a trim may hold a lock that the threads of a busy process wait for, in
    /// nanoseconds.
    pub max_hold_ns: u64,
    /// Time of idleness before the rest is returned, in nanoseconds.
    pub idle_after_ns: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            min_growth_bytes: 8 * MIB,
            min_growth_percent: 5,
            min_interval_ns: 250 * MILLISECOND,
            budget_permille: 10,
            min_yield_per_ms: 256 << 10,
            max_hold_ns: 20 * MILLISECOND,
            idle_after_ns: 1_000 * MILLISECOND,
        }
    }
}
