//! `unbloat bench jobs`: the table.

use super::time::time;
use crate::style::thousands;
use std::fmt;
use unbloat_load::Latency;
use unbloat_load::jobs::JobsFigures;

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
            writeln!(f, "{name:<14} {:>9} {p50:>9} {p95:>9} {p99:>9} {max:>9}", time(times.mean_ns()))
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
