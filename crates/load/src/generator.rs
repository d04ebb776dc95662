//! The load generator's measurements of itself, which show whether a figure is the server's or the
//! generator's.

use crate::latency::Latency;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Share of a core above which the generating thread was the bottleneck.
const SATURATED: f64 = 0.90;
/// CPU time in seconds below which nothing is concluded: a burst of milliseconds fills a core and limits
/// nothing.
const JUDGED_S: f64 = 0.2;

/// Lateness that taints a run, if it also exceeds [`LATE_SHARE`] of the median time measured.
const LATE_NS: f64 = 1e6;
/// See [`LATE_NS`].
const LATE_SHARE: f64 = 0.10;

/// The generator's CPU use and lateness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time of the generating thread, in seconds.
    pub cpu_s: f64,
    /// Share of one core that it used while sending load: 1 is a whole core.
    pub cpu_share: f64,
    /// Delay between the intended and the actual sending of a message, 99th percentile, in nanoseconds;
    /// absent if none was sent. In a closed loop the intended time is when the slot became free.
    pub late_p99_ns: Option<u64>,
    /// Time for which received data waited to be read, 99th percentile, in nanoseconds. Deliveries may appear
    /// this much slower than they were. Absent if nothing was read.
    pub read_lag_p99_ns: Option<u64>,
}

impl Generator {
    /// Returns whether the generator was the bottleneck.
    pub(crate) fn is_saturated(&self) -> bool {
        self.cpu_share > SATURATED && self.cpu_s > JUDGED_S
    }

    /// Returns the lateness at the 99th percentile, in nanoseconds, if it is too large for the measured
    /// times.
    pub(crate) fn too_late_for(&self, measured: &Latency) -> Option<u64> {
        let median_ns = measured.quantile_ns(0.5).unwrap_or(0) as f64;
        let tolerated_ns = (median_ns * LATE_SHARE).max(LATE_NS);
        self.late_p99_ns.filter(|&late| late as f64 > tolerated_ns)
    }
}

/// A span of time, and the calling thread's CPU time in it.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    wall: Instant,
    cpu: Duration,
}

impl CpuMeter {
    pub(crate) fn start() -> Self {
        Self { wall: Instant::now(), cpu: thread_cpu() }
    }

    /// Returns the CPU time and elapsed time since the start.
    pub(crate) fn read(&self) -> (Duration, Duration) {
        (thread_cpu().saturating_sub(self.cpu), self.wall.elapsed())
    }

    /// Reports on the span since the start.
    pub(crate) fn report(&self, late: &Latency, read_lag: &Latency) -> Generator {
        let (cpu, wall) = self.read();
        Generator {
            cpu_s: cpu.as_secs_f64(),
            cpu_share: if wall.is_zero() { 0.0 } else { cpu.as_secs_f64() / wall.as_secs_f64() },
            late_p99_ns: late.quantile_ns(0.99),
            read_lag_p99_ns: read_lag.quantile_ns(0.99),
        }
    }
}

/// Returns the calling thread's user and system time (getrusage(2)); zero if the call fails, which never
/// happens on Linux.
fn thread_cpu() -> Duration {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(Duration::ZERO, |usage| {
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    })
}
