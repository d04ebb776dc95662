//! The size and order of an experiment, and the conditions of its runs.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The size and order of the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Design {
    /// Blocks: every variant once, the control twice.
    pub blocks: usize,
    /// Blocks up to which `--until-decided` adds.
    pub max_blocks: usize,
    /// Of the order of the runs and of the resampling.
    pub seed: u64,
    /// How long a server that is ready is warmed up: the plan's load runs for so long, is then asked to end with SIGINT, and its
    /// figures are dropped. See [`Plan::warm_up`](super::Plan::warm_up).
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<Duration>,
    /// The largest share of the machine's CPU that anything but server, load and harness may take while the load runs, the
    /// hypervisor's other guests included. A run with more was disturbed: it does not count, and is repeated.
    pub max_other_cpu: f64,
    /// How often a disturbed run is repeated at the end of its block.
    pub max_repeats: usize,
    /// Idle time after the load, before memory is read again.
    #[serde(with = "humantime_serde")]
    pub idle_tail: Duration,
    /// How long a load that is a command may take before the run is given up.
    #[serde(with = "humantime_serde")]
    pub load_within: Duration,
    /// What a run takes, as far as one knows; for the remaining time before the first run has ended.
    #[serde(with = "humantime_serde")]
    pub run_takes: Duration,
    /// How often memory and CPU are sampled during a run, at most: sampling may take 1 % of one core.
    #[serde(with = "humantime_serde")]
    pub sample_every: Duration,
}

impl Default for Design {
    fn default() -> Self {
        Design {
            blocks: 6,
            max_blocks: 20,
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
