//! The settings of a broadcast run as documents and recordings show them. Headers and sources of trust are left out: they may
//! be secrets.

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
    /// Clients at the end.
    pub clients: u32,
    /// Clients that each step adds.
    pub step: u32,
    /// Broadcasts in each step.
    pub sample: u32,
    /// When they are sent.
    pub pace: PaceSettings,
    /// Bytes of padding in a message.
    pub payload_bytes: usize,
    /// How long a broadcast may take.
    pub timeout_s: f64,
    /// Decides which clients send.
    pub seed: u64,
}

/// When broadcasts are sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "lowercase")]
pub enum PaceSettings {
    /// See [`Pace::Closed`].
    Closed {
        /// Broadcasts under way at once.
        in_flight: u32,
    },
    /// See [`Pace::Classic`].
    Classic {
        /// Broadcasts under way at once.
        in_flight: u32,
    },
    /// See [`Pace::Open`].
    Open(OpenLoopSettings),
}

impl CableOptions {
    /// What may be shown of the options.
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
