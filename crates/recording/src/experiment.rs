//! Results of experiments and load drivers: variants, runs, load steps, latencies and other figures.

use crate::{RunId, StepId, VariantId};

/// A row of `variant`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Variant {
    pub id: VariantId,
    pub name: String,
    /// JSON.
    pub settings: String,
}

/// A row of `run`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Run {
    pub id: RunId,
    pub variant: Option<VariantId>,
    /// The block's number.
    pub block: Option<i64>,
    pub position: Option<i64>,
    pub started_ns: i64,
    pub ended_ns: Option<i64>,
    /// `done`, or the problem; `None` while it runs or if it was cut short.
    pub outcome: Option<String>,
}

/// A row of `step`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Step {
    pub id: StepId,
    pub run: Option<RunId>,
    pub name: String,
    pub started_ns: i64,
    pub ended_ns: Option<i64>,
    /// JSON.
    pub parameters: String,
}

/// A row of `latency`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latency {
    /// The step it was measured in.
    pub step: StepId,
    /// `fan_out`, `ack`, `delivery`, `response`, `queue`, …
    pub kind: String,
    /// Number of values in the histogram.
    pub count: u64,
    /// HdrHistogram V2 bytes (not deflated), values in nanoseconds.
    pub histogram: Vec<u8>,
}

/// A row of `metric`.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Metric {
    pub run: Option<RunId>,
    pub step: Option<StepId>,
    pub name: String,
    pub value: f64,
    pub unit: String,
}
