//! The four protocols as bytes: the client's messages, and the meaning of the server's.
//!
//! Sources: Action Cable `actioncable/lib/action_cable.rb` (`INTERNAL`: message types, disconnect reasons)
//! and `connection/subscriptions.rb` (commands) of Rails 6.1 to 8; AnyCable's "Extended Action Cable
//! protocol" (pongs); the server adapters of hashrocket/websocket-shootout for `json` and `phoenix`.
//!
//! A delivery is not parsed. Every message carries a unique ID (`u` + a random run number + its sequence
//! number). The ID is expected at the same offset as in the previous delivery, which is nearly always right,
//! and otherwise searched for.

use super::options::{CableOptions, Protocol};
use crate::options::OptionsError;
use memchr::memmem;
use serde_json::{Value, json};

/// Digits of the sequence number in an id.
const SEQUENCE_DIGITS: usize = 8;
/// Placeholders for the ID and the padding in a user's message.
const ID: &str = "{{id}}";
const PADDING: &str = "{{padding}}";

/// The protocol of one run.
#[derive(Debug)]
pub(crate) struct Wire {
    protocol: Protocol,
    identifier: String,
    /// The parts of a broadcast before and after its sequence number.
    before: String,
    after: String,
    marker: Marker,
    ack: Option<memmem::Finder<'static>>,
}

#[derive(Debug)]
struct Marker {
    finder: memmem::Finder<'static>,
    /// Offset of the ID in the last delivery.
    hint: usize,
}

/// The meaning of a message that is not a broadcast.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// The server is ready for subscriptions.
    Welcome,
    Ping,
    Subscribed,
    Rejected,
    /// The server announces that it will disconnect, with the reason.
    Disconnect(String),
    /// A message of the application that is not ours.
    Foreign,
    /// Not a message of this protocol.
    Garbage,
}

impl Wire {
    /// Prepares the messages of a run. `run` distinguishes its IDs from those of any other run.
    pub(crate) fn new(plan: &CableOptions, run: u32) -> Result<Self, OptionsError> {
        let marker = format!("u{run:08x}-");
        let text = message(plan, &format!("{marker}{ID}"))?;
        let (before, after) =
            text.split_once(ID).ok_or_else(|| OptionsError("the message has no {{id}}".to_owned()))?;
        Ok(Self {
            protocol: plan.protocol,
            identifier: plan.identifier.clone(),
            before: before.to_owned(),
            after: after.to_owned(),
            marker: Marker { finder: memmem::Finder::new(marker.as_bytes()).into_owned(), hint: 0 },
            ack: plan.ack.as_ref().map(|ack| memmem::Finder::new(ack.as_bytes()).into_owned()),
        })
    }

    /// Returns whether the server speaks first.
    pub(crate) fn awaits_welcome(&self) -> bool {
        matches!(self.protocol, Protocol::ActionCable | Protocol::ActionCableExt)
    }

    /// Returns the request to subscribe; `None` if connecting implies it.
    pub(crate) fn subscribe(&self) -> Option<String> {
        match self.protocol {
            Protocol::ActionCable | Protocol::ActionCableExt => {
                Some(json!({"command": "subscribe", "identifier": self.identifier}).to_string())
            }
            Protocol::Json => None,
            Protocol::Phoenix => Some(
                json!({"topic": self.identifier, "event": "phx_join", "payload": {}, "ref": "1"}).to_string(),
            ),
        }
    }

    /// Returns the reply to a ping, if one is expected.
    pub(crate) fn pong(&self) -> Option<&'static str> {
        (self.protocol == Protocol::ActionCableExt).then_some(r#"{"command":"pong"}"#)
    }

    /// Returns the message that keeps an idle client from being disconnected: Phoenix closes after 60 s of
    /// silence.
    pub(crate) fn heartbeat(&self) -> Option<&'static str> {
        let text = r#"{"topic":"phoenix","event":"heartbeat","payload":{},"ref":"0"}"#;
        (self.protocol == Protocol::Phoenix).then_some(text)
    }

    /// Writes the broadcast with this sequence number.
    pub(crate) fn broadcast(&self, sequence: u32, out: &mut String) {
        use std::fmt::Write as _;
        out.clear();
        let _ = write!(out, "{}{sequence:0SEQUENCE_DIGITS$x}{}", self.before, self.after);
    }

    /// Returns the sequence number of the broadcast that `text` delivers or acknowledges, if any.
    pub(crate) fn sequence_of(&mut self, text: &[u8]) -> Option<u32> {
        self.marker.sequence_of(text)
    }

    /// Returns whether a message with an ID, received by its sender, is the acknowledgement.
    pub(crate) fn is_ack(&self, text: &[u8]) -> bool {
        self.ack.as_ref().is_some_and(|ack| ack.find(text).is_some())
    }

    /// Returns whether acknowledgements are expected.
    pub(crate) fn acknowledges(&self) -> bool {
        self.ack.is_some()
    }

    /// Interprets a message without an ID.
    pub(crate) fn control(&self, text: &[u8]) -> Control {
        if text.starts_with(br#"{"type":"ping""#) {
            return Control::Ping;
        }
        let Ok(value) = serde_json::from_slice::<Value>(text) else { return Control::Garbage };
        let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        match self.protocol {
            Protocol::ActionCable | Protocol::ActionCableExt => match field("type") {
                "welcome" => Control::Welcome,
                "ping" => Control::Ping,
                "confirm_subscription" => Control::Subscribed,
                "reject_subscription" => Control::Rejected,
                "disconnect" => Control::Disconnect(field("reason").to_owned()),
                _ if value.get("message").is_some() => Control::Foreign,
                _ => Control::Garbage,
            },
            Protocol::Json if value.get("type").is_some() => Control::Foreign,
            Protocol::Json => Control::Garbage,
            Protocol::Phoenix => {
                let status = value.pointer("/payload/status").and_then(Value::as_str);
                match (field("event"), field("topic") == self.identifier, status) {
                    ("phx_reply", true, Some("ok")) => Control::Subscribed,
                    ("phx_reply", true, _) => Control::Rejected,
                    ("phx_close" | "phx_error", true, _) => Control::Disconnect(field("event").to_owned()),
                    ("", ..) => Control::Garbage,
                    _ => Control::Foreign,
                }
            }
        }
    }
}

impl Marker {
    fn sequence_of(&mut self, text: &[u8]) -> Option<u32> {
        let needle = self.finder.needle();
        let hinted = text.get(self.hint..).is_some_and(|rest| rest.starts_with(needle));
        let at = if hinted { self.hint } else { self.finder.find(text)? };
        self.hint = at;
        let start = at + needle.len();
        let digits = text.get(start..start + SEQUENCE_DIGITS)?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}

/// Builds the text of a broadcast with the given ID.
fn message(plan: &CableOptions, id: &str) -> Result<String, OptionsError> {
    let padding: String = "1234567890".chars().cycle().take(plan.payload).collect();
    let payload = json!({"id": id, "padding": padding});
    let own = match &plan.data {
        None => None,
        Some(data) if !data.contains(ID) => {
            return Err(OptionsError(format!(
                "the data has no {ID}, without which deliveries cannot be distinguished"
            )));
        }
        Some(data) => {
            let text = data.replace(PADDING, &padding).replace(ID, id);
            let parsed = serde_json::from_str::<Value>(&text);
            Some(parsed.map_err(|error| OptionsError(format!("the data is not JSON: {error}")))?)
        }
    };
    let message = match plan.protocol {
        Protocol::ActionCable | Protocol::ActionCableExt => {
            let data = own.unwrap_or_else(|| json!({"action": plan.action, "payload": payload}));
            json!({"command": "message", "identifier": plan.identifier, "data": data.to_string()})
        }
        Protocol::Json => own.unwrap_or_else(|| json!({"type": plan.action, "payload": payload})),
        Protocol::Phoenix => json!({
            "topic": plan.identifier,
            "event": plan.action,
            "payload": own.unwrap_or_else(|| json!({"body": payload})),
            "ref": "2",
        }),
    };
    Ok(message.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn wire(protocol: Protocol) -> Wire {
        let identifier =
            if protocol == Protocol::Phoenix { "room:lobby" } else { r#"{"channel":"BenchmarkChannel"}"# };
        let plan = CableOptions {
            protocol,
            payload: 10,
            identifier: identifier.to_owned(),
            ..CableOptions::new("ws://localhost/")
        };
        Wire::new(&plan, 0xbeef).unwrap()
    }

    fn text(wire: &Wire, sequence: u32) -> String {
        let mut text = String::new();
        wire.broadcast(sequence, &mut text);
        text
    }

    #[test]
    fn an_action_cable_broadcast_is_what_rails_expects() {
        let parsed: Value = serde_json::from_str(&text(&wire(Protocol::ActionCable), 5)).unwrap();
        assert_eq!(parsed["command"], "message");
        assert_eq!(parsed["identifier"], r#"{"channel":"BenchmarkChannel"}"#);
        let data: Value = serde_json::from_str(parsed["data"].as_str().unwrap()).unwrap();
        assert_eq!(
            data,
            json!({"action": "broadcast", "payload": {"id": "u0000beef-00000005", "padding": "1234567890"}})
        );
    }

    #[test]
    fn a_phoenix_broadcast_goes_to_the_topic() {
        let parsed: Value = serde_json::from_str(&text(&wire(Protocol::Phoenix), 5)).unwrap();
        assert_eq!((&parsed["topic"], &parsed["event"]), (&json!("room:lobby"), &json!("broadcast")));
        assert_eq!(parsed["payload"]["body"]["id"], "u0000beef-00000005");
    }

    #[test]
    fn a_users_own_message_carries_the_id_where_they_put_it() {
        let data = r#"{"action":"speak","text":"{{id}} {{padding}}"}"#.to_owned();
        let plan = CableOptions { data: Some(data), payload: 3, ..CableOptions::new("ws://localhost/") };
        let text = text(&Wire::new(&plan, 1).unwrap(), 2);
        assert!(text.contains(r#"\"text\":\"u00000001-00000002 123\""#), "{text}");
        for bad in [r#"{"action":"speak"}"#, "{{id}}", r#"{"a":"{{id}}"#] {
            let plan = CableOptions { data: Some(bad.to_owned()), ..CableOptions::new("ws://localhost/") };
            Wire::new(&plan, 1).unwrap_err();
        }
    }

    #[test]
    fn the_servers_messages_are_understood() {
        let cable = wire(Protocol::ActionCable);
        let control = |text: &str| cable.control(text.as_bytes());
        assert_eq!(control(r#"{"type":"welcome","sid":"x"}"#), Control::Welcome);
        assert_eq!(control(r#"{"type":"ping","message":1}"#), Control::Ping);
        assert_eq!(control(r#"{"identifier":"x","type":"confirm_subscription"}"#), Control::Subscribed);
        assert_eq!(control(r#"{"identifier":"x","type":"reject_subscription"}"#), Control::Rejected);
        let disconnect = r#"{"type":"disconnect","reason":"unauthorized","reconnect":false}"#;
        assert_eq!(control(disconnect), Control::Disconnect("unauthorized".to_owned()));
        assert_eq!(control(r#"{"identifier":"x","message":{"body":"hello"}}"#), Control::Foreign);
        assert_eq!(control("{]"), Control::Garbage);
        assert_eq!(control("[1]"), Control::Garbage);
    }

    #[test]
    fn phoenix_replies_are_understood() {
        let phoenix = wire(Protocol::Phoenix);
        let reply = |topic: &str, status: &str| {
            json!({"topic": topic, "event": "phx_reply", "payload": {"status": status, "response": {}}, "ref": "1"}).to_string()
        };
        assert_eq!(phoenix.control(reply("room:lobby", "ok").as_bytes()), Control::Subscribed);
        assert_eq!(phoenix.control(reply("room:lobby", "error").as_bytes()), Control::Rejected);
        assert_eq!(phoenix.control(reply("phoenix", "ok").as_bytes()), Control::Foreign);
    }

    #[test]
    fn another_runs_messages_are_not_ours() {
        let mut ours = wire(Protocol::Json);
        let theirs = Wire::new(
            &CableOptions { protocol: Protocol::Json, ..CableOptions::new("ws://localhost/") },
            0xdead,
        )
        .unwrap();
        assert_eq!(ours.sequence_of(text(&theirs, 7).as_bytes()), None);
    }

    proptest! {
        #[test]
        fn the_id_is_found_wherever_the_server_puts_it(sequences in proptest::collection::vec((any::<u32>(), 0usize..50), 1..20)) {
            let mut wire = wire(Protocol::ActionCable);
            for (sequence, shift) in sequences {
                let delivery = format!("{}{}", " ".repeat(shift), text(&wire, sequence));
                prop_assert_eq!(wire.sequence_of(delivery.as_bytes()), Some(sequence));
            }
        }

        #[test]
        fn any_text_is_looked_at_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut wire = wire(Protocol::ActionCable);
            wire.sequence_of(&text);
            wire.sequence_of(&[b"u0000beef-", &text[..]].concat());
            wire.control(&text);
        }
    }
}
