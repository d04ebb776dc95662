//! CPU of ended processes, and the number of those that were only counted.

/// Sums over ended processes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    /// CPU of all, in clock ticks.
    pub(super) ticks: u64,
    /// Number of processes that started and ended between two looks.
    pub(crate) short_lived: u64,
    /// Their CPU in clock ticks.
    pub(crate) short_lived_ticks: u64,
}

impl Spent {
    /// Counts a process without its own row, with its clock ticks.
    pub(super) fn count_short_lived(&mut self, ticks: u64) {
        self.ticks += ticks;
        self.short_lived += 1;
        self.short_lived_ticks += ticks;
    }
}
