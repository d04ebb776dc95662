//! Processes received data: bytes into frames, frames into messages, and messages into actions.
//!
//! All connections read through one buffer, and frames are parsed in place. A connection keeps only
//! incomplete data.

use super::class;
use super::connection::Stage;
use super::load::Load;
use super::pool::Pool;
use super::wire::Control;
use crate::ws::frame::{self, Frame, Opcode};
use std::io::{self, Read as _};

impl Pool {
    /// Reads everything that has arrived on a connection.
    pub(super) fn read(&mut self, id: usize, load: &mut Load) {
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(connection) = self.connections[id].as_mut() {
            match connection.stream.read(&mut buffer) {
                Ok(0) => {
                    self.fail(
                        id,
                        "closed",
                        "the server closed the connection without a word".to_owned(),
                        load,
                    );
                }
                Ok(count) => {
                    let last = count < buffer.len() && connection.stream.short_read_is_last();
                    self.on_bytes(id, &buffer[..count], load);
                    if last {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.fail(id, class::of_breaking(&error), error.to_string(), load),
            }
        }
        self.buffer = buffer;
    }

    /// Processes received bytes after those kept from earlier reads, and keeps what is still incomplete.
    fn on_bytes(&mut self, id: usize, bytes: &[u8], load: &mut Load) {
        let Some(connection) = self.connections[id].as_mut() else { return };
        if connection.pending.is_empty() {
            // Nearly always: whole frames, straight from the buffer.
            let used = self.take_in(id, bytes, load);
            if let Some(connection) = self.connections[id].as_mut() {
                connection.pending.extend_from_slice(&bytes[used..]);
            }
            return;
        }
        let mut pending = std::mem::take(&mut connection.pending);
        pending.extend_from_slice(bytes);
        let used = self.take_in(id, &pending, load);
        if used < pending.len()
            && let Some(connection) = self.connections[id].as_mut()
        {
            // An incomplete frame stays in place, so it is copied once, however many pieces it arrives in.
            pending.drain(..used);
            connection.pending = pending;
        }
    }

    /// Processes complete data, first the response to the upgrade, then frames, and returns the number of
    /// bytes consumed.
    fn take_in(&mut self, id: usize, bytes: &[u8], load: &mut Load) -> usize {
        let now_ns = self.clock.now_ns();
        let mut used = 0;
        while let Some(connection) = self.connections[id].as_mut() {
            let rest = &bytes[used..];
            if let Stage::Upgrading(upgrade) = &connection.stage {
                match upgrade.check(rest) {
                    Ok(Some(header)) => {
                        used += header;
                        connection.stage = Stage::Greeting;
                        if !self.wire.awaits_welcome() {
                            self.subscribe(id, now_ns, load);
                        }
                    }
                    Ok(None) => break,
                    Err(refusal) => self.fail(id, class::of_refusal(&refusal), refusal.to_string(), load),
                }
            } else {
                match frame::read(rest) {
                    Ok(Some(frame)) => {
                        used += frame.size;
                        self.on_frame(id, &frame, now_ns, load);
                    }
                    Ok(None) => break,
                    Err(broken) => self.fail(id, "broken_frame", format!("the server sent {broken}"), load),
                }
            }
        }
        used
    }

    fn on_frame(&mut self, id: usize, frame: &Frame<'_>, now_ns: u64, load: &mut Load) {
        match frame.opcode {
            Opcode::Text | Opcode::Binary if frame.last => self.on_message(id, frame.payload, now_ns, load),
            Opcode::Text | Opcode::Binary | Opcode::Continuation => self.on_fragment(id, frame, now_ns, load),
            Opcode::Ping => self.send(id, Opcode::Pong, frame.payload, load),
            Opcode::Pong => {}
            Opcode::Close => {
                let said = match frame.payload {
                    [a, b, reason @ ..] => {
                        let code = u16::from_be_bytes([*a, *b]);
                        format!("with code {code} {}", String::from_utf8_lossy(reason))
                    }
                    _ => "without a code".to_owned(),
                };
                self.fail(
                    id,
                    "closed",
                    format!("the server closed the connection {}", said.trim_end()),
                    load,
                );
            }
        }
    }

    fn on_fragment(&mut self, id: usize, frame: &Frame<'_>, now_ns: u64, load: &mut Load) {
        let Some(connection) = self.connections[id].as_mut() else { return };
        let continues = frame.opcode == Opcode::Continuation;
        if continues != connection.fragments.is_some() {
            let text = "the server sent fragments in the wrong order".to_owned();
            return self.fail(id, "broken_frame", text, load);
        }
        let fragments = connection.fragments.get_or_insert_default();
        fragments.extend_from_slice(frame.payload);
        if fragments.len() as u64 > frame::LONGEST_PAYLOAD {
            let broken = frame::Broken::TooLong(fragments.len() as u64);
            return self.fail(id, "broken_frame", format!("the server sent {broken}"), load);
        }
        if frame.last
            && let Some(whole) = connection.fragments.take()
        {
            self.on_message(id, &whole, now_ns, load);
        }
    }

    fn on_message(&mut self, id: usize, text: &[u8], now_ns: u64, load: &mut Load) {
        if let Some(sequence) = self.wire.sequence_of(text) {
            let subscribed_ns =
                self.connections[id].as_ref().map_or(u64::MAX, |connection| connection.subscribed_ns);
            return load.on_delivery(sequence, id, subscribed_ns, now_ns, || self.wire.is_ack(text));
        }
        match self.wire.control(text) {
            Control::Welcome => self.subscribe(id, now_ns, load),
            Control::Subscribed => self.on_subscribed(id, now_ns),
            Control::Ping => {
                if let Some(pong) = self.wire.pong() {
                    self.send(id, Opcode::Text, pong.as_bytes(), load);
                }
            }
            Control::Rejected => {
                let text =
                    "the server rejected the subscription: check the channel's name and who may subscribe"
                        .to_owned();
                self.fail(id, "subscription_rejected", text, load);
            }
            Control::Disconnect(reason) => {
                self.fail(
                    id,
                    "disconnected",
                    format!("the server sent a disconnect message: {reason}"),
                    load,
                );
            }
            Control::Foreign => {}
            Control::Garbage => {
                let start: String = String::from_utf8_lossy(text).chars().take(60).collect();
                let protocol = self.plan.protocol;
                self.report
                    .faults
                    .add("garbage", || format!("the server sent a message that is not {protocol}: {start}"));
            }
        }
    }
}
