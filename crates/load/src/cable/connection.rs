//! One client: its stream, its stage, and the few bytes that wait in either direction.
//!
//! There are tens of thousands of clients, so a subscribed one has no buffer of its own: it reads through the
//! driver's.

use crate::net::stream::Stream;
use crate::ws::frame::{self, Opcode};
use crate::ws::upgrade::Upgrade;
use std::io::{self, Write as _};

/// Bytes that may wait for a server that does not read before the connection counts as failed.
pub(super) const LONGEST_BACKLOG: usize = 1 << 20;

/// The stage of a connection.
#[derive(Debug)]
pub(super) enum Stage {
    /// TCP is connecting.
    Connecting(Box<Upgrade>),
    /// The request has been sent, and the response is awaited.
    Upgrading(Box<Upgrade>),
    /// The server's welcome is awaited.
    Greeting,
    /// The subscription has been requested.
    Subscribing,
    /// The client is subscribed.
    Subscribed,
}

/// A client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) stage: Stage,
    /// The start of an incomplete frame.
    pub(super) pending: Vec<u8>,
    /// Bytes not yet accepted by the socket.
    outbox: Vec<u8>,
    /// A message that arrives in fragments.
    pub(super) fragments: Option<Vec<u8>>,
    pub(super) begun_ns: u64,
    pub(super) subscribed_ns: u64,
}

impl Connection {
    pub(super) fn new(stream: Stream, upgrade: Upgrade, now_ns: u64) -> Self {
        Self {
            stream,
            stage: Stage::Connecting(Box::new(upgrade)),
            pending: Vec::new(),
            outbox: Vec::new(),
            fragments: None,
            begun_ns: now_ns,
            subscribed_ns: u64::MAX,
        }
    }

    /// Returns whether the client is subscribed.
    pub(super) fn is_subscribed(&self) -> bool {
        matches!(self.stage, Stage::Subscribed)
    }

    /// Sends one message, masked.
    pub(super) fn send(
        &mut self,
        opcode: Opcode,
        payload: &[u8],
        mask: [u8; 4],
        scratch: &mut Vec<u8>,
    ) -> io::Result<()> {
        scratch.clear();
        frame::write(scratch, opcode, payload, mask);
        self.send_bytes(scratch)
    }

    /// Sends bytes, keeping those that the socket does not accept until it is writable.
    ///
    /// # Errors
    /// Those of the socket, and `WriteZero` if the server has not read for so long that the backlog is full.
    pub(super) fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sent = if self.outbox.is_empty() { self.write(bytes)? } else { 0 };
        if self.outbox.len() + bytes.len() - sent > LONGEST_BACKLOG {
            let text = "1 MiB waits to be sent to a server that does not read";
            return Err(io::Error::new(io::ErrorKind::WriteZero, text));
        }
        self.outbox.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    /// Sends waiting bytes, now that the socket is writable.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()?;
        if !self.outbox.is_empty() {
            let waiting = std::mem::take(&mut self.outbox);
            let sent = self.write(&waiting)?;
            self.outbox = waiting[sent..].to_vec();
        }
        Ok(())
    }

    /// Writes to the socket and returns the number of bytes accepted.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}
