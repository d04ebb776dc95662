//! The figures of a load: from the document of a bench driver, from the last line of a command, or from a
//! server's own line.

use crate::metric::Metric;
use crate::server::key_values;
use serde::Deserialize;
use std::collections::BTreeMap;
use unbloat_load::{BenchDocument, BenchRun, CableRun, HttpRun, JobsRun, Times};

/// The measurements of a load.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Measured {
    /// Median latency in seconds.
    pub p50_s: Option<f64>,
    /// 95th percentile in seconds.
    pub p95_s: Option<f64>,
    /// 99th percentile in seconds.
    pub p99_s: Option<f64>,
    /// Mean of the slowest tenth in seconds.
    pub tail_mean_s: Option<f64>,
    /// Units of work per second.
    pub throughput: Option<f64>,
    /// Units of work done: deliveries, requests, jobs.
    pub units: Option<f64>,
    /// Units sent per second by the driver: broadcasts, requests, jobs. Only for bench drivers.
    #[serde(skip)]
    pub sent_per_s: Option<f64>,
    /// Its steps, if it has any.
    #[serde(skip)]
    pub steps: Vec<LoadStep>,
    /// The reason why it does not count, if it does not.
    #[serde(skip)]
    pub dirty: Option<String>,
}

/// One step of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadStep {
    /// Number of clients connected in it.
    pub clients: f64,
    /// Time when it began to connect them, in seconds since the load began.
    pub start_s: f64,
    /// Its p95 latency in seconds.
    pub p95_s: f64,
}

impl Measured {
    /// Returns the metrics that the load itself yields.
    #[must_use]
    pub fn metrics(&self) -> BTreeMap<Metric, f64> {
        let all = [
            (Metric::P50, self.p50_s),
            (Metric::P95, self.p95_s),
            (Metric::P99, self.p99_s),
            (Metric::TailMean, self.tail_mean_s),
            (Metric::Throughput, self.throughput),
        ];
        all.into_iter().filter_map(|(metric, value)| Some((metric, value?))).collect()
    }

    /// Parses the output of `unbloat bench --json`; `None` for anything else.
    #[must_use]
    pub fn of_bench(output: &str) -> Option<Self> {
        let document: BenchDocument = serde_json::from_str(output).ok()?;
        let dirty = (!document.problems.is_empty()).then(|| document.problems.join("; "));
        let figures = match &document.run {
            BenchRun::Cable(run) => Self::of_cable(run)?,
            BenchRun::Http(run) => Self::of_http(run),
            BenchRun::Jobs(run) => Self::of_jobs(run),
        };
        Some(Measured { dirty, ..figures })
    }

    /// Parses the last line of an output that is a JSON object with figures.
    #[must_use]
    pub fn of_command(output: &str) -> Option<Self> {
        output.lines().rev().find_map(|line| serde_json::from_str(line).ok())
    }

    /// Parses the `key=value` words of a line.
    #[must_use]
    pub fn of_line(line: &str) -> Self {
        let words = key_values(line);
        let figure = |key: &str| words.get(key).and_then(|value| value.parse().ok());
        Measured {
            p50_s: figure("p50_s"),
            p95_s: figure("p95_s"),
            p99_s: figure("p99_s"),
            tail_mean_s: figure("tail_mean_s"),
            throughput: figure("throughput"),
            units: figure("units"),
            ..Measured::default()
        }
    }

    /// Takes latency and throughput with all clients connected, and the work of the whole run.
    fn of_cable(run: &CableRun) -> Option<Self> {
        let steps = &run.figures.steps;
        let last = steps.last()?;
        let in_time = |count: u64| (last.duration_s > 0.0).then(|| count as f64 / last.duration_s);
        let step = |step: &unbloat_load::cable::Step<Times>| {
            let p95_s = in_seconds(step.fan_out.summary.p95_ns)?;
            Some(LoadStep { clients: f64::from(step.clients), start_s: step.start_s, p95_s })
        };
        Some(Measured {
            throughput: in_time(last.received),
            units: Some(steps.iter().map(|step| step.received as f64).sum()),
            sent_per_s: in_time(last.messages),
            steps: steps.iter().filter_map(step).collect(),
            ..Self::of_times(&last.fan_out)
        })
    }

    /// Sums up all routes.
    fn of_http(run: &HttpRun) -> Self {
        let units = run.total.requests as f64;
        let seconds: f64 = run.figures.batches.iter().map(|batch| batch.duration_s).sum();
        let per_second = (seconds > 0.0).then(|| units / seconds);
        Measured {
            throughput: per_second,
            units: Some(units),
            sent_per_s: per_second,
            ..Self::of_times(&run.total.response)
        }
    }

    /// Takes the queue's latency.
    fn of_jobs(run: &JobsRun) -> Self {
        Measured {
            throughput: Some(run.jobs_per_s),
            units: Some(run.figures.ended as f64),
            sent_per_s: Some(run.jobs_per_s),
            ..Self::of_times(&run.figures.queue)
        }
    }

    fn of_times(times: &Times) -> Self {
        Measured {
            p50_s: in_seconds(times.summary.p50_ns),
            p95_s: in_seconds(times.summary.p95_ns),
            p99_s: in_seconds(times.summary.p99_ns),
            tail_mean_s: in_seconds(times.mean_above_p90_ns),
            ..Measured::default()
        }
    }
}

fn in_seconds(ns: Option<u64>) -> Option<f64> {
    ns.map(|ns| ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use unbloat_load::cable::{CableFigures, CableOptions, Step};
    use unbloat_load::{Generator, Latency};

    #[test]
    fn figures_are_taken_from_a_line() {
        let measured = Measured::of_line("done units=160 throughput=500.5 p95_s=0.004 p99_s=what");
        assert_eq!((measured.units, measured.throughput), (Some(160.0), Some(500.5)));
        assert_eq!(measured.metrics().into_keys().collect::<Vec<_>>(), [Metric::P95, Metric::Throughput]);
    }

    #[test]
    fn figures_of_a_broadcast_are_those_of_the_last_step() {
        let took = |ns: u64| {
            let mut latency = Latency::new();
            latency.record_ns(ns);
            latency
        };
        let step = |received, duration_s, ns| {
            let mut step = Step::default();
            (step.received, step.duration_s, step.fan_out) = (received, duration_s, took(ns));
            step
        };
        let (first, mut last) = (step(100, 1.0, 1_000), step(298, 2.0, 9_000_000));
        (last.clients, last.start_s, last.messages) = (20, 1.5, 30);
        (last.expected, last.lost) = (300, 2);
        let figures =
            CableFigures { steps: vec![first, last], generator: Generator::default(), interrupted: false };
        let document = BenchDocument::cable(&CableOptions::new("ws://localhost/cable"), &figures);
        let measured = Measured::of_bench(&serde_json::to_string(&document).unwrap()).unwrap();
        let (tail, p95) = (measured.tail_mean_s.unwrap(), measured.p95_s.unwrap());
        assert!((p95 - 0.009).abs() < 1e-5 && (tail - 0.009).abs() < 1e-5, "{measured:?}");
        assert_eq!((measured.throughput, measured.units), (Some(149.0), Some(398.0)));
        assert_eq!(measured.sent_per_s, Some(15.0));
        assert_eq!(measured.dirty.as_deref(), Some("2 of 300 deliveries were lost"));
        assert_eq!((measured.steps.len(), measured.steps[1].clients), (2, 20.0));
        assert_eq!(Measured::of_bench("{\"steps\": []}"), None);
    }
}
