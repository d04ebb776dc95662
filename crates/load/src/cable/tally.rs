//! The account of every broadcast: its audience, its deliveries, and their times.
//!
//! Each delivery is counted exactly once: as received, duplicated, late or unexpected. A client that was
//! subscribed when a message was sent and never gets it counts as lost. So `received + lost = expected` once
//! a step is over.

use crate::latency::Latency;

/// A set of connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Members {
    words: Vec<u64>,
    count: u32,
}

impl Members {
    pub(crate) fn insert(&mut self, id: usize) {
        let word = id / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (id % 64);
        self.count += u32::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    /// Removes a connection and returns whether it was a member.
    pub(crate) fn remove(&mut self, id: usize) -> bool {
        let Some(word) = self.words.get_mut(id / 64) else { return false };
        let bit = 1 << (id % 64);
        let present = *word & bit != 0;
        *word &= !bit;
        self.count -= u32::from(present);
        present
    }

    pub(crate) fn contains(&self, id: usize) -> bool {
        self.words.get(id / 64).is_some_and(|word| word & (1 << (id % 64)) != 0)
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

/// A broadcast.
#[derive(Debug)]
struct Message {
    sender: u32,
    /// Time from which latency counts.
    origin_ns: u64,
    sent_ns: u64,
    ack: Ack,
    /// Clients that still wait for it.
    outstanding: Members,
    /// Some clients will never receive it.
    lossy: bool,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ack {
    Awaited,
    /// It arrived, will never arrive, or was not expected.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// No remaining client waits for it.
    Closed,
    /// Its time is up: deliveries from now on are late.
    WrittenOff,
}

/// The classification of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receipt {
    Received,
    /// The last awaited delivery.
    Completed,
    Duplicated,
    Late,
    /// For a client that was not subscribed when it was sent, or of a message that was never sent.
    Unexpected,
}

/// Broadcasts and acknowledgements that are no longer awaited although they never arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) broadcasts: u32,
    pub(crate) acks: u32,
}

/// The figures of one step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) messages: u64,
    pub(crate) expected: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) late: u64,
    pub(crate) unexpected: u64,
    pub(crate) unacknowledged: u64,
    pub(crate) ack: Latency,
    pub(crate) delivery: Latency,
    pub(crate) fan_out: Latency,
    /// Sums of all delivery and acknowledgement times.
    pub(crate) delivery_sum_ns: u64,
    pub(crate) ack_sum_ns: u64,
}

impl Counts {
    /// Returns the mean delivery or acknowledgement time, whichever is shorter; 0 until one is known.
    pub(crate) fn shorter_mean_ns(&self) -> u64 {
        let delivery_ns = self.delivery_sum_ns / self.received.max(1);
        match self.ack.count() {
            0 => delivery_ns,
            acks => delivery_ns.min(self.ack_sum_ns / acks),
        }
    }
}

/// The account of a run. Sequence numbers continue across steps, so that a straggler from an earlier step is
/// recognized.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The messages of the current step, preceded by the closed ones of earlier steps.
    messages: Vec<Message>,
    /// Index of the first message that may still be open or unacknowledged.
    oldest: usize,
    open: usize,
    awaited_acks: usize,
    counts: Counts,
}

impl Tally {
    /// Opens the account of a broadcast to `audience` and returns its sequence number.
    pub(crate) fn send(
        &mut self,
        sender: usize,
        origin_ns: u64,
        sent_ns: u64,
        audience: &Members,
        acks: bool,
    ) -> u32 {
        let sequence = self.messages.len() as u32;
        self.counts.messages += 1;
        self.counts.expected += u64::from(audience.count());
        self.open += 1;
        self.awaited_acks += usize::from(acks);
        self.messages.push(Message {
            sender: sender as u32,
            origin_ns,
            sent_ns,
            ack: if acks { Ack::Awaited } else { Ack::Done },
            outstanding: audience.clone(),
            lossy: false,
            state: State::Open,
        });
        sequence
    }

    /// Returns the sequence number of the next broadcast.
    pub(crate) fn next_sequence(&self) -> u32 {
        self.messages.len() as u32
    }

    /// Returns whether this connection sent this broadcast.
    pub(crate) fn is_sender(&self, sequence: u32, id: usize) -> bool {
        self.messages.get(sequence as usize).is_some_and(|message| message.sender as usize == id)
    }

    /// Records an acknowledgement and returns its time; `None` if none was awaited.
    pub(crate) fn acknowledge(&mut self, sequence: u32, now_ns: u64) -> Option<u64> {
        let message = self.messages.get_mut(sequence as usize)?;
        if message.ack != Ack::Awaited {
            return None;
        }
        message.ack = Ack::Done;
        self.awaited_acks -= 1;
        let took_ns = now_ns.saturating_sub(message.origin_ns);
        self.counts.ack.record_ns(took_ns);
        self.counts.ack_sum_ns += took_ns;
        Some(took_ns)
    }

    /// Records a delivery to a connection that has been subscribed since `subscribed_ns`.
    pub(crate) fn deliver(&mut self, sequence: u32, id: usize, subscribed_ns: u64, now_ns: u64) -> Receipt {
        let Some(message) = self.messages.get_mut(sequence as usize) else {
            self.counts.unexpected += 1;
            return Receipt::Unexpected;
        };
        if message.outstanding.remove(id) {
            if message.state == State::WrittenOff {
                self.counts.late += 1;
                return Receipt::Late;
            }
            let took = now_ns.saturating_sub(message.origin_ns);
            self.counts.received += 1;
            self.counts.delivery.record_ns(took);
            self.counts.delivery_sum_ns += took;
            if message.outstanding.count() > 0 {
                return Receipt::Received;
            }
            message.state = State::Closed;
            message.outstanding = Members::default();
            self.open -= 1;
            if !message.lossy {
                self.counts.fan_out.record_ns(took);
            }
            return Receipt::Completed;
        }
        if subscribed_ns <= message.sent_ns {
            self.counts.duplicated += 1;
            Receipt::Duplicated
        } else {
            self.counts.unexpected += 1;
            Receipt::Unexpected
        }
    }

    /// Records the loss of a connection: the deliveries it still waited for are lost.
    pub(crate) fn lose(&mut self, id: usize) -> Ended {
        let mut ended = Ended::default();
        for message in &mut self.messages[self.oldest..] {
            if message.sender as usize == id && message.ack == Ack::Awaited {
                message.ack = Ack::Done;
                self.awaited_acks -= 1;
                self.counts.unacknowledged += 1;
                ended.acks += 1;
            }
            if message.state == State::Open && message.outstanding.remove(id) {
                message.lossy = true;
                self.counts.lost += 1;
                if message.outstanding.count() == 0 {
                    message.state = State::Closed;
                    self.open -= 1;
                    ended.broadcasts += 1;
                }
            }
        }
        ended
    }

    /// Writes off the messages sent before `deadline_ns`: their missing deliveries are lost.
    pub(crate) fn write_off(&mut self, deadline_ns: u64) -> Ended {
        let mut ended = Ended::default();
        while let Some(message) = self.messages.get_mut(self.oldest) {
            let done = message.state != State::Open && message.ack != Ack::Awaited;
            if !done && message.sent_ns > deadline_ns {
                break;
            }
            if message.state == State::Open {
                message.state = State::WrittenOff;
                self.counts.lost += u64::from(message.outstanding.count());
                self.open -= 1;
                ended.broadcasts += 1;
            }
            if message.ack == Ack::Awaited {
                message.ack = Ack::Done;
                self.awaited_acks -= 1;
                self.counts.unacknowledged += 1;
                ended.acks += 1;
            }
            self.oldest += 1;
        }
        ended
    }

    /// Returns when the oldest incomplete broadcast was sent.
    pub(crate) fn oldest_sent_ns(&self) -> Option<u64> {
        if self.is_settled() {
            return None;
        }
        self.messages.get(self.oldest).map(|message| message.sent_ns)
    }

    /// Returns the number of broadcasts in flight.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Returns whether nothing is awaited any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.open == 0 && self.awaited_acks == 0
    }

    /// Returns the figures since the last [`Self::take`].
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Ends a step: returns its figures and starts over.
    pub(crate) fn take(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn audience(count: usize) -> Members {
        let mut members = Members::default();
        (0..count).for_each(|id| members.insert(id));
        members
    }

    #[test]
    fn a_broadcast_that_reaches_all_is_complete_with_the_last() {
        let mut tally = Tally::default();
        let sequence = tally.send(1, 100, 110, &audience(3), true);
        assert_eq!(tally.deliver(sequence, 0, 0, 1_000_100), Receipt::Received);
        assert_eq!(tally.acknowledge(sequence, 2_000_100), Some(2_000_000));
        assert_eq!(tally.acknowledge(sequence, 2_000_100), None, "a second acknowledgement is none");
        assert_eq!(tally.deliver(sequence, 1, 0, 3_000_100), Receipt::Received);
        assert_eq!(tally.deliver(sequence, 2, 0, 5_000_100), Receipt::Completed);
        assert!(tally.is_settled());
        let counts = tally.take();
        assert_eq!((counts.expected, counts.received, counts.lost), (3, 3, 0));
        let near = |latency: &Latency, ns: f64| {
            (latency.quantile_ns(1.0).unwrap_or(0) as f64 / ns - 1.0).abs() < 0.001
        };
        assert!(near(&counts.fan_out, 5e6) && near(&counts.ack, 2e6), "{counts:?}");
    }

    #[test]
    fn duplicates_late_and_unexpected_ones_are_told_apart() {
        let mut tally = Tally::default();
        let first = tally.send(0, 10, 10, &audience(2), false);
        tally.deliver(first, 0, 0, 20);
        assert_eq!(tally.deliver(first, 0, 0, 21), Receipt::Duplicated);
        assert_eq!(tally.deliver(first, 7, 15, 21), Receipt::Unexpected, "7 subscribed after the broadcast");
        assert_eq!(tally.deliver(99, 0, 0, 21), Receipt::Unexpected, "99 was never sent");
        assert_eq!(tally.write_off(10), Ended { broadcasts: 1, acks: 0 });
        assert_eq!(tally.deliver(first, 1, 0, 30), Receipt::Late);
        assert_eq!(tally.deliver(first, 1, 0, 31), Receipt::Duplicated);
        let counts = tally.take();
        assert_eq!((counts.received, counts.lost, counts.late), (1, 1, 1));
        assert_eq!((counts.duplicated, counts.unexpected, counts.fan_out.count()), (2, 2, 0));
    }

    #[test]
    fn who_leaves_loses_what_was_under_way_and_holds_nobody_up() {
        let mut tally = Tally::default();
        let sequence = tally.send(1, 0, 0, &audience(2), true);
        tally.deliver(sequence, 0, 0, 5);
        assert_eq!(tally.lose(1), Ended { broadcasts: 1, acks: 1 });
        assert!(tally.is_settled());
        let counts = tally.take();
        assert_eq!((counts.lost, counts.unacknowledged, counts.fan_out.count()), (1, 1, 0));
    }

    proptest! {
        /// Any mix of deliveries, departures and write-offs leaves a complete account.
        #[test]
        fn received_and_lost_make_up_what_was_expected(
            clients in 1usize..80,
            events in proptest::collection::vec((0u8..10, 0usize..6, 0usize..80), 0..400),
        ) {
            let mut tally = Tally::default();
            let mut alive = audience(clients);
            let mut deliveries = 0;
            for (now, (what, message, id)) in events.into_iter().enumerate() {
                let now = now as u64;
                match what {
                    0 => { tally.send(id, now, now, &alive, id % 2 == 0); }
                    1 => { alive.remove(id); tally.lose(id); }
                    2 => { tally.write_off(now.saturating_sub(30)); }
                    3 => { tally.acknowledge(message as u32, now); }
                    _ => { tally.deliver(message as u32, id, 0, now); deliveries += 1; }
                }
            }
            tally.write_off(u64::MAX);
            prop_assert!(tally.is_settled());
            let counts = tally.take();
            prop_assert_eq!(counts.received + counts.lost, counts.expected);
            prop_assert_eq!(counts.received + counts.duplicated + counts.late + counts.unexpected, deliveries);
            prop_assert_eq!(counts.delivery.count(), counts.received);
        }
    }
}
