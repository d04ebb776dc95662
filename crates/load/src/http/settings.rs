//! The settings of an HTTP run as shown in documents and recordings. Headers and logins are left out, because
//! they may be secret.

use super::options::{Extent, HttpOptions, Pace};
use crate::document::OpenLoopSettings;
use serde::{Deserialize, Serialize};

/// The settings of an HTTP run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The requests.
    pub routes: Vec<RouteSettings>,
    /// The times of the requests.
    pub pace: PaceSettings,
    /// Length of the warm-up.
    pub warm_up: ExtentSettings,
    /// Length of a batch.
    pub batch: ExtentSettings,
    /// Number of batches.
    pub batches: u32,
    /// Requests per connection.
    pub per_connection: Option<u32>,
    /// Time limit of a response.
    pub timeout_s: f64,
    /// Seed for the sequence of requests.
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
    /// Relative frequency.
    pub weight: f64,
}

/// The times of the requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "lowercase")]
pub enum PaceSettings {
    /// See [`Pace::Closed`].
    Closed {
        /// Number of users.
        users: u32,
    },
    /// See [`Pace::Open`].
    Open {
        /// The intended times.
        #[serde(flatten)]
        open: OpenLoopSettings,
        /// Maximum number of users.
        users: u32,
    },
}

/// The length of a part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ExtentSettings {
    /// A number of requests.
    Requests {
        /// Number of requests.
        requests: u64,
    },
    /// A duration.
    Time {
        /// Seconds.
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
    /// Returns the options that may be shown.
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
