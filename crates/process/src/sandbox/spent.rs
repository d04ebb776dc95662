//! The processor time of looks, which their children use and not the process that waits for them.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Of all looks of this process, in nanoseconds.
static OF_PROCESS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Of the looks that this thread waited for, in nanoseconds.
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Returns the processor time of all looks that this process has taken.
#[must_use]
pub fn of_process() -> Duration {
    Duration::from_nanos(OF_PROCESS.load(Ordering::Relaxed))
}

/// Returns the processor time of the looks that this thread has taken.
#[must_use]
pub fn of_thread() -> Duration {
    Duration::from_nanos(OF_THREAD.get())
}

/// Adds the time of a child that has ended.
pub(super) fn add(time: Duration) {
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    OF_PROCESS.fetch_add(nanoseconds, Ordering::Relaxed);
    OF_THREAD.set(OF_THREAD.get().saturating_add(nanoseconds));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::sandbox::{Limits, Scope, look};
    use crate::{Pid, Result};
    use std::time::{Duration, Instant};

    /// Works for this much processor time, and returns it.
    fn work(time: Duration) -> Duration {
        let of_thread = || {
            let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
            Duration::new(now.tv_sec() as u64, now.tv_nsec() as u32)
        };
        let (begun, late) = (of_thread(), Instant::now() + Duration::from_secs(60));
        while of_thread() - begun < time && Instant::now() < late {
            std::hint::spin_loop();
        }
        of_thread() - begun
    }

    #[test]
    fn a_look_costs_the_thread_that_waits_for_it_what_its_child_used() {
        let before = super::of_thread();
        let limits = Limits::of_resident(0);
        let used: Result<Duration> =
            look(Pid::this(), &limits, &Scope::default(), || Ok(work(Duration::from_millis(120))));
        let (used, cost) = (used.unwrap(), super::of_thread() - before);
        // The kernel rounds to its own clock; the rest of the child's life is small.
        assert!(cost + Duration::from_millis(20) >= used, "{cost:?} of {used:?}");
        assert!(super::of_process() >= cost);
        let nothing = std::thread::spawn(super::of_thread).join().unwrap();
        assert_eq!(nothing, Duration::ZERO);
    }
}
