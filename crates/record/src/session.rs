//! A recording from start to end: what is recorded, when it ends, and what is told meanwhile.

use crate::births::Births;
use crate::budget::{Budget, Work};
use crate::clock::{Moment, WallClock};
use crate::deep::{Deep, Done, Job};
use crate::ops::{Op, Out};
use crate::progress::Progress;
use crate::schedule::Schedule;
use crate::tree::Tree;
use crate::{Error, Result, provenance};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::time::{Duration, Instant};
use unbloat_process::cgroup::Cgroup;
use unbloat_process::events::Connector;
use unbloat_process::keeper::{Keeper, Report};
use unbloat_process::signal::{self, Requests};
use unbloat_process::watch::ProcFs;
use unbloat_process::{Error as ProcessError, Pid};
use unbloat_store::{CgroupMemory, Cost, RunId, Writer, rows::monotonic_ns};

/// What is recorded.
#[derive(Debug)]
pub enum Target {
    /// A command that is started for it, and everything below.
    Command(Command),
    /// Processes that run already, and everything below them.
    Attach(Vec<Pid>),
}

/// How it is recorded.
#[derive(Debug, Clone)]
pub struct Options {
    /// Between two samples.
    pub interval: Duration,
    /// Between two censuses, at least.
    pub census_interval: Duration,
    /// CPU seconds a second that the recorder may use (0.02 is 2 % of one core).
    pub budget: f64,
    /// After that the recording ends.
    pub duration: Option<Duration>,
    /// The file is kept below that.
    pub max_bytes: u64,
    /// What was started is left running at the end.
    pub detach: bool,
    /// How long a command that was asked to end may take before it is killed.
    pub grace: Duration,
    /// The run of an experiment that this belongs to.
    pub run: Option<RunId>,
    /// Do not ask the kernel for its process events, even where that is permitted.
    pub look_around_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            interval: Duration::from_millis(100),
            census_interval: Duration::from_secs(10),
            budget: 0.02,
            duration: None,
            max_bytes: 100_000_000,
            detach: false,
            grace: Duration::from_secs(10),
            run: None,
            look_around_only: false,
        }
    }
}

/// How a recording ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Why.
    pub reason: String,
    /// The exit status of the command, as a shell would see it; `None` when there was none, or it still runs.
    pub exit_status: Option<i64>,
    /// Processes that were recorded and still run.
    pub left_running: usize,
}

/// How much time may lie between a sample and its arrival in the file.
const FLUSH: Duration = Duration::from_millis(250);
/// Between two readings of all command lines, which lie in the processes' own memory.
const COMMANDS: Duration = Duration::from_secs(10);
/// Between two looks at what hardly changes: the cgroup, own cost.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// How long the end of a recording waits for a PSS reading or a census in hand.
const LAST_WORK: Duration = Duration::from_secs(5);

/// Records until the tree has ended, the duration is over or someone asks for the end.
///
/// Call it before any thread is started if it is to start a command: see [`Keeper::start`]. `observe` is told of the
/// state after every look; it returns whether to go on.
///
/// # Errors
/// The command cannot be started, none of the processes exists, or the file cannot be written. A command goes on to its
/// end even when the file cannot be written any more.
pub fn record(
    writer: Writer,
    target: Target,
    options: &Options,
    observe: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Outcome> {
    // Before the command starts, so that its first fork is not missed.
    let connector = if options.look_around_only { None } else { Connector::open().ok() };
    let (keeper, roots) = match target {
        Target::Command(command) => {
            (Some(Keeper::start(command, options.detach).map_err(Error::Start)?), Vec::new())
        }
        Target::Attach(roots) => (None, roots),
    };
    signal::survive_file_size_limit();
    let requests = Requests::take_over().map_err(Error::Start)?;
    let mut session = Session::new(writer, keeper, &roots, connector, requests, options)?;
    session.adopt(&roots)?;
    let reason = session.run(observe);
    session.finish(reason, observe)
}

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    TreeEnded,
    Duration,
    Asked,
    WriterFailed,
}

impl Reason {
    fn text(self) -> &'static str {
        match self {
            Reason::TreeEnded => "the last process ended",
            Reason::Duration => "the duration was over",
            Reason::Asked => "it was asked to end",
            Reason::WriterFailed => "the file could not be written",
        }
    }
}

/// A command that has been asked to end.
#[derive(Debug, Clone, Copy)]
struct Stopping {
    reason: Reason,
    kill_at: Instant,
    killed: bool,
}

struct Session<'a> {
    options: &'a Options,
    out: Out,
    tree: Tree,
    deep: Deep,
    keeper: Option<Keeper>,
    root: Option<Pid>,
    root_status: Option<i64>,
    tree_is_empty: bool,
    requests: Requests,
    schedule: Schedule,
    budget: Budget,
    started: Instant,
    started_ns: i64,
    stopping: Option<Stopping>,
    pending: Vec<Op>,
    flushed: Instant,
    kept_house: Instant,
    read_commands: Instant,
    cgroup: Option<Cgroup>,
    wall_clock: WallClock,
    cost: Cost,
    deep_cpu_s: f64,
    other_cpu_s: f64,
    cpu_before_s: f64,
    passed: Instant,
    progress: Progress,
}

impl<'a> Session<'a> {
    fn new(
        writer: Writer,
        keeper: Option<Keeper>,
        roots: &[Pid],
        connector: Option<Connector>,
        requests: Requests,
        options: &'a Options,
    ) -> Result<Self> {
        let proc = ProcFs::default();
        let started_ns = writer.recording().started_monotonic_ns;
        let started = Moment { monotonic_ns: started_ns, wall_ns: writer.recording().started_wall_ns };
        let first = writer.next_process()?;
        let keeper_pid = keeper.as_ref().map(Keeper::pid);
        let births = Births::new(proc.clone(), keeper_pid, roots, connector).map_err(Error::Start)?;
        let mut pending: Vec<Op> =
            provenance::machine().into_iter().map(|(name, value)| Op::Provenance(name, value)).collect();
        let fact = |name: &str, value: String| Op::Provenance(name.to_owned(), value);
        pending.push(fact("interval_s", options.interval.as_secs_f64().to_string()));
        pending.push(fact("census_interval_s", options.census_interval.as_secs_f64().to_string()));
        pending.push(fact("budget", options.budget.to_string()));
        pending.push(fact(
            "processes_heard_of",
            (if births.hears_all() { "all" } else { "looked for" }).to_owned(),
        ));
        let now = Instant::now();
        Ok(Session {
            options,
            out: Out::start(writer, options.run, options.max_bytes).map_err(Error::Start)?,
            tree: Tree::new(proc.clone(), births, first, options.run, keeper_pid, started_ns),
            deep: Deep::start(proc, started_ns).map_err(Error::Start)?,
            keeper,
            root: None,
            root_status: None,
            tree_is_empty: false,
            requests,
            schedule: Schedule::new(now, options.interval),
            budget: Budget::new(options.budget, options.interval, options.census_interval),
            started: now,
            started_ns,
            stopping: None,
            pending,
            // What was found at the start is written at once.
            flushed: now.checked_sub(FLUSH).unwrap_or(now),
            kept_house: now,
            read_commands: now.checked_sub(COMMANDS).unwrap_or(now),
            cgroup: None,
            wall_clock: WallClock::since(started),
            cost: Cost::default(),
            deep_cpu_s: 0.0,
            cpu_before_s: own_cpu_s(),
            other_cpu_s: own_cpu_s(),
            passed: now,
            progress: Progress::default(),
        })
    }

    fn now_ns(&self) -> i64 {
        monotonic_ns() - self.started_ns
    }

    fn adopt(&mut self, roots: &[Pid]) -> Result<()> {
        let now = self.now_ns();
        self.tree.take_in(now, &mut self.pending);
        if self.keeper.is_none() {
            if self.tree.members.is_empty() {
                let pid = roots.first().copied().unwrap_or(Pid(0));
                return Err(Error::Process(ProcessError::Gone { pid }));
            }
            self.describe_root(roots.first().copied());
        }
        Ok(())
    }

    fn describe_root(&mut self, root: Option<Pid>) {
        let Some(root) = root else { return };
        self.root = Some(root);
        self.cgroup = Cgroup::of(root);
        let facts = provenance::process(root).into_iter();
        self.pending.extend(facts.map(|(name, value)| Op::Provenance(name, value)));
    }

    fn run(&mut self, observe: &mut dyn FnMut(&Progress) -> bool) -> Result<Reason> {
        loop {
            self.wait();
            self.hear_keeper()?;
            let now = Instant::now();
            if let Some(reason) = self.hear_requests(now).or_else(|| self.over(now)) {
                return Ok(reason);
            }
            if !self.schedule.take(now) {
                continue;
            }
            self.look(now);
            self.work();
            if now - self.kept_house >= HOUSEKEEPING {
                self.kept_house = now;
                self.keep_house();
            }
            if now - self.flushed >= FLUSH {
                self.flushed = now;
                if !self.flush() {
                    return Ok(Reason::WriterFailed);
                }
            }
            if !observe(&self.progress) {
                self.ask_to_end(Reason::Asked, now);
            }
        }
    }

    /// Until the next look is due, the keeper has a report or someone asks for the end.
    fn wait(&self) {
        let left = self.schedule.due().saturating_duration_since(Instant::now());
        let left =
            self.stopping.map_or(left, |s| left.min(s.kill_at.saturating_duration_since(Instant::now())));
        let mut ready = vec![PollFd::new(self.requests.as_fd(), PollFlags::POLLIN)];
        ready.extend(self.keeper.iter().map(|keeper| PollFd::new(keeper.as_fd(), PollFlags::POLLIN)));
        // ppoll, because poll(2) counts milliseconds. Interrupted or not: the caller looks at what there is.
        let _ = ppoll(&mut ready, Some(TimeSpec::from_duration(left)), None);
    }

    fn hear_keeper(&mut self) -> Result<()> {
        let Some(keeper) = self.keeper.as_mut().filter(|_| !self.tree_is_empty) else { return Ok(()) };
        let reports = keeper.reports().unwrap_or_else(|_| vec![Report::Empty]);
        for report in reports {
            match report {
                Report::NotStarted(errno) => {
                    return Err(Error::NotStarted(std::io::Error::from_raw_os_error(errno)));
                }
                Report::Started(pid) => {
                    let now = self.now_ns();
                    self.tree.started(pid, now, &mut self.pending);
                    self.describe_root(Some(pid));
                    if self.stopping.is_some() {
                        // It was asked to end before there was anybody to ask.
                        let _ = signal::terminate(pid);
                    }
                }
                Report::Ended(ended) => {
                    if Some(ended.pid) == self.root {
                        self.root_status = Some(ended.status);
                        self.progress.command_status = Some(ended.status);
                    }
                    let now = self.now_ns();
                    self.tree.reaped(&ended, now, &mut self.pending);
                }
                Report::Empty => self.tree_is_empty = true,
            }
        }
        Ok(())
    }

    fn hear_requests(&mut self, now: Instant) -> Option<Reason> {
        while let Some(request) = self.requests.next() {
            if self.keeper.is_none() || self.options.detach {
                return Some(Reason::Asked);
            }
            if self.stopping.is_some() {
                // Asked twice.
                self.kill(now);
            } else if request.from_terminal && request.is_interrupt {
                // The terminal has told the command too.
                self.stopping = Some(self.stop(Reason::Asked, now));
            } else {
                self.ask_to_end(Reason::Asked, now);
            }
        }
        None
    }

    fn stop(&self, reason: Reason, now: Instant) -> Stopping {
        Stopping { reason, kill_at: now + self.options.grace, killed: false }
    }

    /// Asks the command to end, or, when it has ended itself, those it has left.
    fn ask_to_end(&mut self, reason: Reason, now: Instant) {
        if self.stopping.is_some() {
            return;
        }
        self.stopping = Some(self.stop(reason, now));
        let root = self.root.filter(|root| self.tree.members.contains_key(root));
        let asked: Vec<Pid> =
            root.map_or_else(|| self.tree.members.keys().copied().collect(), |root| vec![root]);
        for pid in asked {
            // One that has ended meanwhile need not be asked.
            let _ = signal::terminate(pid);
        }
    }

    fn kill(&mut self, now: Instant) {
        if let (Some(keeper), Some(stopping)) = (&self.keeper, &mut self.stopping)
            && !stopping.killed
        {
            keeper.kill();
            (stopping.killed, stopping.kill_at) = (true, now + Duration::from_secs(60));
        }
    }

    /// Whether the recording is over.
    fn over(&mut self, now: Instant) -> Option<Reason> {
        let ended = match &self.keeper {
            Some(_) => self.tree_is_empty,
            None => self.tree.is_empty(),
        };
        if ended {
            return Some(self.stopping.map_or(Reason::TreeEnded, |stopping| stopping.reason));
        }
        if self.stopping.is_some_and(|stopping| now >= stopping.kill_at) {
            self.kill(now);
        }
        // What the command has left behind goes with it when the recording was asked to end.
        if self.stopping.is_some() && self.root.is_some() && self.root_status.is_some() {
            self.kill(now);
        }
        if self.options.duration.is_some_and(|duration| now - self.started >= duration) {
            if self.keeper.is_none() || self.options.detach {
                return Some(Reason::Duration);
            }
            self.ask_to_end(Reason::Duration, now);
        }
        None
    }

    fn look(&mut self, now: Instant) {
        let time_ns = self.now_ns();
        if let Some(moment) = Moment::now().filter(|&moment| self.wall_clock.was_stepped(moment)) {
            self.pending.push(Op::Clock(moment.monotonic_ns - self.started_ns, moment.wall_ns));
        }
        let totals = self.tree.look(time_ns, &mut self.pending);
        self.budget.resize(totals.rss_bytes);
        self.progress.look(now - self.started, totals, &self.tree.members);
    }

    /// Takes in the PSS reading or census in hand, and begins the next one that the budget allows.
    fn work(&mut self) {
        let now = Instant::now();
        if let Some(done) = self.deep.done() {
            self.take_in(done);
        }
        // What the work in hand has used so far is not known before it is done: the account of that time waits for it.
        if self.deep.is_busy() {
            return;
        }
        let elapsed = now - std::mem::replace(&mut self.passed, now);
        let other_cpu_s = own_cpu_s() - self.deep_cpu_s;
        self.budget.pass(elapsed, other_cpu_s - std::mem::replace(&mut self.other_cpu_s, other_cpu_s));
        let Some(work) = self.budget.due().filter(|_| !self.tree.members.is_empty()) else {
            return;
        };
        self.budget.begin(work);
        let processes = self.tree.members.iter().map(|(&pid, member)| (member.id, pid)).collect();
        self.deep.begin(Job { work, processes, keep_open: self.tree.keeps_open() });
    }

    fn take_in(&mut self, done: Done) {
        self.budget.spend(done.work, done.cpu_s);
        self.deep_cpu_s += done.cpu_s;
        match done.work {
            Work::Pss => {
                self.cost.pss_sweeps += 1;
                self.cost.pss_held_s += done.held_s;
                self.progress.pss(done.time_ns, &done.pss);
            }
            Work::Census => {
                self.cost.censuses += u64::from(done.inspected > 0);
                self.cost.census_s += done.cpu_s;
                self.progress.census(done.census);
            }
        }
        self.pending.extend(done.ops);
    }

    fn keep_house(&mut self) {
        let time_ns = self.now_ns();
        if self.read_commands.elapsed() >= COMMANDS {
            self.read_commands = Instant::now();
            self.tree.refresh_commands(time_ns, &mut self.pending);
        }
        if let Some(cgroup) = &self.cgroup {
            self.pending.push(Op::Cgroup(CgroupMemory {
                time_ns,
                path: cgroup.name.clone(),
                current_bytes: cgroup.current_bytes(),
                peak_bytes: cgroup.peak_bytes(),
            }));
        }
        self.account(time_ns);
    }

    fn account(&mut self, time_ns: i64) {
        self.cost.time_ns = time_ns;
        self.cost.cpu_s = own_cpu_s() - self.cpu_before_s;
        self.cost.rss_bytes = ProcFs::default().stat(Pid::this()).ok().map(|stat| stat.rss_bytes);
        (self.cost.ticks, self.cost.late_ticks, self.cost.missed_ticks) =
            (self.schedule.taken, self.schedule.late, self.schedule.missed);
        self.cost.short_lived = self.tree.short_lived;
        self.cost.short_lived_cpu_s = self.tree.short_lived_cpu_s;
        self.progress.cost = self.cost;
        self.pending.push(Op::Cost(self.cost));
    }

    fn flush(&mut self) -> bool {
        self.out.send(std::mem::take(&mut self.pending))
    }

    /// The file cannot be written any more, but the command is not to suffer from that.
    fn let_command_end(&mut self, observe: &mut dyn FnMut(&Progress) -> bool) -> Result<()> {
        self.progress.file_failed = true;
        observe(&self.progress);
        while self.keeper.is_some() && !self.options.detach {
            self.wait();
            self.hear_keeper()?;
            let now = Instant::now();
            if self.hear_requests(now).or_else(|| self.over(now)).is_some() {
                break;
            }
            if self.schedule.take(now) {
                self.pending.clear();
            }
        }
        Ok(())
    }

    fn finish(
        mut self,
        reason: Result<Reason>,
        observe: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<Outcome> {
        if reason.as_ref().is_ok_and(|&reason| reason == Reason::WriterFailed) {
            self.let_command_end(observe)?;
        }
        if let Some(done) = self.deep.end(LAST_WORK) {
            self.take_in(done);
        }
        // Births that came in since the last look, and what is known of the ends.
        let time_ns = self.now_ns();
        self.tree.look(time_ns, &mut self.pending);
        let left_running = self.tree.members.len();
        let started_ns = self.started_ns;
        self.tree.close_all(|| monotonic_ns() - started_ns, &mut self.pending);
        self.account(time_ns);
        self.flush();
        match self.keeper.take() {
            Some(keeper) if self.tree_is_empty => keeper.join(),
            Some(keeper) if self.options.detach => keeper.let_go(),
            // Dropping it makes it kill what is left.
            Some(_) | None => {}
        }
        let (writer, written) = self.out.end().ok_or(Error::Crashed)?;
        let reason = reason?;
        written?;
        writer.finish(time_ns, reason.text(), self.root_status)?;
        Ok(Outcome { reason: reason.text().to_owned(), exit_status: self.root_status, left_running })
    }
}

/// CPU seconds of this process, all threads.
fn own_cpu_s() -> f64 {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map_or(0.0, |t| t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9)
}
