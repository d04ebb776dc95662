//! `unbloat bench http`: the tables and the document.

use super::time::time;
use super::{Problems, open_loop};
use crate::style::thousands;
use serde_json::{Value, json};
use std::fmt;
use unbloat_load::http::{Batch, Extent, HttpFigures, HttpOptions, Pace, RequestFigures};

/// The heading of the tables.
#[derive(Debug)]
pub struct Heading;

impl fmt::Display for Heading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        row(f, "", "requests", "errors", ["p50", "p95", "p99", "max"], "per second")
    }
}

/// A line of the table: one batch.
#[derive(Debug)]
pub struct BatchRow<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// Its figures.
    pub batch: &'a Batch,
}

impl fmt::Display for BatchRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = format!("{:.1}", self.batch.per_second());
        figures(f, &format!("batch {}", self.number), &self.batch.figures, &rate)
    }
}

/// A line for each route.
#[derive(Debug)]
pub struct RouteRows<'a>(pub &'a HttpFigures);

impl fmt::Display for RouteRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for route in &self.0.routes {
            figures(f, &route.name, &route.figures, "")?;
            writeln!(f)?;
        }
        Ok(())
    }
}

fn figures(f: &mut fmt::Formatter<'_>, name: &str, figures: &RequestFigures, rate: &str) -> fmt::Result {
    let times = figures.response.summary();
    let times = [times.p50_ns, times.p95_ns, times.p99_ns, times.max_ns].map(time);
    let errors = thousands(figures.errors.total());
    row(f, name, &thousands(figures.requests), &errors, times.each_ref().map(String::as_str), rate)
}

fn row(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    requests: &str,
    errors: &str,
    [p50, p95, p99, max]: [&str; 4],
    rate: &str,
) -> fmt::Result {
    write!(f, "{name:<28} {requests:>10} {errors:>7}  {p50:>8} {p95:>8} {p99:>8} {max:>8}  {rate:>10}")
}

/// The document of `unbloat bench http --json` (`docs/reference/bench.schema.json`).
pub fn document(plan: &HttpOptions, outcome: &HttpFigures) -> Value {
    let derived = json!({"total": outcome.total()});
    super::document("http", settings(plan), outcome, derived, &Problems::new(outcome.problems()))
}

/// What the run was asked to do, for the document and the recording. Headers and logins are left out: they may be secrets.
pub fn settings(plan: &HttpOptions) -> Value {
    let pace = match plan.pace {
        Pace::Closed { users } => json!({"loop": "closed", "users": users}),
        Pace::Open { open, users } => {
            let mut pace = open_loop(open);
            pace["users"] = users.into();
            pace
        }
    };
    let extent = |extent: Extent| match extent {
        Extent::Requests(requests) => json!({"requests": requests}),
        Extent::Time(time) => json!({"time_s": time.as_secs_f64()}),
    };
    let routes: Vec<Value> = plan
        .routes
        .routes
        .iter()
        .map(|route| json!({"name": route.label(), "method": route.method, "path": route.path, "weight": route.weight}))
        .collect();
    json!({
        "routes": routes,
        "pace": pace,
        "warm_up": extent(plan.warm_up),
        "batch": extent(plan.batch),
        "batches": plan.batches,
        "per_connection": plan.per_connection,
        "timeout_s": plan.timeout.as_secs_f64(),
        "seed": plan.seed,
    })
}
