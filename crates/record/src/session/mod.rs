//! Runs a recording from start to end: the work of each tick, and the steps at the end.
//!
//! | module | concept |
//! |---|---|
//! | `options` | options and ending |
//! | `supervision` | the end of a recording, and of its command |
//! | `readings` | PSS, the census and looks at Rubies, within the budget |
//! | `own_cost` | the cost of the recording itself |

mod options;
mod own_cost;
mod readings;
mod supervision;

use crate::births::Births;
use crate::budget::Work;
use crate::clock::{Moment, WallClock};
use crate::ops::Op;
use crate::progress::Progress;
use crate::reading::{Reading, ReadingThread};
use crate::schedule::Schedule;
use crate::tree::Tree;
use crate::writing::Out;
use crate::{Error, Result, provenance};
pub use options::{Ending, Options, Target};
use own_cost::OwnCost;
use readings::Readings;
use std::time::{Duration, Instant};
use supervision::{Reason, Supervision};
use unbloat_process::cgroup::Cgroup;
use unbloat_process::events::Connector;
use unbloat_process::keeper::{Hearing, Keeper, Report};
use unbloat_process::signal::{self, Requests};
use unbloat_process::watch::ProcFs;
use unbloat_process::{Error as ProcessError, Pid};
use unbloat_recording::{CgroupMemory, Key};
use unbloat_store::{Writer, clock::monotonic_ns};

/// Maximum time between a sample and its arrival in the file.
const FLUSH: Duration = Duration::from_millis(250);
/// Interval between readings of all command lines, which lie in the processes' own memory.
const COMMANDS: Duration = Duration::from_secs(10);
/// Interval between readings of slowly changing figures: the cgroup, our own cost.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// Records until the tree has ended, the duration has passed, or the end is requested.
///
/// To start a command, call this before any thread is started: see [`Keeper::start`]. `observe` receives the
/// state after every look.
///
/// # Errors
/// The command cannot be started, none of the processes exists, or the file cannot be written. A command
/// continues to its end even if the file can no longer be written.
pub fn record(
    writer: Writer,
    target: Target,
    options: &Options,
    observe: &mut dyn FnMut(&Progress),
) -> Result<Ending> {
    // Before the command starts, so that its first fork is not missed.
    let connector = if options.scan_only { None } else { Connector::open().ok() };
    let (keeper, roots) = match target {
        Target::Command(command) => (
            Some(Keeper::start(command, options.detach, Hearing::AsInherited).map_err(Error::Start)?),
            Vec::new(),
        ),
        Target::Attach(roots) => (None, roots),
    };
    if let Some(keeper) = &keeper {
        keeper.outlives_crashes();
    }
    signal::survive_file_size_limit();
    let requests = Requests::take_over().map_err(Error::Start)?;
    let supervision = Supervision::new(keeper, requests, options);
    let mut session = Session::new(writer, supervision, &roots, connector, options)?;
    session.adopt(&roots)?;
    let reason = session.run(observe);
    session.finish(reason, observe)
}

struct Session {
    out: Out,
    tree: Tree,
    readings: Readings,
    supervision: Supervision,
    schedule: Schedule,
    started: Instant,
    started_ns: i64,
    /// Changes waiting to be handed to the writer.
    pending: Vec<Op>,
    flushed: Instant,
    kept_house: Instant,
    read_commands: Instant,
    cgroup: Option<Cgroup>,
    wall_clock: WallClock,
    own_cost: OwnCost,
    progress: Progress,
}

impl Session {
    fn new(
        writer: Writer,
        supervision: Supervision,
        roots: &[Pid],
        connector: Option<Connector>,
        options: &Options,
    ) -> Result<Self> {
        let proc = ProcFs::default();
        let started_ns = writer.header().started_monotonic_ns;
        let started = Moment { monotonic_ns: started_ns, wall_ns: writer.header().started_wall_ns };
        let first = writer.next_process()?;
        let keeper_pid = supervision.keeper_pid();
        let births = Births::new(proc.clone(), keeper_pid, roots, connector).map_err(Error::Start)?;
        let pending = described(options, births.kernel_reports_all());
        let own_cost = OwnCost::new();
        let now = Instant::now();
        Ok(Session {
            out: Out::start(writer, options.max_bytes).map_err(Error::Start)?,
            tree: Tree::new(proc.clone(), births, first, keeper_pid, started_ns),
            readings: Readings::new(ReadingThread::start(proc, started_ns).map_err(Error::Start)?, options),
            supervision,
            schedule: Schedule::new(now, options.interval),
            started: now,
            started_ns,
            pending,
            // The findings at the start are written at once.
            flushed: now.checked_sub(FLUSH).unwrap_or(now),
            kept_house: now,
            read_commands: now.checked_sub(COMMANDS).unwrap_or(now),
            cgroup: None,
            wall_clock: WallClock::since(started),
            own_cost,
            progress: Progress::default(),
        })
    }

    fn now_ns(&self) -> i64 {
        monotonic_ns() - self.started_ns
    }

    /// Adds the processes found at the start.
    fn adopt(&mut self, roots: &[Pid]) -> Result<()> {
        let now = self.now_ns();
        self.tree.take_in(now, &mut self.pending);
        if self.supervision.keeper_pid().is_none() {
            let first = roots.first().copied();
            if self.tree.members.is_empty() {
                return Err(Error::Process(ProcessError::Gone { pid: first.unwrap_or(Pid(0)) }));
            }
            first.into_iter().for_each(|root| self.describe(root));
        }
        Ok(())
    }

    /// Records the root of the tree in the file, and starts to follow its cgroup.
    fn describe(&mut self, root: Pid) {
        self.cgroup = Cgroup::of(root);
        let facts = provenance::process(root).into_iter();
        self.pending.extend(facts.map(|(name, value)| Op::Provenance(name, value)));
    }

    fn run(&mut self, observe: &mut dyn FnMut(&Progress)) -> Result<Reason> {
        loop {
            self.supervision.wait(self.schedule.due());
            self.keeper_reports()?;
            let now = Instant::now();
            if let Some(reason) = self.supervision.end_reason(&self.tree, now) {
                return Ok(reason);
            }
            if !self.schedule.take(now) {
                continue;
            }
            self.look(now);
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
            observe(&self.progress);
        }
    }

    fn keeper_reports(&mut self) -> Result<()> {
        for report in self.supervision.keeper_reports()? {
            let now = self.now_ns();
            match report {
                Report::Started(pid) => {
                    self.tree.started(pid, now, &mut self.pending);
                    self.describe(pid);
                }
                Report::Ended(ended) => self.tree.reaped(&ended, now, &mut self.pending),
                Report::NotStarted(_) | Report::Empty => {}
            }
        }
        self.progress.command_status = self.supervision.exit_status();
        Ok(())
    }

    /// Samples the whole tree, and the composition of memory if that is due.
    fn look(&mut self, now: Instant) {
        let time_ns = self.now_ns();
        if let Some(moment) = Moment::now().filter(|&moment| self.wall_clock.was_stepped(moment)) {
            self.pending.push(Op::Clock(moment.monotonic_ns - self.started_ns, moment.wall_ns));
        }
        let totals = self.tree.look(time_ns, &mut self.pending);
        self.progress.look(now - self.started, totals, &self.tree.members);
        if let Some(done) = self.readings.step(&self.tree, totals.rss_bytes) {
            self.take_in(done);
        }
    }

    fn take_in(&mut self, reading: Reading) {
        self.own_cost.add(&reading);
        match reading.work {
            Work::Pss => self.progress.pss(reading.time_ns, &reading.pss),
            Work::Census => self.progress.census(reading.census),
            Work::Classes | Work::Holders => {}
        }
        self.pending.extend(reading.ops);
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
        self.progress.cost = self.own_cost.up_to(time_ns, &self.schedule, &self.tree);
        self.pending.push(Op::Cost(self.progress.cost));
    }

    /// Hands the pending changes to the writer; `false` if it has failed.
    fn flush(&mut self) -> bool {
        self.out.send(std::mem::take(&mut self.pending))
    }

    /// Lets the command run to its end although the file can no longer be written.
    fn let_command_end(&mut self, observe: &mut dyn FnMut(&Progress)) -> Result<()> {
        self.progress.file_failed = true;
        observe(&self.progress);
        while self.supervision.owns_command() {
            self.supervision.wait(self.schedule.due());
            self.keeper_reports()?;
            let now = Instant::now();
            if self.supervision.end_reason(&self.tree, now).is_some() {
                break;
            }
            if self.schedule.take(now) {
                self.pending.clear();
            }
        }
        Ok(())
    }

    fn finish(mut self, reason: Result<Reason>, observe: &mut dyn FnMut(&Progress)) -> Result<Ending> {
        if reason.as_ref().is_ok_and(|&reason| reason == Reason::WriterFailed) {
            self.let_command_end(observe)?;
        }
        if let Some(done) = self.readings.end() {
            self.take_in(done);
        }
        // Births since the last look, and facts about the ends.
        let time_ns = self.now_ns();
        self.tree.look(time_ns, &mut self.pending);
        let left_running = self.tree.members.len();
        let started_ns = self.started_ns;
        self.tree.close_all(|| monotonic_ns() - started_ns, &mut self.pending);
        self.account(time_ns);
        self.flush();
        self.supervision.release();
        let exit_status = self.supervision.exit_status();
        let (writer, written) = self.out.end().ok_or(Error::Crashed)?;
        let reason = reason?;
        written?;
        writer.finish(time_ns, reason.text(), exit_status)?;
        Ok(Ending { reason: reason.text().to_owned(), exit_status, left_running })
    }
}

/// Returns facts about the machine and about the mode of recording.
fn described(options: &Options, kernel_reports_all: bool) -> Vec<Op> {
    let seconds = |interval: Duration| interval.as_secs_f64().to_string();
    let own = [
        (Key::IntervalS, options.interval.as_secs_f64().to_string()),
        (Key::CensusIntervalS, options.census_interval.as_secs_f64().to_string()),
        (Key::ClassIntervalS, options.class_interval.map_or_else(|| "never".to_owned(), seconds)),
        (Key::Budget, options.budget.to_string()),
        (Key::ProcessesHeardOf, (if kernel_reports_all { "all" } else { "looked for" }).to_owned()),
    ];
    let facts = provenance::machine().into_iter().chain(own);
    facts.map(|(key, value)| Op::Provenance(key.name().to_owned(), value)).collect()
}
