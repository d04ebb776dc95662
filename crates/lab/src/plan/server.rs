//! The server under test: how it is started, known to be ready, and stopped.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The server under test. Every run starts it afresh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Server {
    /// Program and arguments. `{port}` stands for a free port, `{scratch}` for an empty directory of the run.
    pub start: Vec<String>,
    /// Where to start it; relative to the plan's file.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// Environment for all variants.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Variable through which `start` takes the words to put in front of the server's own command. Without it they are
    /// put in front of `start`.
    #[serde(default)]
    pub wrapper_variable: Option<String>,
    /// When it is ready.
    pub ready: Ready,
    /// How long that may take.
    #[serde(default = "default_ready_within", with = "humantime_serde")]
    pub ready_within: Duration,
    /// How to ask it to end.
    #[serde(default)]
    pub stop: Stop,
    /// How long it may take to end after that before it is killed, and the run excluded.
    #[serde(default = "default_stop_within", with = "humantime_serde")]
    pub stop_within: Duration,
}

/// How to ask a server to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a signal's name, \"INT\", or a command, [\"./stop\", \"{pid}\"]")]
pub enum Stop {
    /// A signal to the process that was started, by name: `TERM`, `INT`.
    Signal(String),
    /// Program and arguments, run in the server's directory; `{pid}` stands for the process that was started, `{port}` and
    /// `{url}` are filled in.
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

/// How to see that the server is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Ready {
    /// A line on stdout that contains this. `url=…` and `pid=…` in it are taken up: `{url}` in the load, and the root of
    /// the tree that is measured.
    Line(String),
    /// A URL that answers with a status below 500.
    Http(String),
    /// A port of 127.0.0.1 that accepts connections.
    Port(String),
}
