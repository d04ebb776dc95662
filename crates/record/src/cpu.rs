//! The recorder's own CPU time, in seconds.

use nix::time::{ClockId, clock_gettime};

/// Returns the CPU time of all its threads.
pub(crate) fn of_process() -> f64 {
    seconds(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the CPU time of the calling thread.
pub(crate) fn of_thread() -> f64 {
    seconds(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn seconds(clock: ClockId) -> f64 {
    clock_gettime(clock).map_or(0.0, |t| t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9)
}
