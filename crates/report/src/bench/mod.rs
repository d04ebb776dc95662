//! Output of `unbloat bench`: a line per finished step or route, and the reasons why a run does not count.

pub mod cable;
pub mod http;
pub mod jobs;
pub(crate) mod time;

use std::fmt::{self, Display};

/// The reasons why a run is not clean, one per line; empty if it is.
#[derive(Debug)]
pub struct Problems(Vec<String>);

impl Problems {
    /// Collects the reasons.
    pub fn new(problems: impl IntoIterator<Item = impl Display>) -> Self {
        Self(problems.into_iter().map(|problem| problem.to_string()).collect())
    }

    /// Returns whether there is no reason.
    pub fn is_clean(&self) -> bool {
        self.0.is_empty()
    }
}

impl Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(f, "not clean:")?;
        self.0.iter().try_for_each(|problem| writeln!(f, "  {problem}"))
    }
}
