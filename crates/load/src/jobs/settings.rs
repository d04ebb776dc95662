//! The settings of a run of jobs as shown in documents and recordings. The URL is left out, because it may
//! contain a password.

use super::options::{JobsOptions, Pace};
use crate::document::OpenLoopSettings;
use serde::{Deserialize, Serialize};

/// The settings of a run of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The job's class.
    pub class: String,
    /// The queue.
    pub queue: String,
    /// Number of jobs.
    pub jobs: u32,
    /// The times at which they are pushed.
    pub pace: PaceSettings,
    /// Seed for the arrivals.
    pub seed: u64,
}

/// The times at which jobs are pushed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "lowercase")]
pub enum PaceSettings {
    /// See [`Pace::Drain`].
    Drain,
    /// See [`Pace::Open`].
    Open(OpenLoopSettings),
}

impl JobsOptions {
    /// Returns the options that may be shown.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            class: self.class.clone(),
            queue: self.queue.clone(),
            jobs: self.jobs,
            pace: match self.pace {
                Pace::Drain => PaceSettings::Drain,
                Pace::Open(open) => PaceSettings::Open(open.into()),
            },
            seed: self.seed,
        }
    }
}
