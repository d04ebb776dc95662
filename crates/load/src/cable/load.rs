//! The broadcasts of a run: the time of the next one, and the account of those in flight.

use super::class;
use super::options::Pace;
use super::pool::Pool;
use super::tally::{Ended, Receipt, Tally};
use super::waiting;
use crate::latency::Latency;
use crate::schedule::Schedule;
use crate::ws::frame::Opcode;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use std::collections::VecDeque;

/// The load on the server.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) tally: Tally,
    pacing: Pacing,
    /// Broadcasts of this step that are still to be sent.
    remaining: u32,
    /// Time of the next broadcast; `u64::MAX` if there is none. Checked after every event, so it has to be
    /// cheap.
    due_ns: u64,
    /// Lateness of this step's broadcasts.
    pub(super) late: Latency,
    /// Time of the last delivery.
    pub(super) last_receipt_ns: u64,
    pub(super) acks_ns: Vec<u64>,
    random: SmallRng,
    text: String,
}

#[derive(Debug)]
enum Pacing {
    Open(Schedule),
    /// A closed loop, with the times at which the free slots became free.
    Closed {
        free: VecDeque<u64>,
        slot: Slot,
    },
}

/// The event that frees a slot of a closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    FanOut,
    Ack,
}

impl Load {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            tally: Tally::default(),
            pacing: Pacing::Closed { free: VecDeque::new(), slot: Slot::FanOut },
            remaining: 0,
            due_ns: u64::MAX,
            late: Latency::new(),
            last_receipt_ns: 0,
            acks_ns: Vec::new(),
            random: SmallRng::seed_from_u64(seed),
            text: String::new(),
        }
    }

    /// Starts a step's broadcasts.
    pub(super) fn begin(&mut self, pace: Pace, sample: u32, now_ns: u64) {
        let slots = |count: u32| std::iter::repeat_n(now_ns, count as usize).collect();
        self.pacing = match pace {
            Pace::Open(open) => Pacing::Open(Schedule::new(open, now_ns)),
            Pace::Closed { in_flight } => Pacing::Closed { free: slots(in_flight), slot: Slot::FanOut },
            Pace::Classic { in_flight } => Pacing::Closed { free: slots(in_flight), slot: Slot::Ack },
        };
        self.remaining = sample;
        self.due_ns = now_ns;
        self.last_receipt_ns = now_ns;
        self.late = Latency::new();
        self.acks_ns.clear();
    }

    /// Stops sending.
    pub(super) fn stop(&mut self) {
        self.remaining = 0;
        self.due_ns = u64::MAX;
    }

    /// Returns the time of the next broadcast, if there is one.
    pub(super) fn due_ns(&self) -> Option<u64> {
        (self.due_ns != u64::MAX).then_some(self.due_ns)
    }

    /// Returns how long deliveries may accumulate before they are read.
    pub(super) fn gathering_ns(&self) -> u64 {
        waiting::gathering_ns(self.tally.counts().shorter_mean_ns())
    }

    /// Returns the number of broadcasts still to be sent.
    pub(super) fn remaining(&self) -> u32 {
        self.remaining
    }

    /// Sends everything that is due.
    pub(super) fn pump(&mut self, pool: &mut Pool, now_ns: u64) {
        if now_ns < self.due_ns {
            return;
        }
        while self.remaining > 0
            && let Some(intended_ns) = self.take_slot(pool.clock.now_ns())
        {
            if !self.broadcast(pool, intended_ns) {
                return self.stop();
            }
            self.remaining -= 1;
        }
        self.due_ns = match &self.pacing {
            _ if self.remaining == 0 => u64::MAX,
            Pacing::Open(schedule) => schedule.next_ns(),
            Pacing::Closed { free, .. } => free.front().copied().unwrap_or(u64::MAX),
        };
    }

    /// Returns the intended time of a broadcast that may be sent now.
    fn take_slot(&mut self, now_ns: u64) -> Option<u64> {
        match &mut self.pacing {
            Pacing::Closed { free, .. } => free.pop_front(),
            Pacing::Open(schedule) => {
                let intended_ns = schedule.next_ns();
                (intended_ns <= now_ns).then(|| {
                    schedule.advance(&mut self.random);
                    intended_ns
                })
            }
        }
    }

    /// Broadcasts from a random client; returns `false` if there is none left.
    fn broadcast(&mut self, pool: &mut Pool, intended_ns: u64) -> bool {
        while let Some(sender) = pool.random_client(&mut self.random) {
            pool.wire.broadcast(self.tally.next_sequence(), &mut self.text);
            let sent_ns = pool.clock.now_ns();
            if let Err(error) = pool.try_send(sender, Opcode::Text, self.text.as_bytes()) {
                pool.fail(sender, class::of_breaking(&error), error.to_string(), self);
                continue;
            }
            self.late.record_ns(sent_ns.saturating_sub(intended_ns));
            let origin_ns = if matches!(self.pacing, Pacing::Open(_)) { intended_ns } else { sent_ns };
            self.tally.send(sender, origin_ns, sent_ns, &pool.subscribed, pool.wire.acknowledges());
            return true;
        }
        false
    }

    /// Handles a message with one of our IDs that arrived at a client.
    pub(super) fn on_delivery(
        &mut self,
        sequence: u32,
        id: usize,
        subscribed_ns: u64,
        now_ns: u64,
        is_ack: impl FnOnce() -> bool,
    ) {
        self.last_receipt_ns = now_ns;
        if self.tally.is_sender(sequence, id) && is_ack() {
            if let Some(took_ns) = self.tally.acknowledge(sequence, now_ns) {
                self.free(Slot::Ack, 1, now_ns);
                if let Pacing::Closed { slot: Slot::Ack, .. } = self.pacing {
                    self.acks_ns.push(took_ns);
                }
            }
            return;
        }
        if self.tally.deliver(sequence, id, subscribed_ns, now_ns) == Receipt::Completed {
            self.free(Slot::FanOut, 1, now_ns);
        }
    }

    /// Handles the loss of a client.
    pub(super) fn on_gone(&mut self, id: usize, now_ns: u64) {
        let ended = self.tally.lose(id);
        self.free_ended(ended, now_ns);
    }

    /// Writes off the messages sent before `deadline_ns`.
    pub(super) fn write_off(&mut self, deadline_ns: u64, now_ns: u64) {
        let ended = self.tally.write_off(deadline_ns);
        self.free_ended(ended, now_ns);
    }

    fn free_ended(&mut self, ended: Ended, now_ns: u64) {
        self.free(Slot::FanOut, ended.broadcasts, now_ns);
        self.free(Slot::Ack, ended.acks, now_ns);
    }

    fn free(&mut self, what: Slot, count: u32, now_ns: u64) {
        if let Pacing::Closed { free, slot } = &mut self.pacing
            && *slot == what
            && count > 0
        {
            free.extend(std::iter::repeat_n(now_ns, count as usize));
            if self.remaining > 0 {
                self.due_ns = self.due_ns.min(now_ns);
            }
        }
    }
}
