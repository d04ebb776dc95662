//! All connections of a run in one thread: opening them, reading what arrives, telling the load.
//!
//! One epoll instance, edge-triggered; each connection is registered once. What is read goes through one buffer that all
//! share, frames are taken apart where they lie, and a delivery costs one `recv`, one clock read and a comparison of bytes.

use super::connection::{Connection, Stage};
use super::load::Load;
use super::plan::Plan;
use super::tally::Members;
use super::wire::{Control, Wire};
use super::{Error, PlanError};
use crate::clock::Clock;
use crate::fault::Faults;
use crate::latency::Latency;
use crate::net::{stream, target::Target, tls};
use crate::ws::frame::{self, Frame, Opcode};
use crate::ws::upgrade::{Refusal, Upgrade};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use rustls::ClientConfig;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;
use std::time::Duration;

/// The buffer that all connections read through.
const BUFFER: usize = 64 << 10;
/// Events taken from the kernel at once.
const EVENTS: usize = 1024;
/// The longest time without a look at timeouts and at the user's wish to stop.
const TICK_NS: u64 = 100_000_000;
/// Every connection that has to be heard from is, in this time (Phoenix gives up after 60 s).
const HEARTBEAT_NS: u64 = 25_000_000_000;
/// The timer's place among the connections' tokens.
const TIMER: Token = Token(usize::MAX - 1);

/// The connections of a run.
pub(super) struct Pool {
    plan: Plan,
    headers: Vec<(String, String)>,
    target: Target,
    tls: Option<Arc<ClientConfig>>,
    pub(super) wire: Wire,
    pub(super) clock: Clock,
    poll: Poll,
    events: Events,
    timer: TimerFd,
    /// By token; never used again after a connection is gone, so a stale event cannot hit another one.
    connections: Vec<Option<Connection>>,
    /// Who takes part.
    pub(super) subscribed: Members,
    /// Connections under way, the oldest first; those that got through are still in it until they come first.
    opening_order: VecDeque<usize>,
    opening: u32,
    /// What happened since the last [`Pool::take_report`].
    report: Report,
    heartbeat: Heartbeat,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    random: SmallRng,
}

/// What the connections went through in a step.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) connect: Latency,
    pub(super) read_lag: Latency,
    pub(super) faults: Faults,
    pub(super) disconnects: u64,
}

#[derive(Debug, Default)]
struct Heartbeat {
    round_began_ns: u64,
    next: usize,
}

impl Pool {
    pub(super) fn new(plan: &Plan, run: u32) -> Result<Self, Error> {
        let wire = Wire::new(plan, run)?;
        let target = Target::find(&plan.url, ["ws", "wss"])?;
        let tls = if target.tls_name.is_some() { Some(tls::client_config(&plan.trust)?) } else { None };
        let headers = plan.all_headers();
        Upgrade::new(&plan.url, plan.protocol.subprotocol(), &headers).map_err(PlanError)?;
        let poll = Poll::new().map_err(Error::System)?;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)
                .map_err(|errno| Error::System(errno.into()))?;
        let fd = timer.as_fd().as_raw_fd();
        poll.registry().register(&mut SourceFd(&fd), TIMER, Interest::READABLE).map_err(Error::System)?;
        Ok(Self {
            plan: plan.clone(),
            headers,
            target,
            tls,
            wire,
            clock: Clock::start(),
            poll,
            events: Events::with_capacity(EVENTS),
            timer,
            connections: Vec::with_capacity(plan.clients as usize),
            subscribed: Members::default(),
            opening_order: VecDeque::new(),
            opening: 0,
            report: Report::default(),
            heartbeat: Heartbeat::default(),
            buffer: vec![0; BUFFER],
            scratch: Vec::new(),
            random: SmallRng::seed_from_u64(u64::from(run)),
        })
    }

    /// How many connections were begun.
    pub(super) fn begun(&self) -> u32 {
        self.connections.len() as u32
    }

    /// How many of them have not got through yet.
    pub(super) fn opening(&self) -> u32 {
        self.opening
    }

    /// What happened since the last call.
    pub(super) fn take_report(&mut self) -> Report {
        std::mem::take(&mut self.report)
    }

    /// What happened since the last [`Self::take_report`].
    pub(super) fn report(&self) -> &Report {
        &self.report
    }

    /// Begins one more connection.
    pub(super) fn open(&mut self, load: &mut Load) {
        let id = self.connections.len();
        let source = (!self.plan.sources.is_empty()).then(|| self.plan.sources[id % self.plan.sources.len()]);
        // The URL and the headers were tried when the pool was made.
        let upgrade = Upgrade::new(&self.plan.url, self.plan.protocol.subprotocol(), &self.headers);
        let begun = upgrade.map_err(io::Error::other).and_then(|upgrade| {
            let mut stream = stream::connect(&self.target, self.tls.as_ref(), source)?;
            stream.register(self.poll.registry(), Token(id))?;
            Ok(Connection::new(stream, upgrade, self.clock.now_ns()))
        });
        self.opening += 1;
        match begun {
            Ok(connection) => {
                self.connections.push(Some(connection));
                self.opening_order.push_back(id);
            }
            Err(error) => {
                self.connections.push(None);
                self.opening -= 1;
                self.report.faults.add(connect_class(&error), || error.to_string());
            }
        }
        self.expire(load);
    }

    /// Waits until something happens or `deadline_ns` has come (or for a tenth of a second), and deals with it. Between any
    /// two connections the load may send what is due.
    pub(super) fn turn(&mut self, deadline_ns: Option<u64>, load: &mut Load) -> Result<(), Error> {
        self.wait(deadline_ns)?;
        let woke_ns = self.clock.now_ns();
        let mut now_ns = woke_ns;
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        for event in &events {
            if event.token() == TIMER {
                // Taking the expiration off the descriptor is all; that it had one is no news.
                let _ = self.timer.wait();
            } else {
                self.on_event(event.token().0, event.is_writable(), load);
                now_ns = self.clock.now_ns();
                self.report.read_lag.record_ns(now_ns - woke_ns);
            }
            load.pump(self, now_ns);
        }
        self.events = events;
        load.pump(self, now_ns);
        self.expire(load);
        self.beat(load);
        Ok(())
    }

    fn wait(&mut self, deadline_ns: Option<u64>) -> Result<(), Error> {
        let now_ns = self.clock.now_ns();
        let rest_ns = deadline_ns.map_or(TICK_NS, |deadline| deadline.saturating_sub(now_ns)).min(TICK_NS);
        // epoll's own timeout is in whole milliseconds, too coarse for an intended time; the timer is exact.
        if rest_ns > 0 && rest_ns < TICK_NS {
            let rest = TimeSpec::from_duration(Duration::from_nanos(rest_ns));
            let set = self.timer.set(Expiration::OneShot(rest), TimerSetTimeFlags::empty());
            set.map_err(|errno| Error::System(errno.into()))?;
        }
        let timeout = if rest_ns == 0 { Duration::ZERO } else { Duration::from_nanos(TICK_NS) };
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(Error::System(error)),
            _ => Ok(()),
        }
    }

    fn on_event(&mut self, id: usize, writable: bool, load: &mut Load) {
        let Some(connection) = self.connections.get_mut(id).and_then(Option::as_mut) else { return };
        if let Stage::Connecting(upgrade) = &mut connection.stage {
            match connection.stream.connected() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.fail(id, connect_class(&error), error.to_string(), load),
            }
            let request = std::mem::take(&mut upgrade.request);
            let Stage::Connecting(upgrade) = std::mem::replace(&mut connection.stage, Stage::Greeting) else {
                return;
            };
            connection.stage = Stage::Upgrading(upgrade);
            if let Err(error) = connection.send_bytes(&request) {
                return self.fail(id, connect_class(&error), error.to_string(), load);
            }
        } else if writable && let Err(error) = connection.flush() {
            return self.fail(id, broken_class(&error), error.to_string(), load);
        }
        self.read(id, load);
    }

    /// Reads all that has arrived on a connection.
    fn read(&mut self, id: usize, load: &mut Load) {
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
                Err(error) => self.fail(id, broken_class(&error), error.to_string(), load),
            }
        }
        self.buffer = buffer;
    }

    /// Deals with bytes that arrived, after those that waited for them; keeps what is still not complete.
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
            // A frame that is still incomplete stays where it is: however many pieces it comes in, it is copied once.
            pending.drain(..used);
            connection.pending = pending;
        }
    }

    /// Deals with what is complete, first the response to the upgrade, then frames, and returns how many bytes that was.
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
                    Err(refusal) => self.fail(id, refusal_class(&refusal), refusal.to_string(), load),
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
                    .add("garbage", || format!("the server sent what is not {protocol}: {start}"));
            }
        }
    }

    fn subscribe(&mut self, id: usize, now_ns: u64, load: &mut Load) {
        let Some(connection) = self.connections[id].as_mut() else { return };
        if !matches!(connection.stage, Stage::Greeting) {
            return;
        }
        connection.stage = Stage::Subscribing;
        match self.wire.subscribe() {
            Some(text) => self.send(id, Opcode::Text, text.as_bytes(), load),
            None => self.on_subscribed(id, now_ns),
        }
    }

    fn on_subscribed(&mut self, id: usize, now_ns: u64) {
        let Some(connection) = self.connections[id].as_mut() else { return };
        if matches!(connection.stage, Stage::Subscribing) {
            connection.stage = Stage::Subscribed;
            connection.subscribed_ns = now_ns;
            self.report.connect.record_ns(now_ns - connection.begun_ns);
            self.opening -= 1;
            self.subscribed.insert(id);
        }
    }

    /// Sends a message to the server; a connection on which that fails is gone.
    fn send(&mut self, id: usize, opcode: Opcode, payload: &[u8], load: &mut Load) {
        if let Err(error) = self.try_send(id, opcode, payload) {
            self.fail(id, broken_class(&error), error.to_string(), load);
        }
    }

    /// Sends a text to the server.
    pub(super) fn try_send(&mut self, id: usize, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
        let mask = self.random.random();
        match self.connections[id].as_mut() {
            Some(connection) => connection.send(opcode, payload, mask, &mut self.scratch),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// A connection is gone, and why.
    pub(super) fn fail(
        &mut self,
        id: usize,
        class: impl Into<Cow<'static, str>>,
        example: String,
        load: &mut Load,
    ) {
        let Some(connection) = self.connections[id].take() else { return };
        self.report.faults.add(class, || example);
        if connection.is_subscribed() {
            self.report.disconnects += 1;
            self.subscribed.remove(id);
            load.on_gone(id, self.clock.now_ns());
        } else {
            self.opening -= 1;
        }
    }

    /// Gives up on connections that take too long.
    fn expire(&mut self, load: &mut Load) {
        let now_ns = self.clock.now_ns();
        let patience_ns = self.plan.connect_timeout.as_nanos() as u64;
        while let Some(&id) = self.opening_order.front() {
            let waiting = self.connections[id].as_ref().filter(|connection| !connection.is_subscribed());
            let Some(connection) = waiting else {
                self.opening_order.pop_front();
                continue;
            };
            if now_ns - connection.begun_ns < patience_ns {
                return;
            }
            let (class, awaited) = match connection.stage {
                Stage::Connecting(_) => ("connect_timeout", "did not accept the connection"),
                Stage::Upgrading(_) => ("upgrade_timeout", "did not answer the WebSocket upgrade"),
                Stage::Greeting => ("subscribe_timeout", "did not send its welcome"),
                Stage::Subscribing | Stage::Subscribed => {
                    ("subscribe_timeout", "did not confirm the subscription (is the channel's name right?)")
                }
            };
            let text = format!("the server {awaited} within {:?}", self.plan.connect_timeout);
            self.fail(id, class, text, load);
        }
    }

    /// Says on each connection that somebody is there, spread evenly over time.
    fn beat(&mut self, load: &mut Load) {
        let Some(text) = self.wire.heartbeat() else { return };
        let now_ns = self.clock.now_ns();
        let into_round_ns = now_ns - self.heartbeat.round_began_ns;
        let share = (into_round_ns as f64 / HEARTBEAT_NS as f64).min(1.0);
        let due = (share * self.connections.len() as f64) as usize;
        while self.heartbeat.next < due {
            let id = self.heartbeat.next;
            self.heartbeat.next += 1;
            if self.subscribed.contains(id) {
                self.send(id, Opcode::Text, text.as_bytes(), load);
            }
        }
        if into_round_ns >= HEARTBEAT_NS {
            self.heartbeat = Heartbeat { round_began_ns: now_ns, next: 0 };
        }
    }

    /// A random client that takes part.
    pub(super) fn random_client(&self, random: &mut SmallRng) -> Option<usize> {
        if self.subscribed.count() == 0 {
            return None;
        }
        let start = random.random_range(0..self.connections.len());
        if self.subscribed.contains(start) {
            return Some(start);
        }
        // Some are gone. Trying again keeps the choice uniform; the scan ends it when nearly all are.
        let tries = std::iter::repeat_with(|| random.random_range(0..self.connections.len())).take(64);
        let all = (start..self.connections.len()).chain(0..start);
        tries.chain(all).find(|&id| self.subscribed.contains(id))
    }

    /// Takes leave of the server as the protocol wants it.
    pub(super) fn close(mut self) {
        let normal = 1000u16.to_be_bytes();
        for id in 0..self.connections.len() {
            // A connection that breaks now is closed all the same.
            let _ = self.try_send(id, Opcode::Close, &normal);
        }
    }
}

fn refusal_class(refusal: &Refusal) -> Cow<'static, str> {
    match refusal {
        Refusal::Status(status) => format!("upgrade_status_{status}").into(),
        Refusal::Invalid(_) => "upgrade_invalid".into(),
    }
}

/// The class of an error while connecting.
fn connect_class(error: &io::Error) -> &'static str {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::ConnectionRefused, _) => "connect_refused",
        (io::ErrorKind::TimedOut, _) => "connect_timeout",
        (io::ErrorKind::AddrNotAvailable, _) => "no_free_port",
        (_, Some(nix::libc::EMFILE | nix::libc::ENFILE)) => "too_many_files",
        (io::ErrorKind::ConnectionReset, _) => "reset",
        _ => "connect_failed",
    }
}

/// The class of an error on a connection.
fn broken_class(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "reset",
        io::ErrorKind::InvalidData => "tls",
        io::ErrorKind::WriteZero => "server_not_reading",
        io::ErrorKind::UnexpectedEof => "closed",
        io::ErrorKind::TimedOut => "timeout",
        _ => "io",
    }
}
