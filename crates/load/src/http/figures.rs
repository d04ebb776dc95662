//! The figures of an HTTP run, and the problems that make them untrustworthy.

use crate::fault::{Fault, Faults};
use crate::generator::Generator;
use crate::latency::{Latency, Times};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Figures of some requests. Their times are a distribution, or its summary in a document.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RequestFigures<T = Latency> {
    /// Requests that were answered or failed.
    pub requests: u64,
    /// From sending the request (open loop: from its intended time) to the last byte of the response. Only
    /// responses with an expected status.
    pub response: T,
    /// Responses by status.
    #[serde(deserialize_with = "statuses")]
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of the responses' bodies.
    pub body_bytes: u64,
    /// Faults, by class.
    pub errors: Faults,
}

/// The figures of one kind of request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RouteFigures<T = Latency> {
    /// Its name.
    pub name: String,
    /// Its figures over all batches.
    #[serde(flatten)]
    pub figures: RequestFigures<T>,
}

/// One batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Batch<T = Latency> {
    /// Its figures over all routes.
    #[serde(flatten)]
    pub figures: RequestFigures<T>,
    /// From its first request to its last response, in seconds.
    pub duration_s: f64,
    /// The generator during the batch.
    pub generator: Generator,
}

/// The whole run. The warm-up is excluded from all figures except [`HttpFigures::warm_up_errors`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HttpFigures<T = Latency> {
    /// The batches, in order.
    pub batches: Vec<Batch<T>>,
    /// The routes, in the order of the options.
    pub routes: Vec<RouteFigures<T>>,
    /// Faults before anything was measured, including logins.
    pub warm_up_errors: Faults,
    /// The generator over the whole run.
    pub generator: Generator,
    /// The user ended the run early.
    pub interrupted: bool,
}

/// A reason not to trust a run's figures as they stand.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    /// Faults occurred.
    Errors(Fault),
    /// The generator used all of its core; the value is the share it used.
    Saturated(f64),
    /// The generator was late; the value is the 99th percentile in nanoseconds.
    Late(u64),
    /// The user ended the run early.
    Interrupted,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errors(fault) => fault.fmt(f),
            Self::Saturated(share) => {
                write!(
                    f,
                    "the generator was the bottleneck ({:.0} % of its core): the times include its own \
                    delays",
                    share * 100.0
                )
            }
            Self::Late(ns) => write!(
                f,
                "the generator was late ({:.1} ms at the 99th percentile): give it a core of its own",
                *ns as f64 / 1e6
            ),
            Self::Interrupted => write!(f, "the run was ended early"),
        }
    }
}

/// Parses statuses from the keys of a JSON object, which are strings; serde leaves them so inside a flattened
/// struct.
fn statuses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u16, u64>, D::Error> {
    let texts = BTreeMap::<String, u64>::deserialize(deserializer)?;
    let number =
        |(status, count): (String, u64)| Ok((status.parse().map_err(serde::de::Error::custom)?, count));
    texts.into_iter().map(number).collect()
}

impl RequestFigures {
    /// Returns the figures with a summary in place of the distribution.
    pub(crate) fn summarized(&self) -> RequestFigures<Times> {
        RequestFigures {
            requests: self.requests,
            response: self.response.times(),
            statuses: self.statuses.clone(),
            body_bytes: self.body_bytes,
            errors: self.errors.clone(),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.response.merge(&other.response);
        self.body_bytes += other.body_bytes;
        self.errors.merge(&other.errors);
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
    }
}

impl Batch {
    /// Returns responses with an expected status per second.
    pub fn per_second(&self) -> f64 {
        if self.duration_s > 0.0 { self.figures.response.count() as f64 / self.duration_s } else { 0.0 }
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.generator.is_saturated() {
            problems.push(Problem::Saturated(self.generator.cpu_share));
        }
        problems.extend(self.generator.too_late_for(&self.figures.response).map(Problem::Late));
        problems
    }
}

impl HttpFigures {
    /// Returns the figures with summaries in place of distributions.
    pub(crate) fn summarized(&self) -> HttpFigures<Times> {
        let batch = |batch: &Batch| Batch {
            figures: batch.figures.summarized(),
            duration_s: batch.duration_s,
            generator: batch.generator,
        };
        let route = |route: &RouteFigures| RouteFigures {
            name: route.name.clone(),
            figures: route.figures.summarized(),
        };
        HttpFigures {
            batches: self.batches.iter().map(batch).collect(),
            routes: self.routes.iter().map(route).collect(),
            warm_up_errors: self.warm_up_errors.clone(),
            generator: self.generator,
            interrupted: self.interrupted,
        }
    }

    /// Returns the sum of all batches.
    pub fn total(&self) -> RequestFigures {
        let mut total = RequestFigures::default();
        self.batches.iter().for_each(|batch| total.merge(&batch.figures));
        total
    }

    /// Returns the reasons why the run is not clean; empty if it is.
    pub fn problems(&self) -> Vec<Problem> {
        let mut errors = self.total().errors;
        errors.merge(&self.warm_up_errors);
        let errors = errors.iter().map(Problem::Errors);
        let interrupted = self.interrupted.then_some(Problem::Interrupted);
        self.batches.iter().flat_map(Batch::problems).chain(errors).chain(interrupted).collect()
    }
}
