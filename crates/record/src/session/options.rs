//! The options of a recording, and its ending.

use std::process::Command;
use std::time::Duration;
use unbloat_process::Pid;

/// The recorded processes.
#[derive(Debug)]
pub enum Target {
    /// A command to start, and everything below it.
    Command(Command),
    /// Running processes, and everything below them.
    Attach(Vec<Pid>),
}

/// The options of a recording.
#[derive(Debug, Clone)]
pub struct Options {
    /// Interval between samples.
    pub interval: Duration,
    /// Minimum interval between censuses.
    pub census_interval: Duration,
    /// Minimum interval between looks at Rubies by class and gem; `None` for no such looks.
    pub class_interval: Option<Duration>,
    /// CPU seconds per second that the recorder may use (0.02 is 2 % of one core).
    pub budget: f64,
    /// Duration after which the recording ends.
    pub duration: Option<Duration>,
    /// Maximum size of the file.
    pub max_bytes: u64,
    /// Leave the command running at the end.
    pub detach: bool,
    /// Time for a command to end by itself before it is killed.
    pub grace: Duration,
    /// Do not subscribe to the kernel's process events, even where permitted.
    pub scan_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            interval: Duration::from_millis(100),
            census_interval: Duration::from_secs(10),
            class_interval: Some(Duration::from_secs(30)),
            budget: 0.02,
            duration: None,
            max_bytes: 100_000_000,
            detach: false,
            grace: Duration::from_secs(10),
            scan_only: false,
        }
    }
}

/// The ending of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The reason for its end.
    pub reason: String,
    /// The exit status of the command, as a shell shows it; `None` if there was none, or it is still running.
    pub exit_status: Option<i64>,
    /// Number of recorded processes that are still running.
    pub left_running: usize,
}
