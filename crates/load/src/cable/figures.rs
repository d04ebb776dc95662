//! The figures of a broadcast run, and the problems that make them untrustworthy.

use super::tally::Counts;
use crate::fault::{Fault, Faults};
use crate::generator::Generator;
use crate::latency::{Latency, Times};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The figures of one step. Its times are distributions, or their summaries in a document.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Step<T = Latency> {
    /// Clients that were subscribed when the broadcasts began.
    pub clients: u32,
    /// Time at which it began to connect its new clients, in seconds since the run began.
    pub start_s: f64,
    /// From opening the TCP connection until the subscription is confirmed, for the step's new clients.
    pub connect: T,
    /// From sending a broadcast until its sender has the acknowledgement.
    pub ack: T,
    /// From sending a broadcast until one subscriber has it, for each subscriber.
    pub delivery: T,
    /// From sending a broadcast until the last subscriber has it, for the broadcasts that reached all.
    pub fan_out: T,
    /// Broadcasts sent.
    pub messages: u64,
    /// Expected deliveries: for each broadcast, the clients subscribed when it was sent.
    pub expected: u64,
    /// Deliveries that arrived in time. `received + lost = expected`.
    pub received: u64,
    /// Deliveries that arrived too late or never.
    pub lost: u64,
    /// Repeated deliveries.
    pub duplicated: u64,
    /// Deliveries that arrived after they were counted as lost (in this step or an earlier one).
    pub late: u64,
    /// Subscribed clients that disconnected.
    pub disconnects: u64,
    /// Faults, by class.
    pub errors: Faults,
    /// Duration of the broadcasts, from the first one to the last delivery, in seconds.
    pub duration_s: f64,
    /// The generator while it sent this step's broadcasts.
    pub generator: Generator,
    /// Acknowledgement times in order of arrival, in nanoseconds, for the classic figures. Only in a classic
    /// run.
    #[serde(skip)]
    pub(crate) acks_ns: Vec<u64>,
}

/// The whole run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CableFigures<T = Latency> {
    /// Its steps, in order.
    pub steps: Vec<Step<T>>,
    /// The generator over the whole run, including connecting.
    pub generator: Generator,
    /// The user ended the run early.
    pub interrupted: bool,
}

/// A reason not to trust a run's figures as they stand.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    /// Deliveries are missing.
    Lost {
        /// Number of missing deliveries.
        lost: u64,
        /// Number of expected deliveries.
        expected: u64,
    },
    /// Some deliveries arrived more than once.
    Duplicated(u64),
    /// Faults occurred.
    Errors(Fault),
    /// The generator used all of its core.
    Saturated {
        /// Number of clients in the affected step.
        clients: u32,
        /// Share of a core.
        cpu_share: f64,
    },
    /// The generator was late.
    Late {
        /// Number of clients in the affected step.
        clients: u32,
        /// Lateness at the 99th percentile, in nanoseconds.
        late_p99_ns: u64,
    },
    /// The user ended the run early.
    Interrupted,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { lost, expected } => write!(f, "{lost} of {expected} deliveries were lost"),
            Self::Duplicated(count) => write!(f, "{count} deliveries came more than once"),
            Self::Errors(fault) => fault.fmt(f),
            Self::Saturated { clients, cpu_share } => write!(
                f,
                "the generator was the bottleneck at {clients} clients ({:.0} % of its core): the times \
                include its own delays",
                cpu_share * 100.0
            ),
            Self::Late { clients, late_p99_ns } => write!(
                f,
                "the generator was late at {clients} clients ({:.1} ms at the 99th percentile): give it a core of its own",
                *late_p99_ns as f64 / 1e6
            ),
            Self::Interrupted => write!(f, "the run was ended early"),
        }
    }
}

impl Step {
    pub(crate) fn new(clients: u32, counts: Counts) -> Self {
        let mut errors = Faults::default();
        for _ in 0..counts.unacknowledged {
            errors.add("ack_missing", || "a broadcast was not acknowledged to its sender".to_owned());
        }
        for _ in 0..counts.unexpected {
            errors.add("unexpected_delivery", || "a message arrived at the wrong client".to_owned());
        }
        Self {
            clients,
            ack: counts.ack,
            delivery: counts.delivery,
            fan_out: counts.fan_out,
            messages: counts.messages,
            expected: counts.expected,
            received: counts.received,
            lost: counts.lost,
            duplicated: counts.duplicated,
            late: counts.late,
            errors,
            ..Self::default()
        }
    }

    /// Returns deliveries per second over the duration of the broadcasts.
    pub fn deliveries_per_s(&self) -> f64 {
        if self.duration_s > 0.0 { self.received as f64 / self.duration_s } else { 0.0 }
    }

    /// Formats the line that `websocket-bench` prints for a step, with its definition of a percentile (the
    /// value at index `p·n/100` of the sorted times, `benchmark/stat.go`) and its whole milliseconds. `None`
    /// if this was not a classic run.
    pub fn classic_line(&self) -> Option<String> {
        let mut sorted = self.acks_ns.clone();
        sorted.sort_unstable();
        let ms = |index: usize| sorted.get(index).map(|ns| (ns + 500_000) / 1_000_000);
        let rank = |percent: usize| percent * sorted.len() / 100;
        let (p95, min, median, max) =
            (ms(rank(95))?, ms(0)?, ms(rank(50))?, ms(sorted.len().checked_sub(1)?)?);
        Some(format!(
            "clients: {:5}    95per-rtt: {p95:3}ms    min-rtt: {min:3}ms    median-rtt: {median:3}ms    max-rtt: {max:3}ms",
            self.clients
        ))
    }

    fn summarized(&self) -> Step<Times> {
        Step {
            clients: self.clients,
            start_s: self.start_s,
            connect: self.connect.times(),
            ack: self.ack.times(),
            delivery: self.delivery.times(),
            fan_out: self.fan_out.times(),
            messages: self.messages,
            expected: self.expected,
            received: self.received,
            lost: self.lost,
            duplicated: self.duplicated,
            late: self.late,
            disconnects: self.disconnects,
            errors: self.errors.clone(),
            duration_s: self.duration_s,
            generator: self.generator,
            acks_ns: Vec::new(),
        }
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.lost > 0 {
            problems.push(Problem::Lost { lost: self.lost, expected: self.expected });
        }
        if self.duplicated > 0 {
            problems.push(Problem::Duplicated(self.duplicated));
        }
        if self.messages > 0 && self.generator.is_saturated() {
            problems.push(Problem::Saturated { clients: self.clients, cpu_share: self.generator.cpu_share });
        }
        if let Some(late_p99_ns) = self.generator.too_late_for(&self.fan_out) {
            problems.push(Problem::Late { clients: self.clients, late_p99_ns });
        }
        problems
    }
}

impl CableFigures {
    /// Returns the figures with summaries in place of distributions.
    pub(crate) fn summarized(&self) -> CableFigures<Times> {
        let steps = self.steps.iter().map(Step::summarized).collect();
        CableFigures { steps, generator: self.generator, interrupted: self.interrupted }
    }

    /// Returns the reasons why the run is not clean; empty if it is.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.steps.iter().flat_map(Step::problems).collect();
        problems.extend(self.errors().iter().map(Problem::Errors));
        if self.interrupted {
            problems.push(Problem::Interrupted);
        }
        problems
    }

    /// Returns the faults of all steps, by class.
    pub fn errors(&self) -> Faults {
        let mut all = Faults::default();
        self.steps.iter().for_each(|step| all.merge(&step.errors));
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_classic_line_has_the_classic_percentile() {
        let mut step = Step::new(1_000, Counts::default());
        assert_eq!(step.classic_line(), None);
        // With 20 samples the 95th percentile of websocket-bench is the maximum: 95·20/100 = 19, the last index.
        step.acks_ns = (1..=20).map(|ms| ms * 1_000_000).collect();
        assert_eq!(
            step.classic_line().unwrap(),
            "clients:  1000    95per-rtt:  20ms    min-rtt:   1ms    median-rtt:  11ms    max-rtt:  20ms"
        );
    }

    #[test]
    fn every_reason_not_to_trust_a_run_is_named() {
        let mut step = Step::new(
            10,
            Counts { messages: 5, expected: 50, received: 49, lost: 1, duplicated: 2, ..Counts::default() },
        );
        step.generator =
            Generator { cpu_s: 5.0, cpu_share: 0.97, late_p99_ns: Some(3_000_000), ..Generator::default() };
        step.errors.add("reset", || "connection reset by peer".to_owned());
        let outcome = CableFigures { steps: vec![step], generator: Generator::default(), interrupted: true };
        let text: Vec<String> = outcome.problems().iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                "1 of 50 deliveries were lost",
                "2 deliveries came more than once",
                "the generator was the bottleneck at 10 clients (97 % of its core): the times include its own delays",
                "the generator was late at 10 clients (3.0 ms at the 99th percentile): give it a core of its own",
                "reset × 1: connection reset by peer",
                "the run was ended early",
            ]
        );
    }

    #[test]
    fn lateness_that_is_small_beside_the_fan_out_does_not_taint() {
        let mut step = Step::new(10, Counts { messages: 1, ..Counts::default() });
        step.fan_out.record_ns(100_000_000);
        step.generator.late_p99_ns = Some(3_000_000);
        assert_eq!(step.problems(), []);
    }
}
