//! The size and order of an experiment, and the conditions of its runs.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The size and order of the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Design {
    /// A fixed number of blocks: every variant once, the control twice. Without it, an experiment continues
    /// until the rule has an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<usize>,
    /// The largest number of blocks of an experiment that continues until the rule has an answer.
    pub max_blocks: usize,
    /// The time limit of such an experiment.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub within: Option<Duration>,
    /// The seed of the order of the runs, and of drawn relabelings.
    pub seed: u64,
    /// Warm-up time of a ready server: the plan's load runs for this long, is then asked to end with SIGINT,
    /// and its figures are discarded. See [`Plan::warm_up`](super::Plan::warm_up).
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<Duration>,
    /// Maximum share of the machine's CPU that anything other than server, load and harness, including the
    /// hypervisor's other guests, may use while the load runs. A run with more was disturbed: it does not
    /// count, and is repeated.
    pub max_other_cpu: f64,
    /// Maximum number of repetitions of a disturbed run at the end of its block.
    pub max_repeats: usize,
    /// Idle time after the load, before memory is read again.
    #[serde(with = "humantime_serde")]
    pub idle_tail: Duration,
    /// Time limit of a load that is a command, after which the run is abandoned.
    #[serde(with = "humantime_serde")]
    pub load_within: Duration,
    /// Expected duration of a run, to estimate the remaining time before the first run has ended.
    #[serde(with = "humantime_serde")]
    pub run_takes: Duration,
    /// Minimum interval between samples of memory and CPU during a run; sampling may use 1 % of one core.
    #[serde(with = "humantime_serde")]
    pub sample_every: Duration,
}

impl Default for Design {
    fn default() -> Self {
        Design {
            blocks: None,
            max_blocks: 20,
            within: None,
            seed: 1,
            warm_up: None,
            max_other_cpu: 0.05,
            max_repeats: 2,
            idle_tail: Duration::from_secs(10),
            load_within: Duration::from_secs(1800),
            run_takes: Duration::from_secs(30),
            sample_every: Duration::from_millis(250),
        }
    }
}
