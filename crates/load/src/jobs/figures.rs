//! The figures of a run of jobs, and why they may not be trusted.

use crate::fault::{Fault, Faults};
use crate::generator::Generator;
use crate::latency::{Latency, Times};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A generator that pushes later than this at the 99th percentile taints the run.
const LATE_NS: u64 = 10_000_000;

/// The figures of a run. Its times are distributions, or in a document the summaries of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct JobsFigures<T = Latency> {
    /// Jobs that were pushed.
    pub pushed: u64,
    /// Jobs that a worker took.
    pub taken: u64,
    /// Jobs that ended, failed ones included.
    pub ended: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that nobody had taken when the run was given up or ended early; they were withdrawn.
    pub withdrawn: u64,
    /// From pushing a job (open loop: from its intended time) until a worker takes it.
    pub queue: T,
    /// From taking a job until its thread is free again. The mean is exact, the spread a lower bound.
    pub run: T,
    /// Time between two looks at the queue: no time is known better than this.
    pub resolution: T,
    /// From the first job taken to the last one ended, in seconds.
    pub duration_s: f64,
    /// Sidekiq processes at the start.
    pub processes: u64,
    /// Their threads.
    pub threads: u64,
    /// What went wrong, by class: the Ruby exceptions of failed jobs, and the run's own.
    pub errors: Faults,
    /// The generator's self-report.
    pub generator: Generator,
    /// Whether the user ended it early.
    pub interrupted: bool,
}

/// Why the figures of a run are not to be trusted as they stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Something went wrong.
    Errors(Fault),
    /// Jobs were never taken.
    Untaken {
        /// How many.
        jobs: u64,
        /// Of how many.
        pushed: u64,
    },
    /// Jobs were taken but never seen to end.
    Unended(u64),
    /// The generator pushed late: by so many nanoseconds at the 99th percentile.
    Late(u64),
    /// The user ended the run early.
    Interrupted,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errors(fault) => fault.fmt(f),
            Self::Untaken { jobs, pushed } => {
                write!(f, "{jobs} of {pushed} jobs were taken by nobody and withdrawn")
            }
            Self::Unended(jobs) => write!(f, "{jobs} jobs were taken and not seen to end"),
            Self::Late(ns) => {
                write!(f, "the generator pushed late ({:.1} ms at the 99th percentile)", *ns as f64 / 1e6)
            }
            Self::Interrupted => write!(f, "the run was ended early"),
        }
    }
}

impl JobsFigures {
    /// The figures with summaries in place of distributions.
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

    /// Jobs ended per second.
    pub fn per_second(&self) -> f64 {
        if self.duration_s > 0.0 { self.ended as f64 / self.duration_s } else { 0.0 }
    }

    /// Why the run is not clean; empty if it is.
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
