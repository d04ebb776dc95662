//! The event loop: accepting, upgrading, receiving, and making deliveries on time.

use super::client::{Client, Said};
use super::mischief::{Answer, Mischief, Truth};
use super::speech::{self, Wish};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tungstenite::handshake::server::Request;

const LISTENER: Token = Token(usize::MAX - 1);
/// Action Cable's ping (`ActionCable::Connection::Heartbeat`, rails `connections.rb`: `BEAT_INTERVAL = 3`).
const BEAT: Duration = Duration::from_secs(3);
/// Maximum time between two checks for the request to stop.
const TICK: Duration = Duration::from_millis(50);

/// The server.
pub(super) struct Hub {
    poll: Poll,
    listener: Option<TcpListener>,
    clients: Vec<Option<Client>>,
    mischief: Mischief,
    truth: Arc<Mutex<Truth>>,
    /// Number of deliveries to all clients, which the faults count.
    deliveries: u64,
    later: BinaryHeap<Reverse<Later>>,
    beat: Instant,
}

/// Bytes to send at a later time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Later {
    due: Instant,
    client: usize,
    bytes: Vec<u8>,
    taken: Instant,
    mark: Mark,
}

/// The measurement that a write completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Nothing,
    FanOut,
    Ack,
}

impl Hub {
    pub(super) fn bind(
        address: SocketAddr,
        mischief: Mischief,
        truth: Arc<Mutex<Truth>>,
    ) -> io::Result<Self> {
        let socket =
            socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(4096)?;
        let mut listener = TcpListener::from_std(socket.into());
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self {
            poll,
            listener: Some(listener),
            clients: Vec::new(),
            mischief,
            truth,
            deliveries: 0,
            later: BinaryHeap::new(),
            beat: Instant::now() + BEAT,
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.as_ref().ok_or(io::ErrorKind::NotConnected)?.local_addr()
    }

    pub(super) fn serve(&mut self, stop: impl Fn() -> bool) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !stop() {
            let next =
                self.later.peek().map(|Reverse(later)| later.due.saturating_duration_since(Instant::now()));
            match self.poll.poll(&mut events, Some(next.unwrap_or(TICK).min(TICK))) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    Token(id) => self.attend(id, event.is_writable()),
                }
            }
            self.make_due_deliveries();
            self.ping();
        }
        Ok(())
    }

    fn count(&self, count: impl FnOnce(&mut Truth)) {
        count(&mut self.truth.lock().expect("nobody panics while counting"));
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok((mut stream, peer)) => {
                    self.count(|truth| *truth.peers.entry(peer.ip()).or_default() += 1);
                    stream.set_nodelay(true)?;
                    let both = Interest::READABLE | Interest::WRITABLE;
                    self.poll.registry().register(&mut stream, Token(self.clients.len()), both)?;
                    self.clients.push(Some(Client::new(stream)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn attend(&mut self, id: usize, writable: bool) {
        let Some(client) = self.clients[id].as_mut() else { return };
        if client.stalled {
            return;
        }
        if writable && client.flush().is_err() {
            self.clients[id] = None;
            return;
        }
        if !client.is_open() && self.upgrade(id).is_err() {
            self.clients[id] = None;
        }
        while let Some(client) =
            self.clients[id].as_mut().filter(|client| client.is_open() && !client.stalled)
        {
            match client.hear() {
                Ok(Said::Text(text)) => self.on_text(id, &text),
                Ok(Said::Pong) => self.count(|truth| truth.websocket_pongs += 1),
                Ok(Said::Goodbye) => {
                    self.count(|truth| truth.goodbyes += 1);
                    self.clients[id] = None;
                }
                Ok(Said::Nothing) => break,
                Err(_) => self.clients[id] = None,
            }
        }
    }

    fn upgrade(&mut self, id: usize) -> io::Result<()> {
        let Some(client) = self.clients[id].as_mut() else { return Ok(()) };
        let Some((request, tail)) = client.request()? else { return Ok(()) };
        self.note_headers(&request);
        let Some(client) = self.clients[id].take() else { return Ok(()) };
        let mut client = match self.mischief.upgrade {
            Answer::Yes => client.accept(&request, tail)?,
            Answer::No(status) => {
                return refuse(client, &format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n"));
            }
            Answer::Wrong => return refuse(client, "SSH-2.0-OpenSSH_9.2\r\n"),
            Answer::Silence => {
                self.clients[id] = Some(client);
                return Ok(());
            }
        };
        if request.uri().path().starts_with("/cable") {
            client.write(&text_frame(speech::WELCOME), self.mischief.trickle)?;
        } else {
            client.subscribed = !request.uri().path().starts_with("/socket");
        }
        self.clients[id] = Some(client);
        Ok(())
    }

    fn note_headers(&self, request: &Request) {
        let headers = ["origin", "cookie", "authorization"].into_iter().filter_map(|name| {
            let value = request.headers().get(name)?.to_str().ok()?;
            Some((name.to_owned(), value.to_owned()))
        });
        self.count(|truth| truth.headers = headers.collect());
    }

    fn on_text(&mut self, id: usize, text: &str) {
        let taken = Instant::now();
        match speech::understand(text) {
            Wish::Subscribe { confirm, reject } => {
                let answer = match self.mischief.subscription {
                    Answer::Yes => confirm,
                    Answer::No(_) => reject,
                    Answer::Wrong => speech::GARBAGE.to_owned(),
                    Answer::Silence => return,
                };
                let confirmed = self.mischief.subscription == Answer::Yes;
                if let Some(client) = &mut self.clients[id] {
                    client.subscribed = confirmed;
                }
                self.write(id, &text_frame(&answer));
            }
            Wish::Broadcast { all, ack } => self.broadcast(id, &all, &ack, taken),
            Wish::Pong => self.count(|truth| truth.pongs += 1),
            Wish::Unknown => {}
        }
    }

    fn broadcast(&mut self, sender: usize, all: &str, ack: &str, taken: Instant) {
        self.count(|truth| truth.broadcasts += 1);
        if self.mischief.die_after == Some(self.truth.lock().expect("as above").broadcasts) {
            return self.die();
        }
        let frame = text_frame(all);
        let last =
            self.clients.iter().rposition(|client| client.as_ref().is_some_and(|client| client.subscribed));
        for id in 0..self.clients.len() {
            if self.clients[id].as_ref().is_some_and(|client| client.subscribed) {
                self.count_due();
                self.deliver(id, &frame, all, taken, Some(id) == last);
            }
        }
        if !self.mischief.mute {
            self.write_at(taken + self.mischief.ack_delay, sender, text_frame(ack), taken, Mark::Ack);
        }
    }

    fn count_due(&mut self) {
        self.deliveries += 1;
        self.count(|truth| truth.due += 1);
    }

    /// Makes one delivery, or the fault requested in its place.
    fn deliver(&mut self, id: usize, frame: &[u8], text: &str, taken: Instant, last: bool) {
        let Some(client) = self.clients[id].as_mut() else { return };
        let (mischief, number) = (&self.mischief, self.deliveries);
        if client.stalled || mischief.drop.hits(number) {
            return self.count(|truth| truth.dropped += 1);
        }
        if mischief.stall.hits(number) {
            client.stalled = true;
            return self.count(|truth| (truth.dropped, truth.ended) = (truth.dropped + 1, truth.ended + 1));
        }
        if mischief.reset.hits(number) {
            client.reset();
            return self.end(id);
        }
        if mischief.disconnect.hits(number) {
            self.write(id, &text_frame(speech::DISCONNECT));
            return self.end(id);
        }
        if mischief.mangle.hits(number) {
            let mut mangled = frame.to_vec();
            mangled[0] |= 0x70;
            self.write(id, &mangled);
            return self.end(id);
        }
        let due = taken + mischief.delay + if last { mischief.last_delay } else { Duration::ZERO };
        let mark = if last { Mark::FanOut } else { Mark::Nothing };
        let (duplicate, garbage) = (mischief.duplicate.hits(number), mischief.garbage.hits(number));
        if mischief.reorder.hits(number) && client.held.is_none() {
            client.held = Some((frame.to_vec(), due));
            // Counted as dropped until it is made after all.
            return self.count(|truth| truth.dropped += 1);
        }
        let held = client.held.take();
        let bytes = if mischief.fragment.hits(number) { fragments(text) } else { frame.to_vec() };
        self.write_at(due, id, bytes, taken, mark);
        if duplicate {
            self.count(|truth| truth.duplicated += 1);
            self.write_at(due, id, frame.to_vec(), taken, Mark::Nothing);
        }
        if let Some((held, due)) = held {
            self.count(|truth| truth.dropped -= 1);
            self.write_at(due, id, held, taken, Mark::Nothing);
        }
        if garbage {
            self.count(|truth| truth.garbage += 1);
            self.write_at(due, id, text_frame(speech::GARBAGE), taken, Mark::Nothing);
        }
    }

    /// Records that the server ended a client's connection.
    fn end(&mut self, id: usize) {
        self.clients[id] = None;
        self.count(|truth| (truth.dropped, truth.ended) = (truth.dropped + 1, truth.ended + 1));
    }

    fn die(&mut self) {
        self.listener = None;
        for client in &mut self.clients {
            if let Some(mut client) = client.take() {
                client.reset();
                self.truth.lock().expect("as above").ended += 1;
            }
        }
    }

    fn write_at(&mut self, due: Instant, client: usize, bytes: Vec<u8>, taken: Instant, mark: Mark) {
        if due > Instant::now() {
            self.later.push(Reverse(Later { due, client, bytes, taken, mark }));
        } else {
            self.write(client, &bytes);
            self.mark(mark, taken);
        }
    }

    fn make_due_deliveries(&mut self) {
        while let Some(Reverse(later)) = self.later.pop_if_due() {
            self.write(later.client, &later.bytes);
            self.mark(later.mark, later.taken);
        }
    }

    fn mark(&self, mark: Mark, taken: Instant) {
        match mark {
            Mark::Nothing => {}
            Mark::FanOut => self.count(|truth| truth.fan_outs.push(taken.elapsed())),
            Mark::Ack => self.count(|truth| truth.acks.push(taken.elapsed())),
        }
    }

    fn write(&mut self, id: usize, bytes: &[u8]) {
        let trickle = self.mischief.trickle;
        if let Some(client) = self.clients[id].as_mut()
            && client.write(bytes, trickle).is_err()
        {
            self.clients[id] = None;
        }
    }

    fn ping(&mut self) {
        if Instant::now() < self.beat {
            return;
        }
        self.beat += BEAT;
        let ping = text_frame(r#"{"type":"ping","message":1700000000}"#);
        for id in 0..self.clients.len() {
            if self.clients[id].as_ref().is_some_and(|client| client.is_open() && !client.stalled) {
                self.write(id, &ping);
            }
        }
    }
}

/// Pops an element off a heap only if it is due.
trait PopIfDue {
    fn pop_if_due(&mut self) -> Option<Reverse<Later>>;
}

impl PopIfDue for BinaryHeap<Reverse<Later>> {
    fn pop_if_due(&mut self) -> Option<Reverse<Later>> {
        let due = self.peek().is_some_and(|Reverse(later)| later.due <= Instant::now());
        if due { self.pop() } else { None }
    }
}

fn refuse(mut client: Client, answer: &str) -> io::Result<()> {
    client.stream().write_all(answer.as_bytes())
}

/// Builds a complete, unmasked text frame.
fn text_frame(text: &str) -> Vec<u8> {
    frame(0x81, text.as_bytes())
}

/// Builds a text in three frames, with a ping between the first two, as RFC 6455 (section 5.4) allows.
fn fragments(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (first, rest) = bytes.split_at(bytes.len() / 3);
    let (second, third) = rest.split_at(rest.len() / 2);
    [frame(0x01, first), frame(0x89, b"still there?"), frame(0x00, second), frame(0x80, third)].concat()
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 10);
    bytes.push(first);
    match payload.len() {
        short @ ..=125 => bytes.push(short as u8),
        medium @ 126..=0xffff => {
            bytes.push(126);
            bytes.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            bytes.push(127);
            bytes.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(payload);
    bytes
}
