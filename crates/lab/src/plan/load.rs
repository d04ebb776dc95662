//! The work of the server while it is measured.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The work of the server while it is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "driver", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Load {
    /// `unbloat bench cable`.
    Cable(BenchCommand),
    /// `unbloat bench http`.
    Http(BenchCommand),
    /// `unbloat bench jobs`.
    Jobs(BenchCommand),
    /// Any command; `{url}` and `{port}` are filled in. Exit status 0: clean, 3: dirty, anything else:
    /// failed. The last line of its stdout that is a JSON object may give `p50_s`, `p95_s`, `p99_s`,
    /// `throughput` and `units`.
    Command {
        /// Program and arguments.
        command: Vec<String>,
    },
    /// The server generates its own work and reports it: a line on its stdout contains `done` and has
    /// `key=value` words, of which the names above are used.
    Own {
        /// The text that the line contains.
        #[serde(default = "default_done")]
        done: String,
        /// Time limit of the work.
        #[serde(default = "default_own_within", with = "humantime_serde")]
        within: Duration,
    },
}

/// One of `unbloat bench`'s drivers, with its options as on the command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BenchCommand {
    /// The address to send the load to; `{url}`, `{host}` and `{port}` are filled in.
    #[serde(default = "default_url")]
    pub url: String,
    /// Options, one per string: `"--clients=300"`.
    #[serde(default)]
    pub options: Vec<String>,
    /// The rate at which units of work are sent. If absent the options decide, and without a rate there the
    /// loop is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Share of the control's sustained throughput that `rate = "auto"` sends.
    #[serde(default = "default_utilization", skip_serializing_if = "is_default_utilization")]
    pub utilization: f64,
    /// Measured length of a run at a rate. If absent, the calibration decides.
    #[serde(default, with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub run_length: Option<Duration>,
}

/// The rate of a bench driver: in a plan `"auto"`, `"closed"` or a number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "WrittenRate", into = "WrittenRate")]
pub enum Rate {
    /// Open loop: a share of the control's sustained throughput, found by a calibration before the first run.
    Auto,
    /// Open loop: this number of units of work per second.
    PerSecond(f64),
    /// Closed loop: the next unit is sent when one is done. It measures how fast the server can go.
    Closed,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "\"auto\", \"closed\" or a number per second")]
enum WrittenRate {
    PerSecond(f64),
    Word(RateWord),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RateWord {
    Auto,
    Closed,
}

impl From<WrittenRate> for Rate {
    fn from(written: WrittenRate) -> Self {
        match written {
            WrittenRate::PerSecond(rate) => Rate::PerSecond(rate),
            WrittenRate::Word(RateWord::Auto) => Rate::Auto,
            WrittenRate::Word(RateWord::Closed) => Rate::Closed,
        }
    }
}

impl From<Rate> for WrittenRate {
    fn from(rate: Rate) -> Self {
        match rate {
            Rate::PerSecond(rate) => WrittenRate::PerSecond(rate),
            Rate::Auto => WrittenRate::Word(RateWord::Auto),
            Rate::Closed => WrittenRate::Word(RateWord::Closed),
        }
    }
}

/// The kinds of bench drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchDriver {
    /// Broadcasts over WebSockets.
    Cable,
    /// Requests over HTTP.
    Http,
    /// Sidekiq jobs.
    Jobs,
}

impl BenchDriver {
    /// The subcommand of `unbloat bench`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            BenchDriver::Cable => "cable",
            BenchDriver::Http => "http",
            BenchDriver::Jobs => "jobs",
        }
    }

    /// A unit of work, in the plural.
    #[must_use]
    pub const fn units(self) -> &'static str {
        match self {
            BenchDriver::Cable => "broadcasts",
            BenchDriver::Http => "requests",
            BenchDriver::Jobs => "jobs",
        }
    }
}

impl Load {
    /// Returns the bench driver and its command, if the load is one.
    #[must_use]
    pub fn bench(&self) -> Option<(BenchDriver, &BenchCommand)> {
        match self {
            Load::Cable(bench) => Some((BenchDriver::Cable, bench)),
            Load::Http(bench) => Some((BenchDriver::Http, bench)),
            Load::Jobs(bench) => Some((BenchDriver::Jobs, bench)),
            Load::Command { .. } | Load::Own { .. } => None,
        }
    }

    /// Returns the rate that the plan sets apart from the driver's options.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        self.bench().and_then(|(_, bench)| bench.rate)
    }
}

fn default_utilization() -> f64 {
    0.5
}

fn is_default_utilization(utilization: &f64) -> bool {
    *utilization == default_utilization()
}

fn default_url() -> String {
    "{url}".to_owned()
}

fn default_done() -> String {
    "done".to_owned()
}

fn default_own_within() -> Duration {
    Duration::from_secs(600)
}
