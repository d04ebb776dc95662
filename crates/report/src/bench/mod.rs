//! What `unbloat bench` says: a line per step or route as it is done, what taints the run, and the JSON document.

pub mod cable;
pub mod http;
pub mod jobs;
pub(crate) mod time;

use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::{self, Display};
use unbloat_load::OpenLoop;

/// The reasons why a run is not clean, a line each; nothing if it is.
#[derive(Debug)]
pub struct Problems(Vec<String>);

impl Problems {
    /// Takes the reasons up.
    pub fn new(problems: impl IntoIterator<Item = impl Display>) -> Self {
        Self(problems.into_iter().map(|problem| problem.to_string()).collect())
    }

    /// Whether there is no reason.
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

/// The document of a driver (`docs/reference/bench.schema.json`): how it was run, all that was measured, what follows from
/// that, and whether it is clean.
fn document(
    bench: &str,
    plan: Value,
    measured: &impl Serialize,
    derived: Value,
    problems: &Problems,
) -> Value {
    let mut document = json!({
        "schema": 1,
        "bench": bench,
        "plan": plan,
        "clean": problems.is_clean(),
        "problems": problems.0,
    });
    for figures in [serde_json::to_value(measured).unwrap_or_default(), derived] {
        if let (Value::Object(all), Value::Object(figures)) = (&mut document, figures) {
            all.extend(figures);
        }
    }
    document
}

/// The pace of an open loop, for the document.
fn open_loop(OpenLoop { per_second, arrivals }: OpenLoop) -> Value {
    json!({"loop": "open", "rate": per_second, "arrivals": arrivals.to_string()})
}
