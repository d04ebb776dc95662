//! Faults that the server makes on request, with an exact record of them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// The frequency of a fault: every `n`th time; never by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Every(pub Option<u64>);

impl Every {
    /// Returns whether the fault applies to the occurrence with this number (from 1).
    pub(super) fn hits(self, number: u64) -> bool {
        self.0.is_some_and(|every| every > 0 && number.is_multiple_of(every))
    }
}

/// The server's answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Answer {
    /// The correct answer.
    #[default]
    Yes,
    /// A refusal: this HTTP status for an upgrade, a rejection for a subscription.
    No(u16),
    /// Something other than requested.
    Wrong,
    /// No answer.
    Silence,
}

/// The faults to make. The default is none.
#[derive(Debug, Clone, Default)]
pub struct Mischief {
    /// The answer to the upgrade.
    pub upgrade: Answer,
    /// The answer to a subscription.
    pub subscription: Answer,
    /// Drops every nth delivery.
    pub drop: Every,
    /// Duplicates every nth delivery.
    pub duplicate: Every,
    /// Holds back every nth delivery until the client's next one has gone out.
    pub reorder: Every,
    /// Splits every nth delivery into three fragments, with a ping between them.
    pub fragment: Every,
    /// Follows every nth delivery with a text outside the protocol.
    pub garbage: Every,
    /// Mangles every nth delivery: its frame has reserved bits set, after which the connection is useless.
    pub mangle: Every,
    /// Resets the client's connection at every nth delivery.
    pub reset: Every,
    /// Sends the client a disconnect message at every nth delivery.
    pub disconnect: Every,
    /// From every nth delivery on, sends nothing more to the client and reads nothing more from it.
    pub stall: Every,
    /// Number of broadcasts after which the server dies: all connections are reset and nothing listens any
    /// more.
    pub die_after: Option<u64>,
    /// Delay of deliveries.
    pub delay: Duration,
    /// Additional delay of the delivery to the last subscriber.
    pub last_delay: Duration,
    /// Delay of acknowledgements.
    pub ack_delay: Duration,
    /// Sends no acknowledgements.
    pub mute: bool,
    /// Writes one byte at a time.
    pub trickle: bool,
}

/// The server's record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Truth {
    /// Broadcasts received.
    pub broadcasts: u64,
    /// Deliveries due.
    pub due: u64,
    /// Deliveries dropped.
    pub dropped: u64,
    /// Deliveries duplicated.
    pub duplicated: u64,
    /// Texts sent that are outside the protocol.
    pub garbage: u64,
    /// Clients whose connection the server ended, in whatever way.
    pub ended: u64,
    /// Pongs (`{"command":"pong"}`) and heartbeats received.
    pub pongs: u64,
    /// Replies to a WebSocket ping received.
    pub websocket_pongs: u64,
    /// The `Origin`, `Cookie` and `Authorization` headers of the last upgrade.
    pub headers: Vec<(String, String)>,
    /// Connections by client address.
    pub peers: BTreeMap<IpAddr, u64>,
    /// Clients that ended with a close frame.
    pub goodbyes: u64,
    /// From taking a broadcast until its last delivery went out, for each broadcast.
    pub fan_outs: Vec<Duration>,
    /// From taking a broadcast until its acknowledgement went out.
    pub acks: Vec<Duration>,
}
