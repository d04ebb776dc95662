//! The options of a recording, and its outcome.

use std::process::Command;
use std::time::Duration;
use unbloat_process::Pid;

/// The recorded processes.
#[derive(Debug)]
pub enum Target {
    /// A command that is started for it, and everything below.
    Command(Command),
    /// Processes that run already, and everything below them.
    Attach(Vec<Pid>),
}

/// The options of a recording.
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
    /// Leave the command running at the end.
    pub detach: bool,
    /// Time for a command to end by itself before it is killed.
    pub grace: Duration,
    /// Do not ask the kernel for its process events, even where that is permitted.
    pub scan_only: bool,
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
            scan_only: false,
        }
    }
}

/// The end of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Why.
    pub reason: String,
    /// The exit status of the command, as a shell would see it; `None` when there was none, or it still runs.
    pub exit_status: Option<i64>,
    /// Processes that were recorded and still run.
    pub left_running: usize,
}
