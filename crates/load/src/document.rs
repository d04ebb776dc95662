//! The document of `unbloat bench --json` (`docs/reference/bench.schema.json`) as types, for its writers and
//! readers.

use crate::cable::{self, CableFigures, CableOptions};
use crate::http::{self, HttpFigures, HttpOptions, RequestFigures};
use crate::jobs::{self, JobsFigures, JobsOptions};
use crate::latency::Times;
use crate::schedule::{Arrivals, OpenLoop};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// Version of the schema.
const SCHEMA: u32 = 1;

/// One run of a load driver.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BenchDocument {
    schema: u32,
    /// The figures can be trusted as they stand.
    pub clean: bool,
    /// The reasons why they cannot, in words.
    pub problems: Vec<String>,
    /// The settings and figures of the driver.
    #[serde(flatten)]
    pub run: BenchRun,
}

/// The settings and figures of a run, by driver.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "bench", rename_all = "lowercase")]
pub enum BenchRun {
    /// `unbloat bench cable`.
    Cable(CableRun),
    /// `unbloat bench http`.
    Http(HttpRun),
    /// `unbloat bench jobs`.
    Jobs(JobsRun),
}

/// A broadcast run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CableRun {
    /// The run's settings.
    pub plan: cable::Settings,
    /// The measurements.
    #[serde(flatten)]
    pub figures: CableFigures<Times>,
}

/// An HTTP run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HttpRun {
    /// The run's settings.
    pub plan: http::Settings,
    /// The measurements.
    #[serde(flatten)]
    pub figures: HttpFigures<Times>,
    /// All batches together.
    pub total: RequestFigures<Times>,
}

/// A run of jobs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobsRun {
    /// The run's settings.
    pub plan: jobs::Settings,
    /// The measurements.
    #[serde(flatten)]
    pub figures: JobsFigures<Times>,
    /// Mean time in the queue, in nanoseconds.
    pub queue_mean_ns: Option<u64>,
    /// Mean time of a job, in nanoseconds.
    pub run_mean_ns: Option<u64>,
    /// Jobs finished per second.
    pub jobs_per_s: f64,
}

impl BenchDocument {
    /// Creates the document of a broadcast run.
    #[must_use]
    pub fn cable(options: &CableOptions, figures: &CableFigures) -> Self {
        let run = CableRun { plan: options.settings(), figures: figures.summarized() };
        Self::new(figures.problems(), BenchRun::Cable(run))
    }

    /// Creates the document of an HTTP run.
    #[must_use]
    pub fn http(options: &HttpOptions, figures: &HttpFigures) -> Self {
        let total = figures.total().summarized();
        let run = HttpRun { plan: options.settings(), figures: figures.summarized(), total };
        Self::new(figures.problems(), BenchRun::Http(run))
    }

    /// Creates the document of a run of jobs.
    #[must_use]
    pub fn jobs(options: &JobsOptions, figures: &JobsFigures) -> Self {
        let run = JobsRun {
            plan: options.settings(),
            figures: figures.summarized(),
            queue_mean_ns: figures.queue.mean_ns(),
            run_mean_ns: figures.run.mean_ns(),
            jobs_per_s: figures.per_second(),
        };
        Self::new(figures.problems(), BenchRun::Jobs(run))
    }

    fn new(problems: Vec<impl Display>, run: BenchRun) -> Self {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Self { schema: SCHEMA, clean: problems.is_empty(), problems, run }
    }
}

/// The pace of an open loop, in a document.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OpenLoopSettings {
    /// Messages per second, on average.
    pub rate: f64,
    /// The distribution of the intended times.
    pub arrivals: Arrivals,
}

impl From<OpenLoop> for OpenLoopSettings {
    fn from(OpenLoop { per_second, arrivals }: OpenLoop) -> Self {
        Self { rate: per_second, arrivals }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::http::Routes;
    use crate::latency::Latency;
    use serde_json::{Value, json};

    fn latency() -> Latency {
        let mut latency = Latency::new();
        (1..=100).for_each(|ms| latency.record_ns(ms * 1_000_000));
        latency
    }

    /// Asserts that a document is read back as it was written, field by field.
    fn survives(document: &BenchDocument) -> Value {
        let written = serde_json::to_value(document).unwrap();
        let read: BenchDocument = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
        written
    }

    #[test]
    fn a_broadcast_survives_being_written() {
        let options = CableOptions {
            pace: cable::Pace::Open(OpenLoop { per_second: 12.5, arrivals: Arrivals::Poisson }),
            ..CableOptions::new("ws://localhost/cable")
        };
        let step =
            cable::Step { received: 7, lost: 1, expected: 8, fan_out: latency(), ..cable::Step::default() };
        let figures = CableFigures { steps: vec![step], generator: Default::default(), interrupted: false };
        let written = survives(&BenchDocument::cable(&options, &figures));
        assert_eq!(written["bench"], "cable");
        assert_eq!(written["plan"]["pace"], json!({"loop": "open", "rate": 12.5, "arrivals": "poisson"}));
        assert_eq!(written["steps"][0]["fan_out"]["count"], 100);
        assert_eq!(written["problems"], json!(["1 of 8 deliveries were lost"]));
    }

    /// Statuses are numbers, while the keys of JSON objects are strings.
    #[test]
    fn requests_survive_being_written() {
        let options = HttpOptions::new(Routes::of_urls(&["http://localhost/".to_owned()]).unwrap());
        let mut requests = RequestFigures { requests: 100, response: latency(), ..RequestFigures::default() };
        requests.statuses.insert(200, 99);
        requests.errors.add("reset", || "connection reset".to_owned());
        let batch = http::Batch { figures: requests.clone(), duration_s: 2.0, generator: Default::default() };
        let route = http::RouteFigures { name: "GET /".to_owned(), figures: requests };
        let figures = HttpFigures {
            batches: vec![batch],
            routes: vec![route],
            warm_up_errors: Default::default(),
            generator: Default::default(),
            interrupted: false,
        };
        let written = survives(&BenchDocument::http(&options, &figures));
        assert_eq!(written["total"]["statuses"], json!({"200": 99}));
        assert_eq!(written["plan"]["warm_up"], json!({"requests": 100}));
        assert_eq!((&written["plan"]["batch"], &written["clean"]), (&json!({"time_s": 10.0}), &json!(false)));
    }

    #[test]
    fn jobs_survive_being_written() {
        let options = JobsOptions::new("redis://:secret@localhost", "HardJob");
        let figures = JobsFigures {
            pushed: 5,
            taken: 5,
            ended: 5,
            queue: latency(),
            duration_s: 2.0,
            ..JobsFigures::default()
        };
        let written = survives(&BenchDocument::jobs(&options, &figures));
        assert_eq!(written["plan"]["pace"], json!({"loop": "drain"}));
        assert_eq!(
            (&written["jobs_per_s"], &written["queue_mean_ns"]),
            (&json!(2.5), &json!(figures.queue.mean_ns()))
        );
        assert!(!written.to_string().contains("secret"));
    }
}
