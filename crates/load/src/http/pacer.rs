//! Delivers the intended times of an open loop as they come.
//!
//! It sleeps in a separate thread: tokio's timer has a resolution of one millisecond, which is all the
//! lateness that an open loop may have, while the kernel wakes a thread within some 50 µs (prctl(2),
//! PR_SET_TIMERSLACK).

use crate::clock::Clock;
use crate::schedule::Schedule;
use rand::rngs::SmallRng;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Maximum sleep between two checks for a listener.
const NAP_NS: u64 = 100_000_000;

/// Starts to deliver the times of a schedule, until `end_ns` or until the receiver is dropped.
pub(super) fn start(
    clock: Clock,
    schedule: Schedule,
    random: SmallRng,
    end_ns: u64,
) -> UnboundedReceiver<u64> {
    let (tell, told) = unbounded_channel();
    std::thread::spawn(move || pace(clock, schedule, random, end_ns, &tell));
    told
}

fn pace(
    clock: Clock,
    mut schedule: Schedule,
    mut random: SmallRng,
    end_ns: u64,
    tell: &UnboundedSender<u64>,
) {
    while schedule.next_ns() < end_ns {
        let intended_ns = schedule.next_ns();
        while let rest_ns @ 1.. = intended_ns.saturating_sub(clock.now_ns()) {
            if tell.is_closed() {
                return;
            }
            std::thread::sleep(Duration::from_nanos(rest_ns.min(NAP_NS)));
        }
        if tell.send(intended_ns).is_err() {
            return;
        }
        schedule.advance(&mut random);
    }
}
