//! The settings of an HTTP run as documents and recordings show them. Headers and logins are left out: they may be secrets.

use super::options::{Extent, HttpOptions, Pace};
use crate::document::OpenLoopSettings;
use serde::{Deserialize, Serialize};

/// The settings of an HTTP run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What is asked for.
    pub routes: Vec<RouteSettings>,
    /// When.
    pub pace: PaceSettings,
    /// What is sent before anything is measured.
    pub warm_up: ExtentSettings,
    /// One batch.
    pub batch: ExtentSettings,
    /// How many batches.
    pub batches: u32,
    /// Requests on one connection.
    pub per_connection: Option<u32>,
    /// How long a response may take.
    pub timeout_s: f64,
    /// Decides the row of requests.
    pub seed: u64,
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouteSettings {
    /// Its name in the results.
    pub name: String,
    /// Its method.
    pub method: String,
    /// Its URL or path.
    pub path: String,
    /// How often, in proportion to the others.
    pub weight: f64,
}

/// When requests are sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "lowercase")]
pub enum PaceSettings {
    /// See [`Pace::Closed`].
    Closed {
        /// How many users.
        users: u32,
    },
    /// See [`Pace::Open`].
    Open {
        /// When requests are sent.
        #[serde(flatten)]
        open: OpenLoopSettings,
        /// Users there are at most.
        users: u32,
    },
}

/// How long a part of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ExtentSettings {
    /// So many requests.
    Requests {
        /// How many.
        requests: u64,
    },
    /// So long.
    Time {
        /// In seconds.
        time_s: f64,
    },
}

impl From<Extent> for ExtentSettings {
    fn from(extent: Extent) -> Self {
        match extent {
            Extent::Requests(requests) => Self::Requests { requests },
            Extent::Time(time) => Self::Time { time_s: time.as_secs_f64() },
        }
    }
}

impl HttpOptions {
    /// What may be shown of the options.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let routes = self.routes.routes.iter().map(|route| RouteSettings {
            name: route.label(),
            method: route.method.clone(),
            path: route.path.clone(),
            weight: route.weight,
        });
        Settings {
            routes: routes.collect(),
            pace: match self.pace {
                Pace::Closed { users } => PaceSettings::Closed { users },
                Pace::Open { open, users } => PaceSettings::Open { open: open.into(), users },
            },
            warm_up: self.warm_up.into(),
            batch: self.batch.into(),
            batches: self.batches,
            per_connection: self.per_connection.map(Into::into),
            timeout_s: self.timeout.as_secs_f64(),
            seed: self.seed,
        }
    }
}
