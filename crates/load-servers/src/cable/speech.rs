//! The server side of the protocols. A client's messages show which one it speaks.

use serde_json::{Value, json};

/// A client's request.
#[derive(Debug, PartialEq)]
pub(super) enum Wish {
    /// Subscribe; answered with one of the two texts.
    Subscribe { confirm: String, reject: String },
    /// Broadcast: the first text to all, then the second to the client itself.
    Broadcast { all: String, ack: String },
    /// A pong, which needs no reply.
    Pong,
    /// Something else.
    Unknown,
}

/// Action Cable's greeting.
pub(super) const WELCOME: &str = r#"{"type":"welcome"}"#;
/// A message that no protocol has.
pub(super) const GARBAGE: &str = "\u{1}not json";
/// Action Cable's message before it disconnects.
pub(super) const DISCONNECT: &str = r#"{"type":"disconnect","reason":"server_restart","reconnect":true}"#;

/// Parses a client's message.
pub(super) fn understand(text: &str) -> Wish {
    let Ok(message) = serde_json::from_str::<Value>(text) else { return Wish::Unknown };
    match (&message["command"], &message["event"], &message["type"]) {
        (Value::String(command), ..) => action_cable(command, &message),
        (_, Value::String(event), _) => phoenix(event, &message),
        (.., Value::String(kind)) if kind == "broadcast" => Wish::Broadcast {
            all: message.to_string(),
            ack: json!({"type": "broadcastResult", "payload": message["payload"], "listenerCount": 1})
                .to_string(),
        },
        _ => Wish::Unknown,
    }
}

fn action_cable(command: &str, message: &Value) -> Wish {
    let identifier = &message["identifier"];
    match command {
        "subscribe" => Wish::Subscribe {
            confirm: json!({"identifier": identifier, "type": "confirm_subscription"}).to_string(),
            reject: json!({"identifier": identifier, "type": "reject_subscription"}).to_string(),
        },
        "message" => {
            let data = message["data"].as_str().and_then(|data| serde_json::from_str::<Value>(data).ok());
            let Some(data) = data else { return Wish::Unknown };
            let mut result = data.clone();
            result["action"] = json!("broadcastResult");
            Wish::Broadcast {
                all: json!({"identifier": identifier, "message": data}).to_string(),
                ack: json!({"identifier": identifier, "message": result}).to_string(),
            }
        }
        "pong" => Wish::Pong,
        _ => Wish::Unknown,
    }
}

fn phoenix(event: &str, message: &Value) -> Wish {
    let (topic, body) = (&message["topic"], &message["payload"]["body"]);
    let reply = |status: &str, response: Value| {
        let payload = json!({"status": status, "response": response});
        json!({"topic": topic, "event": "phx_reply", "payload": payload, "ref": message["ref"]}).to_string()
    };
    match event {
        "phx_join" => Wish::Subscribe {
            confirm: reply("ok", json!({})),
            reject: reply("error", json!({"reason": "no"})),
        },
        "broadcast" => Wish::Broadcast {
            all:
                json!({"topic": topic, "event": "broadcast", "payload": {"type": "broadcast", "body": body}})
                    .to_string(),
            ack: reply("ok", json!({"type": "broadcastResult", "body": body})),
        },
        "heartbeat" => Wish::Pong,
        _ => Wish::Unknown,
    }
}
