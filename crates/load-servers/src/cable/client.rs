//! A client, seen from the server.

use mio::net::TcpStream;
use std::io::{self, Read as _, Write as _};
use std::time::Instant;
use tungstenite::handshake::machine::TryParse as _;
use tungstenite::handshake::server::{Request, create_response, write_response};
use tungstenite::http::HeaderValue;
use tungstenite::protocol::{Message, Role, WebSocket, WebSocketConfig};

/// Bytes read at once; clients send little.
const READ: usize = 1024;

/// A connection. `tungstenite` reads; writing is raw, so that frames can be invalid and a broadcast is
/// encoded once.
pub(super) struct Client {
    phase: Phase,
    outbox: Vec<u8>,
    /// A delivery held back until after the next one.
    pub(super) held: Option<(Vec<u8>, Instant)>,
    pub(super) subscribed: bool,
    pub(super) stalled: bool,
}

enum Phase {
    Upgrading(TcpStream, Vec<u8>),
    Open(Box<WebSocket<TcpStream>>),
}

/// An event from a client.
#[derive(Debug)]
pub(super) enum Said {
    Text(String),
    Pong,
    Goodbye,
    /// Nothing yet.
    Nothing,
}

impl Client {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self::in_phase(Phase::Upgrading(stream, Vec::new()))
    }

    fn in_phase(phase: Phase) -> Self {
        Self { phase, outbox: Vec::new(), held: None, subscribed: false, stalled: false }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        match &mut self.phase {
            Phase::Upgrading(stream, _) => stream,
            Phase::Open(socket) => socket.get_mut(),
        }
    }

    /// Returns the upgrade request once it is complete, with any bytes after it.
    pub(super) fn request(&mut self) -> io::Result<Option<(Request, Vec<u8>)>> {
        let Phase::Upgrading(stream, received) = &mut self.phase else { return Ok(None) };
        let mut buffer = [0; READ];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let parsed = Request::try_parse(received).map_err(io::Error::other)?;
        Ok(parsed.map(|(size, request)| (request, received.split_off(size))))
    }

    /// Accepts the upgrade.
    pub(super) fn accept(self, request: &Request, tail: Vec<u8>) -> io::Result<Self> {
        let mut response = create_response(request).map_err(io::Error::other)?;
        let protocols = request.headers().get("Sec-WebSocket-Protocol").and_then(|value| value.to_str().ok());
        if let Some(first) = protocols.and_then(|protocols| protocols.split(',').next())
            && let Ok(value) = HeaderValue::try_from(first.trim())
        {
            response.headers_mut().insert("Sec-WebSocket-Protocol", value);
        }
        let Phase::Upgrading(stream, _) = self.phase else { return Err(io::ErrorKind::InvalidInput.into()) };
        let mut bytes = Vec::new();
        write_response(&mut bytes, &response).map_err(io::Error::other)?;
        let config = WebSocketConfig::default().read_buffer_size(READ);
        let socket = WebSocket::from_partially_read(stream, tail, Role::Server, Some(config));
        let mut client = Self::in_phase(Phase::Open(Box::new(socket)));
        client.write(&bytes, false)?;
        Ok(client)
    }

    /// Returns the client's next event.
    pub(super) fn hear(&mut self) -> io::Result<Said> {
        let Phase::Open(socket) = &mut self.phase else { return Ok(Said::Nothing) };
        match socket.read() {
            Ok(Message::Text(text)) => Ok(Said::Text(text.to_string())),
            Ok(Message::Pong(_)) => Ok(Said::Pong),
            Ok(Message::Close(_)) => Ok(Said::Goodbye),
            Ok(_) => Ok(Said::Nothing),
            Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                Ok(Said::Nothing)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Writes bytes, one at a time with `trickle`; bytes that the socket does not accept wait.
    pub(super) fn write(&mut self, bytes: &[u8], trickle: bool) -> io::Result<()> {
        if !self.outbox.is_empty() {
            self.outbox.extend_from_slice(bytes);
            return Ok(());
        }
        let mut sent = 0;
        while sent < bytes.len() {
            let end = if trickle { sent + 1 } else { bytes.len() };
            match self.stream().write(&bytes[sent..end]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.outbox.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    /// Writes waiting bytes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.outbox);
        self.write(&waiting, false)
    }

    /// Resets the connection, as a crashing host or a firewall does.
    pub(super) fn reset(&mut self) {
        // If this fails the connection ends with a FIN instead; the client is gone either way.
        let _ = socket2::SockRef::from(&*self.stream()).set_linger(Some(std::time::Duration::ZERO));
    }
}
