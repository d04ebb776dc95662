//! `unbloat bench jobs`: the table and the document.

use super::time::time;
use super::{Problems, open_loop};
use crate::style::thousands;
use serde_json::{Value, json};
use std::fmt;
use unbloat_load::Latency;
use unbloat_load::jobs::{JobsFigures, JobsOptions, Pace};

/// The result as a short table.
#[derive(Debug)]
pub struct Table<'a>(pub &'a JobsFigures);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.0;
        let row = |f: &mut fmt::Formatter<'_>, name: &str, times: &Latency| {
            let summary = times.summary();
            let [p50, p95, p99, max] =
                [summary.p50_ns, summary.p95_ns, summary.p99_ns, summary.max_ns].map(time);
            writeln!(f, "{name:<14} {:>9} {p50:>9} {p95:>9} {p99:>9} {max:>9}", time(mean_ns(times)))
        };
        writeln!(f, "{:<14} {:>9} {:>9} {:>9} {:>9} {:>9}", "", "mean", "p50", "p95", "p99", "max")?;
        row(f, "in the queue", &outcome.queue)?;
        row(f, "running", &outcome.run)?;
        writeln!(
            f,
            "{} of {} jobs in {:.2} s: {:.1} jobs/s on {} threads, {} failed (times are known to {})",
            thousands(outcome.ended),
            thousands(outcome.pushed),
            outcome.duration_s,
            outcome.per_second(),
            outcome.threads,
            thousands(outcome.failed),
            time(outcome.resolution.quantile_ns(0.99)),
        )
    }
}

/// The document of `unbloat bench jobs --json` (`docs/reference/bench.schema.json`).
pub fn document(plan: &JobsOptions, outcome: &JobsFigures) -> Value {
    let derived = json!({
        "queue_mean_ns": mean_ns(&outcome.queue),
        "run_mean_ns": mean_ns(&outcome.run),
        "jobs_per_s": outcome.per_second(),
    });
    super::document("jobs", settings(plan), outcome, derived, &Problems::new(outcome.problems()))
}

fn mean_ns(times: &Latency) -> Option<u64> {
    times.mean().map(|mean| mean.as_nanos() as u64)
}

/// What the run was asked to do, for the document and the recording. The URL is left out: it may hold a password.
pub fn settings(plan: &JobsOptions) -> Value {
    let pace = match plan.pace {
        Pace::Drain => json!({"loop": "drain"}),
        Pace::Open(open) => open_loop(open),
    };
    json!({"class": plan.class, "queue": plan.queue, "jobs": plan.jobs, "pace": pace, "seed": plan.seed})
}
