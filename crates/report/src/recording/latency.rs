//! The latency distributions that `unbloat bench -o FILE` has put into a recording.

use super::series::seconds;
use crate::bench::time;
use crate::style::thousands;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use unbloat_load::Summary;
use unbloat_recording::{Step, StepId};
use unbloat_store::{Reader, Result};

/// A distribution of times.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The part of the load that it was measured in: `100 clients`.
    pub step: String,
    /// When that part ended, in seconds since the recording began; `None` when it was cut short.
    pub ended_s: Option<f64>,
    /// `fan_out`, `ack`, `delivery`, `response`, …
    pub kind: String,
    /// Its figures; `None` when the histogram cannot be read.
    pub summary: Option<Summary>,
}

/// All distributions of a recording that belong to no run of an experiment: those of runs are `unbloat report`'s.
///
/// # Errors
/// The file cannot be read.
pub fn read(reader: &Reader) -> Result<Vec<Distribution>> {
    let steps = reader.steps()?.into_iter().filter(|step| step.run.is_none());
    let steps: BTreeMap<StepId, Step> = steps.map(|step| (step.id, step)).collect();
    let distribution = |row: unbloat_recording::Latency| {
        let step = steps.get(&row.step)?;
        Some(Distribution {
            step: step.name.clone(),
            ended_s: step.ended_ns.map(seconds),
            summary: Summary::of_v2(&row.histogram),
            kind: row.kind,
        })
    };
    Ok(reader.latencies()?.into_iter().filter_map(distribution).collect())
}

/// A table, or nothing when there are none.
#[must_use]
pub(super) fn text(distributions: &[Distribution]) -> String {
    let mut out = String::new();
    if distributions.is_empty() {
        return out;
    }
    let width = distributions.iter().map(|one| one.step.chars().count()).max().unwrap_or(0).clamp(4, 30);
    let titles = ["COUNT", "P50", "P95", "P99", "MAX"].map(|title| format!("{title:>10}")).concat();
    let _ = writeln!(out, "\n{:width$}  {:<10}{titles}", "STEP", "LATENCY");
    for one in distributions {
        let figures = one.summary.map_or_else(
            || "  cannot be read".to_owned(),
            |s| {
                let times =
                    [s.p50_ns, s.p95_ns, s.p99_ns, s.max_ns].map(|ns| format!("{:>10}", time::time(ns)));
                format!("{:>10}{}", thousands(s.count), times.concat())
            },
        );
        let _ = writeln!(out, "{:width$}  {:<10}{figures}", crate::style::clip(&one.step, width), one.kind);
    }
    out
}

/// As `docs/reference/show.schema.json` has them.
pub(super) fn json(distributions: &[Distribution]) -> Value {
    let one = |one: &Distribution| json!({"step": one.step, "ended_s": one.ended_s, "kind": one.kind, "summary": one.summary});
    distributions.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_said() {
        let summary = Summary {
            count: 1200,
            min_ns: Some(1_000_000),
            p50_ns: Some(2_000_000),
            p95_ns: Some(30_000_000),
            p99_ns: Some(1_500_000_000),
            max_ns: None,
        };
        let one = |kind: &str, summary| Distribution {
            step: "10 clients".into(),
            ended_s: Some(3.5),
            kind: kind.into(),
            summary,
        };
        assert_eq!(text(&[]), "");
        assert_eq!(
            text(&[one("ack", Some(summary)), one("fan_out", None)]),
            "\nSTEP        LATENCY        COUNT       P50       P95       P99       MAX\n\
             10 clients  ack            1,200   2.00 ms   30.0 ms    1.50 s         -\n\
             10 clients  fan_out     cannot be read\n"
        );
    }
}
