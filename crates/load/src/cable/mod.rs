//! The broadcast driver: thousands of WebSocket clients in one thread, which time a broadcast until the last
//! of them has it.
//!
//! A run proceeds in steps. Each step adds clients ([`pool`]), waits until they are subscribed, broadcasts
//! from random ones at the chosen pace ([`load`]), processes what arrives ([`intake`]) and accounts for every
//! delivery ([`tally`]). The protocols are in [`wire`], a single client in [`connection`].

mod class;
mod connection;
mod figures;
mod intake;
mod load;
mod options;
mod pool;
mod settings;
mod tally;
mod waiting;
mod wire;

pub use figures::{CableFigures, Problem, Step};
pub use options::{CableOptions, Pace, Protocol};
pub use settings::{PaceSettings, Settings};

use crate::fault::Faults;
use crate::generator::CpuMeter;
use crate::latency::Latency;
use crate::net::limit::{self, FileLimit};
use crate::net::target::TargetError;
use crate::net::tls::TrustError;
use crate::options::OptionsError;
use crate::progress::{Live, Progress};
use load::Load;
use pool::Pool;
use std::time::Duration;

/// Failed attempts after which a run without a single subscribed client is abandoned.
const HOPELESS: u64 = 50;
/// Interval between progress reports.
const TELL_NS: u64 = 250_000_000;

/// The reason why a run could not take place. Failures of single clients are not errors of the run; they are
/// counted in its [`CableFigures`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options are invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The server cannot be reached.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// This process cannot open enough files for the clients.
    #[error(transparent)]
    Files(#[from] FileLimit),
    /// No client could subscribe.
    #[error("no client could subscribe at {url}: {}", in_words(.faults))]
    Nobody {
        /// The URL as given.
        url: String,
        /// The clients' faults.
        faults: Faults,
    },
    /// An unexpected failure of a system call.
    #[error("the operating system refused to wait for events: {0}")]
    System(std::io::Error),
}

fn in_words(faults: &Faults) -> String {
    let all: Vec<String> =
        faults.iter().map(|fault| format!("{} ({} × {})", fault.example, fault.class, fault.count)).collect();
    if all.is_empty() { "the run was ended before".to_owned() } else { all.join("; ") }
}

/// Runs the broadcasts in the calling thread; `on_step` receives each step as it ends.
///
/// # Errors
/// See [`Error`].
pub fn run(
    plan: &CableOptions,
    progress: &mut impl Progress,
    mut on_step: impl FnMut(&Step),
) -> Result<CableFigures, Error> {
    plan.check()?;
    limit::allow(u64::from(plan.clients))?;
    let run = rand::random::<u32>();
    let mut runner =
        Runner { plan, pool: Pool::new(plan, run)?, load: Load::new(plan.seed), progress, told_ns: 0 };
    let cpu = CpuMeter::start();
    let (mut late, mut read_lag) = (Latency::new(), Latency::new());
    let mut steps = Vec::new();
    for clients in plan.steps() {
        let (step, lag) = runner.step(clients)?;
        late.merge(&runner.load.late);
        read_lag.merge(&lag);
        on_step(&step);
        steps.push(step);
        if runner.progress.interrupted() || runner.pool.subscribed.count() == 0 {
            break;
        }
    }
    runner.hold()?;
    let interrupted = runner.progress.interrupted();
    runner.pool.close();
    Ok(CableFigures { steps, generator: cpu.report(&late, &read_lag), interrupted })
}

/// A run in progress.
struct Runner<'a, P> {
    plan: &'a CableOptions,
    pool: Pool,
    load: Load,
    progress: &'a mut P,
    told_ns: u64,
}

impl<P: Progress> Runner<'_, P> {
    /// Runs one step and returns its figures and the read lag.
    fn step(&mut self, clients: u32) -> Result<(Step, Latency), Error> {
        let start_s = Duration::from_nanos(self.pool.clock.now_ns()).as_secs_f64();
        self.progress.phase(&format!("connecting up to {clients} clients"));
        self.connect(clients)?;
        if self.pool.subscribed.count() == 0 {
            let faults = self.pool.take_report().faults;
            return Err(Error::Nobody { url: self.plan.url.clone(), faults });
        }
        self.idle(self.plan.pause)?;
        // The generator is not judged by its work while connecting.
        let connecting = self.pool.take_report();
        let clients = self.pool.subscribed.count();
        self.progress.phase(&format!("broadcasting to {clients} clients"));
        let cpu = CpuMeter::start();
        let began_ns = self.pool.clock.now_ns();
        self.load.begin(self.plan.pace, self.plan.sample, began_ns);
        self.broadcast()?;
        let ended_ns = self.load.last_receipt_ns;
        let generator = cpu.report(&self.load.late, &self.pool.report().read_lag);
        if self.plan.sample > 0 {
            self.idle(self.plan.settle)?;
        }
        let report = self.pool.take_report();
        let mut step = Step::new(clients, self.load.tally.take());
        step.start_s = start_s;
        step.connect = connecting.connect;
        step.errors.merge(&connecting.faults);
        step.errors.merge(&report.faults);
        step.disconnects = connecting.disconnects + report.disconnects;
        step.duration_s = Duration::from_nanos(ended_ns - began_ns).as_secs_f64();
        step.generator = generator;
        step.acks_ns = std::mem::take(&mut self.load.acks_ns);
        Ok((step, report.read_lag))
    }

    fn connect(&mut self, clients: u32) -> Result<(), Error> {
        loop {
            while self.pool.begun() < clients && self.pool.opening() < self.plan.connecting {
                self.pool.open(&mut self.load);
            }
            let begun = self.pool.begun();
            let failed = u64::from(begun - self.pool.opening() - self.pool.subscribed.count());
            let hopeless = self.pool.subscribed.count() == 0 && failed >= HOPELESS;
            if hopeless || self.progress.interrupted() || (begun == clients && self.pool.opening() == 0) {
                return Ok(());
            }
            self.pool.turn(None, &mut self.load)?;
            self.tell(|runner| Live {
                done: u64::from(runner.pool.subscribed.count()),
                total: u64::from(clients),
                latency: Some(("connect", runner.pool.report().connect.summary())),
                errors: runner.pool.report().faults.total(),
            });
        }
    }

    /// Sends the step's broadcasts and waits until everything has arrived or the time is up.
    fn broadcast(&mut self) -> Result<(), Error> {
        let timeout_ns = self.plan.timeout.as_nanos() as u64;
        loop {
            let now_ns = self.pool.clock.now_ns();
            self.load.write_off(now_ns.saturating_sub(timeout_ns), now_ns);
            if self.progress.interrupted() {
                self.load.stop();
                self.load.write_off(u64::MAX, now_ns);
            }
            self.load.pump(&mut self.pool, now_ns);
            if self.load.remaining() == 0 && self.load.tally.is_settled() {
                return Ok(());
            }
            let overdue_ns = self.load.tally.oldest_sent_ns().map(|sent_ns| sent_ns + timeout_ns + 1);
            let deadline_ns = self.load.due_ns().into_iter().chain(overdue_ns).min();
            self.pool.turn(deadline_ns, &mut self.load)?;
            self.tell(|runner| Live {
                done: runner.load.tally.counts().messages - runner.load.tally.open() as u64,
                total: u64::from(runner.plan.sample),
                latency: Some(("fan-out", runner.load.tally.counts().fan_out.summary())),
                errors: runner.pool.report().faults.total(),
            });
        }
    }

    /// Lets time pass while serving all connections.
    fn idle(&mut self, time: Duration) -> Result<(), Error> {
        let end_ns = self.pool.clock.now_ns() + time.as_nanos() as u64;
        while self.pool.clock.now_ns() < end_ns && !self.progress.interrupted() {
            self.pool.turn(Some(end_ns), &mut self.load)?;
        }
        Ok(())
    }

    fn hold(&mut self) -> Result<(), Error> {
        if !self.plan.hold.is_zero() {
            self.progress.phase(&format!("holding {} idle clients", self.pool.subscribed.count()));
            self.idle(self.plan.hold)?;
        }
        Ok(())
    }

    fn tell(&mut self, live: impl FnOnce(&Self) -> Live) {
        let now_ns = self.pool.clock.now_ns();
        if now_ns - self.told_ns >= TELL_NS {
            self.told_ns = now_ns;
            let live = live(self);
            self.progress.live(&live);
        }
    }
}
