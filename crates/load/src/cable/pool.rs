//! All connections of a run in one thread: opening, receiving, sending, timing out.
//!
//! One epoll instance, edge-triggered; each connection is registered once. A delivery costs one `recv`, one
//! clock read and a comparison of bytes (see `intake`).

use super::Error;
use super::class;
use super::connection::{Connection, Stage};
use super::load::Load;
use super::options::CableOptions;
use super::tally::Members;
use super::waiting::{Waiting, Woken};
use super::wire::Wire;
use crate::clock::Clock;
use crate::fault::Faults;
use crate::latency::Latency;
use crate::net::{stream, target::Target, tls};
use crate::options::OptionsError;
use crate::ws::frame::Opcode;
use crate::ws::upgrade::Upgrade;
use mio::Token;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use rustls::ClientConfig;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Size of the buffer that all connections read through.
const BUFFER: usize = 64 << 10;
/// Interval within which every connection sends its heartbeat, if the protocol has one (Phoenix times out
/// after 60 s).
const HEARTBEAT_NS: u64 = 25_000_000_000;

/// The connections of a run.
pub(super) struct Pool {
    pub(super) plan: CableOptions,
    headers: Vec<(String, String)>,
    target: Target,
    tls: Option<Arc<ClientConfig>>,
    pub(super) wire: Wire,
    pub(super) clock: Clock,
    waiting: Waiting,
    /// Connections by token. Tokens are not reused, so a stale event cannot hit another connection.
    pub(super) connections: Vec<Option<Connection>>,
    /// The subscribed clients.
    pub(super) subscribed: Members,
    /// Connection attempts, oldest first. Successful ones stay in the queue until they reach its front.
    opening_order: VecDeque<usize>,
    opening: u32,
    /// Events since the last [`Pool::take_report`].
    pub(super) report: Report,
    heartbeat: Heartbeat,
    pub(super) buffer: Vec<u8>,
    scratch: Vec<u8>,
    random: SmallRng,
}

/// The events of a step on all connections.
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
    pub(super) fn new(plan: &CableOptions, run: u32) -> Result<Self, Error> {
        let wire = Wire::new(plan, run)?;
        let target = Target::find(&plan.url, ["ws", "wss"])?;
        let tls = if target.tls_name.is_some() { Some(tls::client_config(&plan.trust)?) } else { None };
        let headers = plan.all_headers();
        Upgrade::new(&plan.url, plan.protocol.subprotocol(), &headers).map_err(OptionsError)?;
        Ok(Self {
            plan: plan.clone(),
            headers,
            target,
            tls,
            wire,
            clock: Clock::start(),
            waiting: Waiting::new().map_err(Error::System)?,
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

    /// Returns the number of connections started.
    pub(super) fn begun(&self) -> u32 {
        self.connections.len() as u32
    }

    /// Returns the number of connections still being opened.
    pub(super) fn opening(&self) -> u32 {
        self.opening
    }

    /// Returns the events since the last call.
    pub(super) fn take_report(&mut self) -> Report {
        std::mem::take(&mut self.report)
    }

    /// Returns the events since the last [`Self::take_report`].
    pub(super) fn report(&self) -> &Report {
        &self.report
    }

    /// Starts one more connection.
    pub(super) fn open(&mut self, load: &mut Load) {
        let id = self.connections.len();
        let source = (!self.plan.sources.is_empty()).then(|| self.plan.sources[id % self.plan.sources.len()]);
        // The URL and the headers were validated when the pool was created.
        let upgrade = Upgrade::new(&self.plan.url, self.plan.protocol.subprotocol(), &self.headers);
        let begun = upgrade.map_err(io::Error::other).and_then(|upgrade| {
            let mut stream = stream::connect(&self.target, self.tls.as_ref(), source)?;
            stream.register(self.waiting.registry(), Token(id))?;
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
                self.report.faults.add(class::of_connecting(&error), || error.to_string());
            }
        }
        self.expire(load);
    }

    /// Waits until something happens or `deadline_ns` has come (or for a tenth of a second), and handles it.
    /// Between any two connections the load may send what is due.
    pub(super) fn turn(&mut self, deadline_ns: Option<u64>, load: &mut Load) -> Result<(), Error> {
        let woken = self.waiting.wait(self.clock, deadline_ns, load.gathering_ns());
        let Woken { events, since_ns } = woken.map_err(Error::System)?;
        let mut now_ns = self.clock.now_ns();
        for event in &events {
            if !self.waiting.is_timer(event.token()) {
                self.on_event(event.token().0, event.is_writable(), load);
                now_ns = self.clock.now_ns();
                self.report.read_lag.record_ns(now_ns - since_ns);
            }
            load.pump(self, now_ns);
        }
        self.waiting.take_back(events);
        load.pump(self, now_ns);
        self.expire(load);
        self.beat(load);
        Ok(())
    }

    fn on_event(&mut self, id: usize, writable: bool, load: &mut Load) {
        let Some(connection) = self.connections.get_mut(id).and_then(Option::as_mut) else { return };
        if let Stage::Connecting(upgrade) = &mut connection.stage {
            match connection.stream.connected() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.fail(id, class::of_connecting(&error), error.to_string(), load),
            }
            let request = std::mem::take(&mut upgrade.request);
            let Stage::Connecting(upgrade) = std::mem::replace(&mut connection.stage, Stage::Greeting) else {
                return;
            };
            connection.stage = Stage::Upgrading(upgrade);
            if let Err(error) = connection.send_bytes(&request) {
                return self.fail(id, class::of_connecting(&error), error.to_string(), load);
            }
        } else if writable && let Err(error) = connection.flush() {
            return self.fail(id, class::of_breaking(&error), error.to_string(), load);
        }
        self.read(id, load);
    }

    pub(super) fn subscribe(&mut self, id: usize, now_ns: u64, load: &mut Load) {
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

    pub(super) fn on_subscribed(&mut self, id: usize, now_ns: u64) {
        let Some(connection) = self.connections[id].as_mut() else { return };
        if matches!(connection.stage, Stage::Subscribing) {
            connection.stage = Stage::Subscribed;
            connection.subscribed_ns = now_ns;
            self.report.connect.record_ns(now_ns - connection.begun_ns);
            self.opening -= 1;
            self.subscribed.insert(id);
        }
    }

    /// Sends a message to the server; if that fails, the connection counts as gone.
    pub(super) fn send(&mut self, id: usize, opcode: Opcode, payload: &[u8], load: &mut Load) {
        if let Err(error) = self.try_send(id, opcode, payload) {
            self.fail(id, class::of_breaking(&error), error.to_string(), load);
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

    /// Records that a connection failed, and why.
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

    /// Sends heartbeats on all connections, spread evenly over time.
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

    /// Picks a random subscribed client.
    pub(super) fn random_client(&self, random: &mut SmallRng) -> Option<usize> {
        if self.subscribed.count() == 0 {
            return None;
        }
        let start = random.random_range(0..self.connections.len());
        if self.subscribed.contains(start) {
            return Some(start);
        }
        // Some clients are gone. Retrying keeps the choice uniform; a scan ends it when nearly all are gone.
        let tries = std::iter::repeat_with(|| random.random_range(0..self.connections.len())).take(64);
        let all = (start..self.connections.len()).chain(0..start);
        tries.chain(all).find(|&id| self.subscribed.contains(id))
    }

    /// Closes the connections as the protocol demands.
    pub(super) fn close(mut self) {
        let normal = 1000u16.to_be_bytes();
        for id in 0..self.connections.len() {
            // A connection that fails now is closed anyway.
            let _ = self.try_send(id, Opcode::Close, &normal);
        }
    }
}
