//! What `unbloat bench` says: a line per step or route as it is done, what taints the run, and the JSON document.

pub mod cable;
pub mod http;
pub mod jobs;
pub(crate) mod time;

use std::fmt::{self, Display};

/// The reasons why a run is not clean, a line each; nothing if it is.
#[derive(Debug)]
pub struct Verdict(Vec<String>);

impl Verdict {
    /// Takes the reasons up.
    pub fn new(problems: impl IntoIterator<Item = impl Display>) -> Self {
        Self(problems.into_iter().map(|problem| problem.to_string()).collect())
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(f, "not clean:")?;
        self.0.iter().try_for_each(|problem| writeln!(f, "  {problem}"))
    }
}
