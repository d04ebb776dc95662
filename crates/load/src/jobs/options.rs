//! The options of a run of jobs.

use crate::options::OptionsError;
use crate::schedule::OpenLoop;
use serde_json::Value;
use std::time::Duration;

/// The times at which jobs are pushed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// All at once; then the queue is watched until it is empty.
    Drain,
    /// Open loop: at intended times, whatever the workers do.
    Open(OpenLoop),
}

/// A run of jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct JobsOptions {
    /// `redis://`, `rediss://` or `redis+unix://`, with user, password and database number.
    pub url: String,
    /// The job's class in the application.
    pub class: String,
    /// Its arguments, a JSON array; `{{n}}` in a string stands for the number of the job, from 1.
    pub arguments: Value,
    /// The queue.
    pub queue: String,
    /// Number of jobs.
    pub jobs: u32,
    /// The times at which they are pushed.
    pub pace: Pace,
    /// Time without any event after which the run is abandoned.
    pub timeout: Duration,
    /// Interval between checks of the queue: the resolution of all times.
    pub look_every: Duration,
    /// Seed for the arrivals.
    pub seed: u64,
}

impl JobsOptions {
    /// Creates options for 1,000 jobs of a class without arguments, drained from the queue `default`.
    pub fn new(url: impl Into<String>, class: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            class: class.into(),
            arguments: Value::Array(Vec::new()),
            queue: "default".to_owned(),
            jobs: 1_000,
            pace: Pace::Drain,
            timeout: Duration::from_secs(60),
            look_every: Duration::from_millis(2),
            seed: 1,
        }
    }

    pub(super) fn check(&self) -> Result<(), OptionsError> {
        match self.pace {
            _ if self.jobs == 0 => OptionsError::because("a run needs at least one job"),
            _ if self.class.is_empty() => OptionsError::because("a job needs a class"),
            _ if !self.arguments.is_array() => {
                OptionsError::because("the arguments of a job are a JSON array, for example [1, \"two\"]")
            }
            Pace::Open(open) => open.check(),
            Pace::Drain => Ok(()),
        }
    }
}
