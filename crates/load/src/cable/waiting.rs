//! Waiting for events and intended times, with fewer wake-ups while deliveries pour in.
//!
//! A wake-up costs a thread several microseconds of CPU, more than reading a delivery. While a server sends a
//! broadcast to its subscribers one by one, each wake-up finds only one or two deliveries. So while events
//! follow each other closely, the thread first sleeps for a moment and lets them accumulate. It never sleeps
//! past an intended time, and the resulting increase of the measured times is bounded ([`gathering_ns`]) and
//! part of the reported read lag.

use crate::clock::Clock;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

/// Events taken from the kernel per call.
const EVENTS: usize = 1024;
/// Maximum time between two checks for timeouts and the user's wish to stop.
const TICK_NS: u64 = 100_000_000;
/// The timer's token among those of the connections.
const TIMER: Token = Token(usize::MAX - 1);
/// Maximum time for which events may accumulate: 5,000 wake-ups a second cost a few hundredths of a core.
const LONGEST_GATHERING_NS: u64 = 200_000;
/// Accumulation lasts at most this fraction of the measured mean time.
const GATHERING_PART: u64 = 100;
/// Maximum delay of a wake-up by the kernel, which is 50 µs by default (prctl(2), `PR_SET_TIMERSLACK`).
const SLACK_NS: u64 = 1_000;

/// Waits on behalf of all connections.
#[derive(Debug)]
pub(super) struct Waiting {
    poll: Poll,
    events: Events,
    timer: TimerFd,
    /// The last events arrived soon after the previous ones.
    dense: bool,
    /// Time of the last check for events.
    looked_ns: u64,
}

/// Events that have arrived.
#[derive(Debug)]
pub(super) struct Woken {
    pub(super) events: Events,
    /// The earliest time at which any of them can have happened, as far as known.
    pub(super) since_ns: u64,
}

/// Returns how long events may accumulate without increasing a mean time of `mean_ns` by more than a
/// hundredth.
pub(super) fn gathering_ns(mean_ns: u64) -> u64 {
    (mean_ns / GATHERING_PART).min(LONGEST_GATHERING_NS)
}

impl Waiting {
    pub(super) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        let fd = timer.as_fd().as_raw_fd();
        poll.registry().register(&mut SourceFd(&fd), TIMER, Interest::READABLE)?;
        // If refused, accumulation lasts 50 µs longer, which the read lag shows.
        let _ = prctl::set_timerslack(SLACK_NS);
        Ok(Self { poll, events: Events::with_capacity(EVENTS), timer, dense: false, looked_ns: 0 })
    }

    /// Returns the registry for connections.
    pub(super) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Waits until something happens, `deadline_ns` has come, or a tenth of a second is over. If events
    /// follow each other closely, sleeps for `gathering_ns` before checking for them.
    pub(super) fn wait(
        &mut self,
        clock: Clock,
        deadline_ns: Option<u64>,
        gathering_ns: u64,
    ) -> io::Result<Woken> {
        let mut now_ns = clock.now_ns();
        let gathers = self.dense && self.gather(now_ns, deadline_ns, gathering_ns);
        if gathers {
            now_ns = clock.now_ns();
        }
        let remaining_ns =
            deadline_ns.map_or(TICK_NS, |deadline| deadline.saturating_sub(now_ns)).min(TICK_NS);
        // epoll's own timeout is in whole milliseconds, too coarse for an intended time; the timer is exact.
        if remaining_ns > 0 && remaining_ns < TICK_NS {
            let timeout = TimeSpec::from_duration(Duration::from_nanos(remaining_ns));
            self.timer.set(Expiration::OneShot(timeout), TimerSetTimeFlags::empty())?;
        }
        let timeout = if remaining_ns == 0 { Duration::ZERO } else { Duration::from_nanos(TICK_NS) };
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let woke_ns = clock.now_ns();
        self.dense = woke_ns - now_ns < LONGEST_GATHERING_NS;
        let looked_ns = std::mem::replace(&mut self.looked_ns, woke_ns);
        let since_ns = if gathers { looked_ns } else { woke_ns };
        Ok(Woken { events: std::mem::replace(&mut self.events, Events::with_capacity(0)), since_ns })
    }

    /// Sleeps if worthwhile, and returns whether it did.
    fn gather(&self, now_ns: u64, deadline_ns: Option<u64>, gathering_ns: u64) -> bool {
        let remaining_ns = deadline_ns.map_or(u64::MAX, |deadline| deadline.saturating_sub(now_ns));
        let span_ns = gathering_ns.min(remaining_ns);
        if span_ns > SLACK_NS {
            std::thread::sleep(Duration::from_nanos(span_ns));
        }
        span_ns > SLACK_NS
    }

    /// Returns whether an event is the timer's, and if so consumes its expiration.
    pub(super) fn is_timer(&self, token: Token) -> bool {
        if token == TIMER {
            let _ = self.timer.wait();
        }
        token == TIMER
    }

    /// Takes the emptied events back to reuse their memory.
    pub(super) fn take_back(&mut self, events: Events) {
        self.events = events;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn gathering_is_a_hundredth_of_what_is_measured_and_never_long() {
        assert_eq!(gathering_ns(0), 0);
        assert_eq!(gathering_ns(1_000_000), 10_000);
        assert_eq!(gathering_ns(60_000_000_000), 200_000);
    }

    #[test]
    fn an_intended_time_is_neither_slept_through_nor_come_back_from_early() {
        let clock = Clock::start();
        let mut waiting = Waiting::new().unwrap();
        waiting.dense = true;
        let deadline_ns = clock.now_ns() + 3_000_000;
        let woken = waiting.wait(clock, Some(deadline_ns), 100_000).unwrap();
        assert!(clock.now_ns() >= deadline_ns);
        assert_eq!(woken.events.iter().filter(|event| waiting.is_timer(event.token())).count(), 1);
        assert_eq!(woken.since_ns, 0, "what is found after gathering may be as old as the last look");
        assert!(!waiting.gather(deadline_ns, Some(deadline_ns), 100_000), "what is due is not put off");
    }
}
