//! The settings of a run of jobs as documents and recordings show them. The URL is left out: it may hold a password.

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
    /// How many jobs.
    pub jobs: u32,
    /// When they are pushed.
    pub pace: PaceSettings,
    /// Decides the arrivals.
    pub seed: u64,
}

/// When jobs are pushed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "lowercase")]
pub enum PaceSettings {
    /// See [`Pace::Drain`].
    Drain,
    /// See [`Pace::Open`].
    Open(OpenLoopSettings),
}

impl JobsOptions {
    /// What may be shown of the options.
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
