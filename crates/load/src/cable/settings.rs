//! The settings of a broadcast run as shown in documents and recordings. Headers and trusted certificates are
//! left out, because they may be secret.

use super::options::{CableOptions, Pace};
use crate::document::OpenLoopSettings;
use serde::{Deserialize, Serialize};

/// The settings of a broadcast run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The server's address.
    pub url: String,
    /// The protocol's name.
    pub protocol: String,
    /// Total number of clients.
    pub clients: u32,
    /// Clients added by each step.
    pub step: u32,
    /// Broadcasts in each step.
    pub sample: u32,
    /// The times of the broadcasts.
    pub pace: PaceSettings,
    /// Bytes of padding in a message.
    pub payload_bytes: usize,
    /// Time limit of a broadcast.
    pub timeout_s: f64,
    /// Seed for the choice of senders.
    pub seed: u64,
}

/// The times of the broadcasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "lowercase")]
pub enum PaceSettings {
    /// See [`Pace::Closed`].
    Closed {
        /// Broadcasts in flight.
        in_flight: u32,
    },
    /// See [`Pace::Classic`].
    Classic {
        /// Broadcasts in flight.
        in_flight: u32,
    },
    /// See [`Pace::Open`].
    Open(OpenLoopSettings),
}

impl CableOptions {
    /// Returns the options that may be shown.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            url: self.url.clone(),
            protocol: self.protocol.to_string(),
            clients: self.clients,
            step: self.step,
            sample: self.sample,
            pace: match self.pace {
                Pace::Closed { in_flight } => PaceSettings::Closed { in_flight },
                Pace::Classic { in_flight } => PaceSettings::Classic { in_flight },
                Pace::Open(open) => PaceSettings::Open(open.into()),
            },
            payload_bytes: self.payload,
            timeout_s: self.timeout.as_secs_f64(),
            seed: self.seed,
        }
    }
}
