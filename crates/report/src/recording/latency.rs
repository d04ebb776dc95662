//! The latency distributions that `unbloat bench -o FILE` adds to a recording.

use crate::bench::time;
use crate::style::{clip, thousands};
use serde_json::{Value, json};
use std::fmt::Write as _;
use unbloat_load::Summary;
use unbloat_recording::StepLatency;

/// Width of the column of kinds.
const KIND_COLUMNS: usize = 10;

/// Renders a table, or nothing if there are none.
#[must_use]
pub(super) fn text(latencies: &[StepLatency]) -> String {
    table(&latencies.iter().map(|one| (one, Summary::of_v2(&one.histogram))).collect::<Vec<_>>())
}

fn table(latencies: &[(&StepLatency, Option<Summary>)]) -> String {
    let mut out = String::new();
    if latencies.is_empty() {
        return out;
    }
    let width =
        latencies.iter().map(|(one, _)| one.step.shown().chars().count()).max().unwrap_or(0).clamp(4, 30);
    let titles = ["COUNT", "P50", "P95", "P99", "MAX"].map(|title| format!("{title:>10}")).concat();
    let _ = writeln!(out, "\n{:width$}  {:<10}{titles}", "STEP", "LATENCY");
    for (one, summary) in latencies {
        let figures = summary.map_or_else(|| "  cannot be read".to_owned(), |summary| figures(&summary));
        let (step, kind) = (clip(one.step.raw(), width), clip(one.kind.raw(), KIND_COLUMNS));
        let _ = writeln!(out, "{step:width$}  {kind:<10}{figures}");
    }
    out
}

fn figures(summary: &Summary) -> String {
    let times = [summary.p50_ns, summary.p95_ns, summary.p99_ns, summary.max_ns];
    let times = times.map(|ns| format!("{:>10}", time::time(ns)));
    format!("{:>10}{}", thousands(summary.count), times.concat())
}

/// Renders according to `docs/reference/show.schema.json`.
pub(super) fn json(latencies: &[StepLatency]) -> Value {
    let one = |one: &StepLatency| {
        let summary = Summary::of_v2(&one.histogram);
        json!({"step": one.step, "ended_s": one.ended_s, "kind": one.kind, "summary": summary})
    };
    latencies.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_said_and_names_cannot_steer_the_terminal() {
        let summary = Summary {
            count: 1200,
            min_ns: Some(1_000_000),
            p50_ns: Some(2_000_000),
            p95_ns: Some(30_000_000),
            p99_ns: Some(1_500_000_000),
            max_ns: None,
        };
        let one = |kind: &str| StepLatency {
            step: "10 clients".into(),
            ended_s: Some(3.5),
            kind: kind.into(),
            histogram: vec![1, 2, 3],
        };
        assert_eq!(text(&[]), "");
        assert_eq!(
            table(&[(&one("ack"), Some(summary)), (&one("fan_out"), None)]),
            "\nSTEP        LATENCY        COUNT       P50       P95       P99       MAX\n\
             10 clients  ack            1,200   2.00 ms   30.0 ms    1.50 s         -\n\
             10 clients  fan_out     cannot be read\n"
        );
        let hostile = text(&[one("\x1b]0;mine\x07")]);
        assert!(hostile.contains("cannot be read") && !hostile.contains('\x1b'), "{hostile:?}");
    }
}
