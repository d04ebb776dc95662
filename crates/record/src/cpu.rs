//! The recorder's own CPU time in seconds, looks included: those run in children of the recorder.

use nix::time::{ClockId, clock_gettime};
use unbloat_process::sandbox::spent;

/// Returns the CPU time of all its threads and their looks.
pub(crate) fn of_process() -> f64 {
    seconds(ClockId::CLOCK_PROCESS_CPUTIME_ID) + spent::of_process().as_secs_f64()
}

/// Returns the CPU time of the calling thread and its looks.
pub(crate) fn of_thread() -> f64 {
    seconds(ClockId::CLOCK_THREAD_CPUTIME_ID) + spent::of_thread().as_secs_f64()
}

fn seconds(clock: ClockId) -> f64 {
    clock_gettime(clock).map_or(0.0, |t| t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9)
}
