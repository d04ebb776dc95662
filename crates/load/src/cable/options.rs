//! The options of a broadcast run.

use crate::net::tls::Trust;
use crate::options::OptionsError;
use crate::schedule::OpenLoop;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

/// The protocol spoken over the WebSocket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// `actioncable-v1-json`: Rails.
    #[default]
    ActionCable,
    /// `actioncable-v1-ext-json`: AnyCable's, whose clients answer pings.
    ActionCableExt,
    /// The plain JSON messages of the websocket-shootout.
    Json,
    /// Phoenix channels, as the websocket-shootout uses them.
    Phoenix,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::ActionCable, Self::ActionCableExt, Self::Json, Self::Phoenix];

    /// Returns the subprotocol of the upgrade, if any.
    pub(crate) fn subprotocol(self) -> Option<&'static str> {
        match self {
            Self::ActionCable => Some("actioncable-v1-json"),
            Self::ActionCableExt => Some("actioncable-v1-ext-json"),
            Self::Json | Self::Phoenix => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ActionCable => "actioncable-v1-json",
            Self::ActionCableExt => "actioncable-v1-ext-json",
            Self::Json => "json",
            Self::Phoenix => "phoenix",
        })
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(|protocol| protocol.to_string()).join(", ");
        let found = Self::ALL.into_iter().find(|protocol| protocol.to_string() == text);
        found.ok_or_else(|| format!("'{text}' is not one of the protocols {names}"))
    }
}

/// The time of the next broadcast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Closed loop with a fixed number of broadcasts in flight; the next one is sent when one has reached its
    /// last subscriber.
    Closed {
        /// Broadcasts in flight.
        in_flight: u32,
    },
    /// The closed loop of `websocket-bench`: the next one is sent when the sender has its acknowledgement.
    Classic {
        /// Broadcasts in flight.
        in_flight: u32,
    },
    /// Open loop: at intended times, whatever the server does. Latencies count from the intended time.
    Open(OpenLoop),
}

/// A broadcast run: connect clients in steps, and at each step broadcast from random ones.
#[derive(Debug, Clone, PartialEq)]
pub struct CableOptions {
    /// `ws://` or `wss://`.
    pub url: String,
    /// The protocol.
    pub protocol: Protocol,
    /// Total number of clients.
    pub clients: u32,
    /// Clients added by each step.
    pub step: u32,
    /// Broadcasts in each step; 0 only connects.
    pub sample: u32,
    /// The times of the broadcasts.
    pub pace: Pace,
    /// Bytes of padding in each message.
    pub payload: usize,
    /// Subscription identifier (Action Cable: a JSON object with `channel`; Phoenix: the topic).
    pub identifier: String,
    /// The action that broadcasts (Action Cable) or the event (Phoenix).
    pub action: String,
    /// Replaces the message: JSON with `{{id}}` somewhere in a string and, optionally, `{{padding}}`.
    pub data: Option<String>,
    /// A text that distinguishes the sender's acknowledgement from a delivery. `None`: the server sends no
    /// acknowledgement.
    pub ack: Option<String>,
    /// Headers of the upgrade request (`Cookie`, `Authorization`, …). Without an `Origin` the server's own is
    /// sent, which Action Cable accepts by default.
    pub headers: Vec<(String, String)>,
    /// The certificates to trust.
    pub trust: Trust,
    /// Local addresses to connect from, in rotation; empty: the system's choice.
    pub sources: Vec<IpAddr>,
    /// Maximum number of connections being opened at once.
    pub connecting: u32,
    /// Time limit from connecting to being subscribed.
    pub connect_timeout: Duration,
    /// Time limit of a broadcast, after which its missing deliveries count as lost.
    pub timeout: Duration,
    /// Time for which a step keeps listening for duplicates once everything has arrived.
    pub settle: Duration,
    /// Pause before each step's broadcasts.
    pub pause: Duration,
    /// Time for which the connections stay open, idle, after the last step.
    pub hold: Duration,
    /// Seed for the choice of senders and the arrivals.
    pub seed: u64,
}

impl CableOptions {
    /// Creates options for the field's reference benchmark at this URL: 10 steps of 1,000 clients, 100
    /// broadcasts of 200 B each, 8 in flight.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            protocol: Protocol::ActionCable,
            clients: 10_000,
            step: 1_000,
            sample: 100,
            pace: Pace::Closed { in_flight: 8 },
            payload: 200,
            identifier: r#"{"channel":"BenchmarkChannel"}"#.to_owned(),
            action: "broadcast".to_owned(),
            data: None,
            ack: Some("broadcastResult".to_owned()),
            headers: Vec::new(),
            trust: Trust::System,
            sources: Vec::new(),
            connecting: 100,
            connect_timeout: Duration::from_secs(30),
            timeout: Duration::from_secs(60),
            settle: Duration::from_millis(250),
            pause: Duration::ZERO,
            hold: Duration::ZERO,
            seed: 1,
        }
    }

    /// Returns the number of clients after each step.
    pub fn steps(&self) -> Vec<u32> {
        let steps = self.clients.div_ceil(self.step.max(1));
        (1..=steps).map(|step| step.saturating_mul(self.step).min(self.clients)).collect()
    }

    /// Returns all headers to send.
    pub(crate) fn all_headers(&self) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        let origin = url::Url::parse(&self.url.replacen("ws", "http", 1)).ok();
        if let Some(origin) = origin
            && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("origin"))
        {
            headers.push(("Origin".to_owned(), origin.origin().ascii_serialization()));
        }
        headers
    }

    /// Rejects options that cannot be carried out.
    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        let no = OptionsError::because;
        match self.pace {
            _ if self.clients == 0 || self.step == 0 => {
                return no("a run needs at least one client and a step of at least one");
            }
            Pace::Closed { in_flight: 0 } | Pace::Classic { in_flight: 0 } => {
                return no("a closed loop needs at least one broadcast in flight");
            }
            Pace::Open(open) => open.check()?,
            Pace::Classic { .. } if self.ack.is_none() => {
                return no("the classic loop waits for acknowledgements, so it cannot do without them");
            }
            _ => {}
        }
        if self.connecting == 0 {
            return no("at least one connection has to be opened at a time");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::schedule::Arrivals;

    #[test]
    fn steps_end_with_all_clients() {
        let mut plan = CableOptions::new("ws://localhost/");
        assert_eq!(plan.steps().len(), 10);
        plan.clients = 2_500;
        assert_eq!(plan.steps(), [1_000, 2_000, 2_500]);
    }

    #[test]
    fn the_servers_own_origin_is_sent_unless_another_is_given() {
        let mut plan = CableOptions::new("wss://chat.example:8443/cable");
        assert_eq!(plan.all_headers(), [("Origin".to_owned(), "https://chat.example:8443".to_owned())]);
        plan.headers = vec![("origin".to_owned(), "https://other.example".to_owned())];
        assert_eq!(plan.all_headers(), plan.headers);
    }

    #[test]
    fn protocols_are_read_as_they_are_written() {
        for protocol in Protocol::ALL {
            assert_eq!(protocol.to_string().parse::<Protocol>().unwrap(), protocol);
        }
        assert!("stomp".parse::<Protocol>().unwrap_err().contains("phoenix"));
    }

    #[test]
    fn plans_that_cannot_be_carried_out_are_refused() {
        let good = CableOptions::new("ws://localhost/");
        good.check().unwrap();
        let open = |per_second| Pace::Open(OpenLoop { per_second, arrivals: Arrivals::Constant });
        for pace in [open(0.0), open(f64::NAN), Pace::Closed { in_flight: 0 }] {
            CableOptions { pace, ..good.clone() }.check().unwrap_err();
        }
        CableOptions { clients: 0, ..good.clone() }.check().unwrap_err();
        CableOptions { pace: Pace::Classic { in_flight: 1 }, ack: None, ..good }.check().unwrap_err();
    }
}
