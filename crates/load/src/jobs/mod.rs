//! The jobs driver: pushes real Sidekiq jobs into Redis ([`sidekiq`]) and determines from outside how long
//! they waited and ran ([`watch`]). The application needs nothing but the job's class.

mod figures;
mod options;
mod settings;
mod sidekiq;
mod watch;

pub use figures::{JobsFigures, Problem};
pub use options::{JobsOptions, Pace};
pub use settings::{PaceSettings, Settings};

use crate::clock::Clock;
use crate::fault::Faults;
use crate::generator::CpuMeter;
use crate::latency::Latency;
use crate::options::OptionsError;
use crate::progress::{Live, Progress};
use crate::schedule::Schedule;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use sidekiq::{BULK, Sidekiq, Workers};
use std::time::{Duration, Instant};
use watch::Watch;

/// Maximum time for a freshly started Sidekiq to register.
const REGISTERED_WITHIN: Duration = Duration::from_secs(10);
/// Interval between checks for failed jobs, each with a progress report.
const TELL_NS: u64 = 250_000_000;
/// Number of checks from which the number of idle threads is derived: they span more than the two seconds
/// after which a `BRPOP` is renewed.
const IDLE_LOOKS: u32 = 30;

/// The reason why a run could not take place. Failures of single jobs are not errors of the run; they are
/// counted in its [`JobsFigures`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options are invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The URL is invalid.
    #[error(
        "{url} is not a Redis URL: {cause}. Write redis://HOST:PORT/DATABASE or \
        redis+unix:///PATH?db=DATABASE"
    )]
    Url {
        /// The URL as given.
        url: String,
        /// The problem with it.
        cause: String,
    },
    /// Nothing listens there, or access was denied.
    #[error("cannot connect to the Redis at {url}: {cause}. Check that it runs, and the password in the URL")]
    Connect {
        /// The URL as given, without the password.
        url: String,
        /// The message of Redis or the system.
        cause: redis::RedisError,
    },
    /// Redis refused a command.
    #[error("Redis refused a command: {0}. Is this the Redis that Sidekiq works from?")]
    Redis(#[from] redis::RedisError),
    /// No Sidekiq works from this Redis.
    #[error(
        "no Sidekiq process is registered in the Redis at {0}. Start it, or check the database's number in the URL"
    )]
    NoSidekiq(String),
    /// No process serves the queue.
    #[error(
        "no Sidekiq process serves the queue '{queue}'; they serve {served}. Give --queue, or start one with -q {queue}"
    )]
    NoQueue {
        /// The queue.
        queue: String,
        /// The queues that are served.
        served: String,
    },
    /// The queue holds other jobs.
    #[error(
        "the queue '{queue}' already contains {waiting} jobs, so ours could not be distinguished. Wait \
        until it is empty, or use another queue"
    )]
    NotEmpty {
        /// The queue.
        queue: String,
        /// Number of those jobs.
        waiting: u64,
    },
    /// All threads are busy.
    #[error(
        "no Sidekiq thread is waiting for a job: {0} threads are registered, and all are busy. Wait until \
        they are idle"
    )]
    Busy(u64),
}

/// Runs the jobs in the calling thread.
///
/// # Errors
/// See [`Error`].
pub fn run(plan: &JobsOptions, progress: &mut impl Progress) -> Result<JobsFigures, Error> {
    plan.check()?;
    let mut sidekiq = Sidekiq::connect(plan, rand::random())?;
    let workers = registered(&mut sidekiq)?;
    check_workers(plan, &workers)?;
    let idle = idle_threads(plan, &mut sidekiq, &workers)?;
    progress.phase(&format!("{} jobs for {} threads", plan.jobs, workers.threads));
    let cpu = CpuMeter::start();
    let clock = Clock::start();
    let mut runner = Runner {
        plan,
        sidekiq,
        clock,
        watch: Watch::new(idle, clock.now_ns()),
        late: Latency::new(),
        failed: Faults::default(),
        told_ns: 0,
        progress,
    };
    runner.drive()?;
    let withdrawn = if runner.watch.is_done() { 0 } else { runner.sidekiq.withdraw()? };
    runner.look_for_failed()?;
    let interrupted = runner.progress.interrupted();
    let Runner { watch, late, failed, .. } = runner;
    let duration_ns = watch.first_taken_ns.map_or(0, |first_ns| watch.last_change_ns - first_ns);
    Ok(JobsFigures {
        pushed: watch.pushed,
        taken: watch.taken,
        ended: watch.ended,
        failed: failed.total(),
        withdrawn,
        queue: watch.queue,
        run: watch.run,
        resolution: watch.resolution,
        duration_s: Duration::from_nanos(duration_ns).as_secs_f64(),
        processes: workers.processes,
        threads: workers.threads,
        errors: failed,
        generator: cpu.report(&late, &Latency::new()),
        interrupted,
    })
}

/// Returns the registered workers. Sidekiq registers with its first heartbeat, some time after it has started
/// to work.
fn registered(sidekiq: &mut Sidekiq) -> Result<Workers, Error> {
    let deadline = Instant::now() + REGISTERED_WITHIN;
    loop {
        let workers = sidekiq.workers()?;
        if workers.processes > 0 || Instant::now() >= deadline {
            return Ok(workers);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn check_workers(plan: &JobsOptions, workers: &Workers) -> Result<(), Error> {
    if workers.processes == 0 {
        return Err(Error::NoSidekiq(sidekiq::without_password(&plan.url)));
    }
    if !workers.queues.is_empty() && !workers.queues.contains(&plan.queue) {
        return Err(Error::NoQueue { queue: plan.queue.clone(), served: workers.queues.join(", ") });
    }
    Ok(())
}

/// Returns the number of clients that block in this Redis when there is nothing to do.
fn idle_threads(plan: &JobsOptions, sidekiq: &mut Sidekiq, workers: &Workers) -> Result<u64, Error> {
    let mut idle = 0;
    for _ in 0..IDLE_LOOKS {
        let look = sidekiq.look()?;
        if look.waiting > 0 {
            return Err(Error::NotEmpty { queue: plan.queue.clone(), waiting: look.waiting });
        }
        idle = idle.max(look.blocked);
        std::thread::sleep(Duration::from_millis(10));
    }
    if idle == 0 { Err(Error::Busy(workers.threads)) } else { Ok(idle) }
}

/// A run in progress.
struct Runner<'a, P> {
    plan: &'a JobsOptions,
    sidekiq: Sidekiq,
    clock: Clock,
    watch: Watch,
    late: Latency,
    failed: Faults,
    told_ns: u64,
    progress: &'a mut P,
}

impl<P: Progress> Runner<'_, P> {
    /// Pushes and watches until everything is done, nothing happens any more, or the user interrupts.
    fn drive(&mut self) -> Result<(), Error> {
        let timeout_ns = self.plan.timeout.as_nanos() as u64;
        let mut random = SmallRng::seed_from_u64(self.plan.seed);
        let mut schedule = match self.plan.pace {
            Pace::Drain => None,
            Pace::Open(open) => Some(Schedule::new(open, self.clock.now_ns())),
        };
        loop {
            let due_ns = match &mut schedule {
                _ if self.watch.pushed == u64::from(self.plan.jobs) => None,
                None => Some(self.push_bulk()?),
                Some(schedule) => Some(self.push_due(schedule, &mut random)?),
            };
            let look = self.sidekiq.look()?;
            self.watch.looked(look, self.clock.now_ns());
            let now_ns = self.clock.now_ns();
            let all_pushed = self.watch.pushed == u64::from(self.plan.jobs);
            let stuck =
                !self.watch.is_done() && now_ns.saturating_sub(self.watch.last_change_ns) > timeout_ns;
            if (all_pushed && self.watch.is_done()) || stuck || self.progress.interrupted() {
                return Ok(());
            }
            self.tell(now_ns)?;
            let next_look_ns = now_ns + self.plan.look_every.as_nanos() as u64;
            let wake_ns = due_ns.map_or(next_look_ns, |due_ns| due_ns.min(next_look_ns));
            std::thread::sleep(Duration::from_nanos(wake_ns.saturating_sub(self.clock.now_ns())));
        }
    }

    /// Pushes the next bulk and returns when the following one is due, which is at once.
    fn push_bulk(&mut self) -> Result<u64, Error> {
        let first = self.watch.pushed as u32;
        let count = (self.plan.jobs - first).min(BULK as u32);
        let now_ns = self.clock.now_ns();
        self.sidekiq.push(first + 1..first + count + 1)?;
        self.watch.pushed(count, now_ns);
        Ok(now_ns)
    }

    /// Pushes the jobs that are due and returns when the next one is.
    fn push_due(&mut self, schedule: &mut Schedule, random: &mut SmallRng) -> Result<u64, Error> {
        while schedule.next_ns() <= self.clock.now_ns() && self.watch.pushed < u64::from(self.plan.jobs) {
            let intended_ns = schedule.next_ns();
            let number = self.watch.pushed as u32 + 1;
            self.late.record_ns(self.clock.now_ns() - intended_ns);
            self.sidekiq.push(number..number + 1)?;
            self.watch.pushed(1, intended_ns);
            schedule.advance(random);
        }
        Ok(schedule.next_ns())
    }

    fn tell(&mut self, now_ns: u64) -> Result<(), Error> {
        if now_ns - self.told_ns < TELL_NS {
            return Ok(());
        }
        self.told_ns = now_ns;
        self.look_for_failed()?;
        self.progress.live(&Live {
            done: self.watch.ended,
            total: u64::from(self.plan.jobs),
            latency: Some(("queue", self.watch.queue.summary())),
            errors: self.failed.total(),
        });
        Ok(())
    }

    fn look_for_failed(&mut self) -> Result<(), Error> {
        for failed in self.sidekiq.take_failed()? {
            self.failed.add(failed.class, || failed.message);
        }
        Ok(())
    }
}
