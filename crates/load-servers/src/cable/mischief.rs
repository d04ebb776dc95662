//! Faults that a server can be told to make, with an exact count of them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// How often something happens: with each `n`th of the things counted; never by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Every(pub Option<u64>);

impl Every {
    /// Returns whether it happens to the thing with this number (from 1).
    pub(super) fn hits(self, number: u64) -> bool {
        self.0.is_some_and(|every| every > 0 && number.is_multiple_of(every))
    }
}

/// How the server answers something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Answer {
    /// As it should.
    #[default]
    Yes,
    /// With a refusal: this HTTP status for an upgrade, a rejection for a subscription.
    No(u16),
    /// With something else than was asked for.
    Wrong,
    /// Not at all.
    Silence,
}

/// What the server does wrong. The default is nothing.
#[derive(Debug, Clone, Default)]
pub struct Mischief {
    /// The answer to the upgrade.
    pub upgrade: Answer,
    /// The answer to a subscription.
    pub subscription: Answer,
    /// Each nth delivery is not made.
    pub drop: Every,
    /// Each nth delivery is made twice.
    pub duplicate: Every,
    /// Each nth delivery is held back until the client's next one has gone out.
    pub reorder: Every,
    /// Each nth delivery comes in three fragments, with a ping between them.
    pub fragment: Every,
    /// Each nth delivery is followed by a text that is not of the protocol.
    pub garbage: Every,
    /// Each nth delivery is mangled: reserved bits set in its frame, after which the connection is useless.
    pub mangle: Every,
    /// At each nth delivery the client's connection is reset.
    pub reset: Every,
    /// At each nth delivery the client is sent a disconnect message.
    pub disconnect: Every,
    /// From each nth delivery on the client gets nothing more, and nothing more of it is read.
    pub stall: Every,
    /// After so many broadcasts the server dies: all connections are reset and nobody listens any more.
    pub die_after: Option<u64>,
    /// Deliveries are made so much later.
    pub delay: Duration,
    /// The delivery to the last subscriber is made so much later still.
    pub last_delay: Duration,
    /// Acknowledgements are made so much later.
    pub ack_delay: Duration,
    /// No acknowledgements are made.
    pub mute: bool,
    /// Bytes are written one at a time.
    pub trickle: bool,
}

/// What the server did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Truth {
    /// Broadcasts that it took.
    pub broadcasts: u64,
    /// Deliveries that it was to make.
    pub due: u64,
    /// Deliveries that it did not make.
    pub dropped: u64,
    /// Deliveries that it made once more.
    pub duplicated: u64,
    /// Texts that are not of the protocol.
    pub garbage: u64,
    /// Clients whose connection it ended in one way or another.
    pub ended: u64,
    /// Pongs (`{"command":"pong"}`) and heartbeats that it got.
    pub pongs: u64,
    /// Answers to a WebSocket ping that it got.
    pub websocket_pongs: u64,
    /// The `Origin`, `Cookie` and `Authorization` headers of the last upgrade.
    pub headers: Vec<(String, String)>,
    /// Connections by the address that they came from.
    pub peers: BTreeMap<IpAddr, u64>,
    /// Clients that said goodbye with a close frame.
    pub goodbyes: u64,
    /// From taking a broadcast until its last delivery went out, for each broadcast.
    pub fan_outs: Vec<Duration>,
    /// From taking a broadcast until its acknowledgement went out.
    pub acks: Vec<Duration>,
}
