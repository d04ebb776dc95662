//! The options of an HTTP run.

use super::routes::Routes;
use crate::net::tls::Trust;
use crate::options::OptionsError;
use crate::schedule::OpenLoop;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Closed loop: so many users, each of whom sends the next request when the response to the last one is there.
    Closed {
        /// How many.
        users: u32,
    },
    /// Open loop: at intended times, each from a user who is free. When none is, the request waits, and the time that it
    /// waits counts.
    Open {
        /// When requests are sent.
        open: OpenLoop,
        /// Users there are at most, each with a connection.
        users: u32,
    },
}

/// How long a part of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// So many requests.
    Requests(u64),
    /// So long.
    Time(Duration),
}

impl Extent {
    /// Returns whether it is of no length.
    pub fn is_nothing(self) -> bool {
        matches!(self, Self::Requests(0) | Self::Time(Duration::ZERO))
    }
}

/// An HTTP run: a warm-up that is not measured, then batches of requests.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpOptions {
    /// What to ask for.
    pub routes: Routes,
    /// When.
    pub pace: Pace,
    /// What is sent before anything is measured.
    pub warm_up: Extent,
    /// One batch.
    pub batch: Extent,
    /// How many batches.
    pub batches: u32,
    /// How long a response may take.
    pub timeout: Duration,
    /// Requests that a user sends on one connection before they open another; `None` keeps it while the server does.
    pub per_connection: Option<NonZeroU32>,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    /// Which certificates are believed.
    pub trust: Trust,
    /// Local address to connect from.
    pub source: Option<IpAddr>,
    /// Decides the row of requests and their variables, and the arrivals.
    pub seed: u64,
}

impl HttpOptions {
    /// Ten users, 100 requests of warm-up, one batch of 10 s.
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

    /// Users that may have a connection at once.
    pub(crate) fn users(&self) -> u32 {
        match self.pace {
            Pace::Closed { users } | Pace::Open { users, .. } => users,
        }
    }
}
