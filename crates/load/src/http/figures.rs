//! What an HTTP run found.

use crate::fault::{Fault, Faults};
use crate::generator::Generator;
use crate::latency::Latency;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// RequestFigures of some requests.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RequestFigures {
    /// Requests that were answered or failed.
    pub requests: u64,
    /// From sending the request (open loop: from its intended time) until the last byte of the response is there. Only
    /// responses with an expected status.
    pub response: Latency,
    /// Responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of the responses' bodies.
    pub body_bytes: u64,
    /// What went wrong, by class.
    pub errors: Faults,
}

/// The figures of one kind of request.
#[derive(Debug, Clone, Serialize)]
pub struct RouteFigures {
    /// Its name.
    pub name: String,
    /// Over all batches.
    #[serde(flatten)]
    pub figures: RequestFigures,
}

/// One batch.
#[derive(Debug, Clone, Serialize)]
pub struct Batch {
    /// Of all routes.
    #[serde(flatten)]
    pub figures: RequestFigures,
    /// From its first request to its last response, in seconds.
    pub duration_s: f64,
    /// The generator while it lasted.
    pub generator: Generator,
}

/// The whole run; the warm-up is in none of its figures but [`HttpFigures::warm_up_errors`].
#[derive(Debug, Clone, Serialize)]
pub struct HttpFigures {
    /// In order.
    pub batches: Vec<Batch>,
    /// In the order of the plan.
    pub routes: Vec<RouteFigures>,
    /// What went wrong before anything was measured, logins included.
    pub warm_up_errors: Faults,
    /// The generator over the whole run.
    pub generator: Generator,
    /// Whether the user ended it early.
    pub interrupted: bool,
}

/// Why the figures of a run are not to be trusted as they stand.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    /// Something went wrong.
    Errors(Fault),
    /// The generator used all of its core: the share it used.
    Saturated(f64),
    /// The generator was late: by so many nanoseconds at the 99th percentile.
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
                    "the generator itself was the limit ({:.0} % of its core): the times include its own",
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

impl RequestFigures {
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
    /// Responses with an expected status per second.
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
    /// All batches together.
    pub fn total(&self) -> RequestFigures {
        let mut total = RequestFigures::default();
        self.batches.iter().for_each(|batch| total.merge(&batch.figures));
        total
    }

    /// Why the run is not clean; empty if it is.
    pub fn problems(&self) -> Vec<Problem> {
        let mut errors = self.total().errors;
        errors.merge(&self.warm_up_errors);
        let errors = errors.iter().map(Problem::Errors);
        let interrupted = self.interrupted.then_some(Problem::Interrupted);
        self.batches.iter().flat_map(Batch::problems).chain(errors).chain(interrupted).collect()
    }
}
