//! What a run is measured by: one positive number per run and metric.

use serde::{Deserialize, Serialize};

/// A quantity that a run yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Proportional bytes of the server's tree when the load ends.
    PssEnd,
    /// The largest that was sampled.
    PssPeak,
    /// After the idle tail.
    PssIdle,
    /// PSS − bloat over the tree when the load ends: what the application itself needs.
    Floor,
    /// cached + trimmable + stranded over the tree when the load ends.
    Bloat,
    /// Median latency: fan-out time, response time or queue latency, as the driver measures.
    P50,
    /// Its 95th percentile.
    P95,
    /// Its 99th percentile.
    P99,
    /// Work per second: deliveries, requests or jobs.
    Throughput,
    /// CPU seconds of the server's tree per unit of work.
    CpuPerUnit,
}

/// The unit of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Per second.
    PerSecond,
}

impl Metric {
    /// All metrics, in the order of the report.
    pub const ALL: [Metric; 10] = [
        Metric::PssEnd,
        Metric::PssPeak,
        Metric::PssIdle,
        Metric::Floor,
        Metric::Bloat,
        Metric::P50,
        Metric::P95,
        Metric::P99,
        Metric::Throughput,
        Metric::CpuPerUnit,
    ];

    /// The name in JSON, in recordings and in plans.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Metric::PssEnd => "pss_end",
            Metric::PssPeak => "pss_peak",
            Metric::PssIdle => "pss_idle",
            Metric::Floor => "floor",
            Metric::Bloat => "bloat",
            Metric::P50 => "p50",
            Metric::P95 => "p95",
            Metric::P99 => "p99",
            Metric::Throughput => "throughput",
            Metric::CpuPerUnit => "cpu_per_unit",
        }
    }

    /// The unit of the values.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Metric::PssEnd | Metric::PssPeak | Metric::PssIdle | Metric::Floor | Metric::Bloat => Unit::Bytes,
            Metric::P50 | Metric::P95 | Metric::P99 | Metric::CpuPerUnit => Unit::Seconds,
            Metric::Throughput => Unit::PerSecond,
        }
    }

    /// Whether less is better. Only for throughput more is.
    #[must_use]
    pub fn less_is_better(self) -> bool {
        self != Metric::Throughput
    }
}

#[cfg(test)]
mod tests {
    use super::Metric;

    #[test]
    fn names_are_those_of_serde() {
        for metric in Metric::ALL {
            assert_eq!(serde_json::to_value(metric).ok(), Some(metric.name().into()));
        }
    }
}
