//! The server under test: starting it, detecting readiness, stopping it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The server under test. Every run starts it afresh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Server {
    /// Program and arguments. `{port}` stands for a free port, `{scratch}` for an empty directory that
    /// belongs to the run.
    pub start: Vec<String>,
    /// Its working directory, relative to the plan's file.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// Environment for all variants.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Variable through which `start` takes the words to put before the server's own command. If absent, they
    /// are put before `start`.
    #[serde(default)]
    pub wrapper_variable: Option<String>,
    /// The sign of readiness.
    pub ready: Ready,
    /// Time limit for getting ready.
    #[serde(default = "default_ready_within", with = "humantime_serde")]
    pub ready_within: Duration,
    /// The way to ask it to end.
    #[serde(default)]
    pub stop: Stop,
    /// Time limit for ending on request, after which it is killed and the run excluded.
    #[serde(default = "default_stop_within", with = "humantime_serde")]
    pub stop_within: Duration,
}

/// The way to ask a server to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a signal's name, \"INT\", or a command, [\"./stop\", \"{pid}\"]")]
pub enum Stop {
    /// A signal to the started process, by name: `TERM`, `INT`.
    Signal(String),
    /// Program and arguments, run in the server's directory; `{pid}` stands for the started process, `{port}`
    /// and `{url}` are filled in.
    Command(Vec<String>),
}

impl Default for Stop {
    fn default() -> Self {
        Stop::Signal("TERM".to_owned())
    }
}

fn default_ready_within() -> Duration {
    Duration::from_secs(60)
}

fn default_stop_within() -> Duration {
    Duration::from_secs(20)
}

/// The sign that a server is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Ready {
    /// A line on stdout that contains this text. `url=…` and `pid=…` in it set the load's `{url}` and the
    /// root of the measured tree.
    Line(String),
    /// A URL that answers with a status below 500.
    Http(String),
    /// A port of 127.0.0.1 that accepts connections.
    Port(String),
}
