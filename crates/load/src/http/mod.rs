//! The HTTP driver: users who request a weighted mix of pages, in a closed or an open loop.
//!
//! The seed alone decides which request is the nth ([`row`]); the pace decides who sends it and when. A
//! [`user`] has a connection, cookies and perhaps a login. Everything runs in the calling thread.

mod figures;
mod form;
mod options;
mod pacer;
mod routes;
mod row;
mod settings;
mod template;
mod user;

pub use figures::{Batch, HttpFigures, Problem, RequestFigures, RouteFigures};
pub use options::{Extent, HttpOptions, Pace};
pub use routes::{Body, Login, Route, Routes, Upload, Values};
pub use settings::{PaceSettings, Settings};

use crate::clock::Clock;
use crate::fault::Faults;
use crate::generator::CpuMeter;
use crate::latency::Latency;
use crate::net::limit::{self, FileLimit};
use crate::net::target::{Target, TargetError};
use crate::net::tls::{self, TrustError};
use crate::options::OptionsError;
use crate::progress::{Live, Progress};
use crate::schedule::Schedule;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use row::Row;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinSet, LocalSet};
use user::{Failure, User};

/// Interval between progress reports, each of which also checks for interruption.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// The reason why a run could not take place. Failures of single requests are not errors of the run; they are
/// counted in its [`HttpFigures`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options or the routes are invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The server cannot be reached.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// This process cannot open enough files for the users.
    #[error(transparent)]
    Files(#[from] FileLimit),
    /// No user could log in.
    #[error("no user could log in: {0}")]
    Login(String),
    /// An unexpected failure of a system call.
    #[error("the operating system refused to wait for events: {0}")]
    System(#[from] std::io::Error),
}

/// Runs the requests in the calling thread; `on_batch` receives each batch as it ends.
///
/// # Errors
/// See [`Error`].
pub fn run(
    plan: &HttpOptions,
    progress: &mut impl Progress,
    on_batch: impl FnMut(&Batch),
) -> Result<HttpFigures, Error> {
    plan.check()?;
    limit::allow(u64::from(plan.users()))?;
    for origin in origins(&plan.routes)? {
        Target::find(&origin, ["http", "https"])?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, drive(plan, progress, on_batch))
}

/// Returns the servers of the routes, each once.
fn origins(routes: &Routes) -> Result<Vec<String>, OptionsError> {
    let all = routes.routes.iter().map(|route| Ok(routes.url(&route.path)?.origin().ascii_serialization()));
    let mut all = all.collect::<Result<Vec<_>, OptionsError>>()?;
    all.sort();
    all.dedup();
    Ok(all)
}

async fn drive(
    plan: &HttpOptions,
    progress: &mut impl Progress,
    mut on_batch: impl FnMut(&Batch),
) -> Result<HttpFigures, Error> {
    let cpu = CpuMeter::start();
    let shared = Rc::new(Shared::new(plan));
    progress.phase(&format!("{} users", plan.users()));
    let logins = shared.log_in_all(plan).await?;
    if !plan.warm_up.is_nothing() {
        progress.phase("warming up");
        shared.part(plan, plan.warm_up, progress).await?;
    }
    let mut warm_up_errors = logins;
    warm_up_errors.merge(&shared.take().0.errors);
    let mut routes: Vec<RouteFigures> = plan
        .routes
        .routes
        .iter()
        .map(|route| RouteFigures { name: route.label(), figures: RequestFigures::default() })
        .collect();
    let (mut batches, mut late) = (Vec::new(), Latency::new());
    for number in 1..=plan.batches {
        if progress.interrupted() {
            break;
        }
        progress.phase(&format!("batch {number} of {}", plan.batches));
        let meter = CpuMeter::start();
        shared.part(plan, plan.batch, progress).await?;
        let (_, wall) = meter.read();
        let generator = meter.report(&shared.late.borrow(), &Latency::new());
        late.merge(&shared.late.borrow());
        let (figures, by_route) = shared.take();
        routes.iter_mut().zip(&by_route).for_each(|(all, batch)| all.figures.merge(batch));
        let batch = Batch { figures, duration_s: wall.as_secs_f64(), generator };
        on_batch(&batch);
        batches.push(batch);
    }
    let generator = cpu.report(&late, &Latency::new());
    Ok(HttpFigures { batches, routes, warm_up_errors, generator, interrupted: progress.interrupted() })
}

/// The state shared by the tasks of a run.
struct Shared {
    row: Row,
    /// Number of the next request in the sequence.
    next: Cell<u64>,
    users: RefCell<Vec<User>>,
    /// One permit per free user.
    free: Semaphore,
    clock: Clock,
    stop: Cell<bool>,
    figures: RefCell<Vec<RequestFigures>>,
    late: RefCell<Latency>,
    expect: Vec<Vec<u16>>,
}

impl Shared {
    fn new(plan: &HttpOptions) -> Self {
        Self {
            row: Row::new(plan),
            next: Cell::new(0),
            users: RefCell::new(Vec::new()),
            free: Semaphore::new(0),
            clock: Clock::start(),
            stop: Cell::new(false),
            figures: RefCell::new(vec![RequestFigures::default(); plan.routes.routes.len()]),
            late: RefCell::new(Latency::new()),
            expect: plan.routes.routes.iter().map(|route| route.expect.clone()).collect(),
        }
    }

    /// Creates all users and, if there is a login, logs them in concurrently. Returns the faults of those
    /// that failed.
    async fn log_in_all(self: &Rc<Self>, plan: &HttpOptions) -> Result<Faults, Error> {
        let tls = tls::client_config(&plan.trust)?;
        let mut logins = JoinSet::new();
        for number in 1..=plan.users() {
            let mut user = User::new(plan, tls.as_ref().clone());
            let (login, routes) = (plan.routes.login.clone(), plan.routes.clone());
            logins.spawn_local(async move {
                match login {
                    Some(login) => user.log_in(&routes, &login, number).await.map(|()| user),
                    None => Ok(user),
                }
            });
        }
        let mut faults = Faults::default();
        while let Some(done) = logins.join_next().await {
            match done.map_err(std::io::Error::other)? {
                Ok(user) => self.users.borrow_mut().push(user),
                Err(Failure { class, words }) => faults.add(class, || words),
            }
        }
        let users = self.users.borrow().len();
        if users == 0 {
            let words = faults.iter().next().map_or_else(String::new, |fault| fault.example);
            return Err(Error::Login(words));
        }
        self.free.add_permits(users);
        Ok(faults)
    }

    /// Returns the figures since the last call, in total and by route.
    fn take(&self) -> (RequestFigures, Vec<RequestFigures>) {
        let empty = vec![RequestFigures::default(); self.expect.len()];
        let by_route = self.figures.replace(empty);
        let mut all = RequestFigures::default();
        by_route.iter().for_each(|figures| all.merge(figures));
        (all, by_route)
    }

    /// Sends the requests of one part of the run and waits for the responses.
    async fn part(
        self: &Rc<Self>,
        plan: &HttpOptions,
        extent: Extent,
        progress: &mut impl Progress,
    ) -> Result<(), Error> {
        let first = self.next.get();
        self.stop.set(false);
        *self.late.borrow_mut() = Latency::new();
        let begun_ns = self.clock.now_ns();
        let end = match extent {
            Extent::Requests(count) => End { number: first.saturating_add(count), time_ns: u64::MAX },
            Extent::Time(time) => {
                End { number: u64::MAX, time_ns: begun_ns.saturating_add(time.as_nanos() as u64) }
            }
        };
        let mut tasks = JoinSet::new();
        match plan.pace {
            Pace::Closed { .. } => {
                for _ in 0..self.users.borrow().len() {
                    tasks.spawn_local(Rc::clone(self).closed_user(end));
                }
            }
            Pace::Open { open, .. } => {
                let schedule = Schedule::new(open, begun_ns);
                let random = SmallRng::seed_from_u64(plan.seed);
                let times = pacer::start(self.clock, schedule, random, end.time_ns);
                tasks.spawn_local(Rc::clone(self).open_loop(end, times));
            }
        }
        let mut tick = tokio::time::interval(TELL_EVERY);
        loop {
            tokio::select! {
                done = tasks.join_next() => match done {
                    Some(done) => done.map_err(std::io::Error::other)??,
                    None => return Ok(()),
                },
                _ = tick.tick() => {
                    self.stop.set(progress.interrupted());
                    progress.live(&self.live(extent, begun_ns));
                }
            }
        }
    }

    fn live(&self, extent: Extent, begun_ns: u64) -> Live {
        let mut all = RequestFigures::default();
        self.figures.borrow().iter().for_each(|figures| all.merge(figures));
        let (done, total) = match extent {
            Extent::Requests(count) => (all.requests, count),
            Extent::Time(time) => ((self.clock.now_ns() - begun_ns) / 1_000_000_000, time.as_secs()),
        };
        Live { done, total, latency: Some(("response", all.response.summary())), errors: all.errors.total() }
    }

    /// Returns the next request's number, unless the part is over.
    fn take_number(&self, end: u64) -> Option<u64> {
        let number = self.next.get();
        (!self.stop.get() && number < end).then(|| {
            self.next.set(number + 1);
            number
        })
    }

    /// Runs one user of a closed loop.
    async fn closed_user(self: Rc<Self>, end: End) -> Result<(), Error> {
        let Some(mut user) = self.users.borrow_mut().pop() else { return Ok(()) };
        let mut free_ns = self.clock.now_ns();
        while self.clock.now_ns() < end.time_ns
            && let Some(number) = self.take_number(end.number)
        {
            let sent_ns = self.clock.now_ns();
            self.late.borrow_mut().record_ns(sent_ns - free_ns);
            self.send(&mut user, number, sent_ns).await?;
            free_ns = self.clock.now_ns();
        }
        self.users.borrow_mut().push(user);
        Ok(())
    }

    /// Sends requests at their intended times, whatever their outcome, and finally waits for all of them.
    async fn open_loop(self: Rc<Self>, end: End, mut times: UnboundedReceiver<u64>) -> Result<(), Error> {
        let mut requests = JoinSet::new();
        while let Some(intended_ns) = times.recv().await
            && let Some(number) = self.take_number(end.number)
        {
            self.late.borrow_mut().record_ns(self.clock.now_ns() - intended_ns);
            let shared = Rc::clone(&self);
            requests.spawn_local(async move {
                let _user_is_free = shared.free.acquire().await.map_err(std::io::Error::other)?;
                let Some(mut user) = shared.users.borrow_mut().pop() else { return Ok(()) };
                let sent = shared.send(&mut user, number, intended_ns).await;
                shared.users.borrow_mut().push(user);
                sent
            });
            while let Some(done) = requests.try_join_next() {
                done.map_err(std::io::Error::other)??;
            }
        }
        while let Some(done) = requests.join_next().await {
            done.map_err(std::io::Error::other)??;
        }
        Ok(())
    }

    /// Sends one request and records the result. Time counts from `origin_ns`.
    async fn send(&self, user: &mut User, number: u64, origin_ns: u64) -> Result<(), Error> {
        let request = self.row.request(number, user.csrf.as_deref())?;
        let outcome = user.fetch(&request).await;
        let took_ns = self.clock.now_ns() - origin_ns;
        let figures = &mut self.figures.borrow_mut()[request.route];
        figures.requests += 1;
        match outcome {
            Ok(response) => {
                *figures.statuses.entry(response.status).or_default() += 1;
                figures.body_bytes += response.bytes;
                let expect = &self.expect[request.route];
                if expect.contains(&response.status) || (expect.is_empty() && response.status < 400) {
                    figures.response.record_ns(took_ns);
                } else {
                    let words = || format!("{} {} answered {}", request.method, request.url, response.status);
                    figures.errors.add(format!("status_{}", response.status), words);
                }
            }
            Err(Failure { class, words }) => figures.errors.add(class, || words),
        }
        Ok(())
    }
}

/// The end of a part of a run: before this request, or at this time.
#[derive(Debug, Clone, Copy)]
struct End {
    number: u64,
    time_ns: u64,
}
