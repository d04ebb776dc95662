//! Watches running processes without recording them: a thread keeps their latest readings, within a budget.
//!
//! ```text
//! list: which processes, their RSS ─► turns: whose reading is the most overdue ─► purse: affordable? ─► reading ─► snapshot
//! ```
//!
//! Unlike a recording, which reads a whole tree at one moment, the monitor reads one process at a time, so that a
//! hundred of them cost no more than one: they are only read less often. Each figure carries the time of its reading.
//! Readers get the latest snapshot and wait for nothing.
//!
//! | module | concept |
//! |---|---|
//! | `snapshot` | the latest readings |
//! | `place` | pod, container and unit, from the control group |
//! | `role` | the role, from the title |
//! | `watching` | the thread's state: the list of processes, and whose turn it is |
//! | `member` | a watched process between two readings |
//! | `purse` | the CPU time for readings |
//! | `reading` | one reading of one process |

mod member;
mod place;
mod purse;
mod reading;
mod role;
mod snapshot;
mod watching;

pub use place::{CONTAINER_DIGITS, Place};
pub use role::Role;
pub use snapshot::{Cost, Counters, Identity, Look, Memory, Seen, Snapshot, Taken};

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use unbloat_process::Pid;
use watching::Watching;

/// Options of a monitor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Interval between lists of processes, with their RSS.
    pub interval: Duration,
    /// Minimum interval between readings of PSS and USS of a process.
    pub pss_interval: Duration,
    /// Minimum interval between looks into a process.
    pub look_interval: Duration,
    /// Share of one core for everything; with 0 there is no PSS and no look.
    pub budget: f64,
}

/// A running process that may be selected.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// The process.
    pub pid: Pid,
    /// Its short name.
    pub name: &'a str,
    /// Its command line or title; its short name if it has none.
    pub command: &'a str,
    /// The file name of its program, if it may be known.
    pub program: Option<&'a str>,
    /// The name of its control group, if it has one.
    pub cgroup: Option<&'a str>,
    /// This process descends from it.
    pub is_ancestor: bool,
}

/// Decides which processes are watched. Their descendants are, too.
pub type Selects = Box<dyn Fn(&Candidate<'_>) -> bool + Send>;

/// A thread that watches processes until it is dropped.
#[derive(Debug)]
pub struct Monitor {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    latest: Mutex<Arc<Snapshot>>,
    ended: Mutex<bool>,
    end: Condvar,
}

/// Time between two looks at the turns.
const TICK: Duration = Duration::from_millis(200);

impl Monitor {
    /// Starts the thread.
    ///
    /// # Errors
    /// The kernel allows no more threads.
    pub fn start(selects: Selects, options: Options) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new().name("monitor".into()).spawn(move || {
            let mut watching = Watching::new(selects, options);
            while !of_thread.has_ended(Duration::ZERO) {
                if let Some(snapshot) = watching.step(TICK / 2) {
                    *of_thread.latest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
                }
                if of_thread.has_ended(TICK) {
                    return;
                }
            }
        })?;
        Ok(Monitor { shared })
    }

    /// Returns the latest readings. Does not wait for a reading in progress.
    #[must_use]
    pub fn latest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // A look in progress ends by its own deadline, or with this process.
        *self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.end.notify_all();
    }
}

impl Shared {
    /// Returns whether the monitor was dropped; waits for that up to `patience`.
    fn has_ended(&self, patience: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.end.wait_timeout_while(ended, patience, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use unbloat_test_support::{Compiler, Program, Target, c_program};

    const OPTIONS: Options = Options {
        interval: Duration::from_millis(50),
        pss_interval: Duration::from_millis(50),
        look_interval: Duration::from_millis(50),
        budget: 1.0,
    };

    /// Waits for a snapshot that satisfies a condition.
    fn until(monitor: &Monitor, satisfied: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        for _ in 0..6000 {
            let snapshot = monitor.latest();
            if satisfied(&snapshot) {
                return snapshot;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("never: {:#?}", monitor.latest());
    }

    #[test]
    fn a_process_is_watched_from_its_start_to_its_end() {
        let program = Program::build(Compiler::System, c_program("idle"), &[]);
        let mut target = Target::start_ready(&mut program.command());
        let pid = Pid(target.pid());
        let monitor = Monitor::start(Box::new(move |candidate| candidate.pid == pid), OPTIONS).unwrap();
        let looked = |seen: &Seen| seen.look.is_some() && seen.memory.is_some();
        let snapshot = until(&monitor, |snapshot| snapshot.processes.values().any(looked));
        let seen = snapshot.processes.values().next().unwrap();
        assert_eq!((snapshot.processes.len(), seen.id.pid, seen.number), (1, pid, 0));
        let look = &seen.look.as_ref().unwrap().value;
        assert!(look.cpu_s > 0.0 && look.counters.is_none() && look.policy.is_none(), "{look:?}");
        assert!(seen.started_unix_s > 1.7e9, "{}", seen.started_unix_s);
        target.kill();
        let after = until(&monitor, |snapshot| snapshot.processes.is_empty());
        assert!(after.listed > snapshot.listed && after.problem.is_none());
    }

    #[test]
    fn without_a_budget_nothing_is_read_but_the_list() {
        let program = Program::build(Compiler::System, c_program("idle"), &[]);
        let target = Target::start_ready(&mut program.command());
        let pid = Pid(target.pid());
        let options = Options { budget: 0.0, ..OPTIONS };
        let monitor = Monitor::start(Box::new(move |candidate| candidate.pid == pid), options).unwrap();
        let first = until(&monitor, |snapshot| !snapshot.processes.is_empty());
        let later = until(&monitor, |snapshot| snapshot.listed > first.listed);
        let seen = later.processes.values().next().unwrap();
        assert!(seen.rss_bytes.value > 0 && seen.memory.is_none() && seen.look.is_none(), "{seen:?}");
    }
}
