//! The figures of a run of jobs, and the problems that make them untrustworthy.

use crate::fault::{Fault, Faults};
use crate::generator::Generator;
use crate::latency::{Latency, Times};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Lateness at the 99th percentile above which pushes taint the run.
const LATE_NS: u64 = 10_000_000;

/// The figures of a run. Its times are distributions, or their summaries in a document.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct JobsFigures<T = Latency> {
    /// Jobs pushed.
    pub pushed: u64,
    /// Jobs taken by a worker.
    pub taken: u64,
    /// Jobs finished, including failed ones.
    pub ended: u64,
    /// Jobs failed.
    pub failed: u64,
    /// Jobs that nobody had taken when the run was abandoned or ended early; they were withdrawn.
    pub withdrawn: u64,
    /// From pushing a job (open loop: from its intended time) until a worker takes it.
    pub queue: T,
    /// From taking a job until its thread is free again. The mean is exact, the spread a lower bound.
    pub run: T,
    /// Time between two checks of the queue, which limits the precision of all times.
    pub resolution: T,
    /// From the first job taken to the last one finished, in seconds.
    pub duration_s: f64,
    /// Sidekiq processes at the start.
    pub processes: u64,
    /// Number of their threads.
    pub threads: u64,
    /// Faults, by class: the Ruby exceptions of failed jobs, and the run's own.
    pub errors: Faults,
    /// The generator's measurements of itself.
    pub generator: Generator,
    /// The user ended the run early.
    pub interrupted: bool,
}

/// A reason not to trust a run's figures as they stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Faults occurred.
    Errors(Fault),
    /// Some jobs were never taken.
    Untaken {
        /// Number of those jobs.
        jobs: u64,
        /// Number of jobs pushed.
        pushed: u64,
    },
    /// Some jobs were taken but never seen to finish.
    Unended(u64),
    /// The generator pushed late; the value is the 99th percentile in nanoseconds.
    Late(u64),
    /// The user ended the run early.
    Interrupted,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errors(fault) => fault.fmt(f),
            Self::Untaken { jobs, pushed } => {
                write!(f, "{jobs} of {pushed} jobs were not taken by any worker, and were withdrawn")
            }
            Self::Unended(jobs) => write!(f, "{jobs} jobs were taken but never seen to finish"),
            Self::Late(ns) => {
                write!(f, "the generator pushed late ({:.1} ms at the 99th percentile)", *ns as f64 / 1e6)
            }
            Self::Interrupted => write!(f, "the run was ended early"),
        }
    }
}

impl JobsFigures {
    /// Returns the figures with summaries in place of distributions.
    pub(crate) fn summarized(&self) -> JobsFigures<Times> {
        JobsFigures {
            pushed: self.pushed,
            taken: self.taken,
            ended: self.ended,
            failed: self.failed,
            withdrawn: self.withdrawn,
            queue: self.queue.times(),
            run: self.run.times(),
            resolution: self.resolution.times(),
            duration_s: self.duration_s,
            processes: self.processes,
            threads: self.threads,
            errors: self.errors.clone(),
            generator: self.generator,
            interrupted: self.interrupted,
        }
    }

    /// Returns jobs finished per second.
    pub fn per_second(&self) -> f64 {
        if self.duration_s > 0.0 { self.ended as f64 / self.duration_s } else { 0.0 }
    }

    /// Returns the reasons why the run is not clean; empty if it is.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.errors.iter().map(Problem::Errors).collect();
        if self.taken < self.pushed {
            problems.push(Problem::Untaken { jobs: self.pushed - self.taken, pushed: self.pushed });
        }
        if self.ended < self.taken {
            problems.push(Problem::Unended(self.taken - self.ended));
        }
        problems.extend(self.generator.late_p99_ns.filter(|&late| late > LATE_NS).map(Problem::Late));
        if self.interrupted {
            problems.push(Problem::Interrupted);
        }
        problems
    }
}
