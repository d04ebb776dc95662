//! The options of an HTTP run.

use super::routes::Routes;
use crate::net::tls::Trust;
use crate::options::OptionsError;
use crate::schedule::OpenLoop;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

/// The times at which requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Closed loop: a fixed number of users, each of whom sends the next request once the last one is
    /// answered.
    Closed {
        /// Number of users.
        users: u32,
    },
    /// Open loop: at intended times, each from a free user. If none is free, the request waits, and its
    /// waiting time counts.
    Open {
        /// The intended times.
        open: OpenLoop,
        /// Maximum number of users, each with a connection.
        users: u32,
    },
}

/// The length of a part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A number of requests.
    Requests(u64),
    /// A duration.
    Time(Duration),
}

impl Extent {
    /// Returns whether the length is zero.
    pub fn is_nothing(self) -> bool {
        matches!(self, Self::Requests(0) | Self::Time(Duration::ZERO))
    }
}

/// An HTTP run: an unmeasured warm-up, then batches of requests.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpOptions {
    /// The requests to send.
    pub routes: Routes,
    /// The times at which to send them.
    pub pace: Pace,
    /// Length of the warm-up.
    pub warm_up: Extent,
    /// Length of a batch.
    pub batch: Extent,
    /// Number of batches.
    pub batches: u32,
    /// Time limit of a response.
    pub timeout: Duration,
    /// Requests per connection before a user opens another; `None` keeps it as long as the server does.
    pub per_connection: Option<NonZeroU32>,
    /// Headers added to every request.
    pub headers: Vec<(String, String)>,
    /// The certificates to trust.
    pub trust: Trust,
    /// Local address to connect from.
    pub source: Option<IpAddr>,
    /// Seed for the sequence of requests, their variables, and the arrivals.
    pub seed: u64,
}

impl HttpOptions {
    /// Creates options with ten users, a warm-up of 100 requests, and one batch of 10 s.
    pub fn new(routes: Routes) -> Self {
        Self {
            routes,
            pace: Pace::Closed { users: 10 },
            warm_up: Extent::Requests(100),
            batch: Extent::Time(Duration::from_secs(10)),
            batches: 1,
            timeout: Duration::from_secs(30),
            per_connection: None,
            headers: Vec::new(),
            trust: Trust::System,
            source: None,
            seed: 1,
        }
    }

    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        if let Pace::Open { open, .. } = self.pace {
            open.check()?;
        }
        if self.users() == 0 {
            return OptionsError::because("a run needs at least one user");
        }
        if self.batch.is_nothing() || self.batches == 0 {
            return OptionsError::because("a run needs at least one batch with at least one request");
        }
        self.routes.check()
    }

    /// Returns the maximum number of connected users.
    pub(crate) fn users(&self) -> u32 {
        match self.pace {
            Pace::Closed { users } | Pace::Open { users, .. } => users,
        }
    }
}
