//! The decision rule: the metric to minimize, the metrics that must not get worse, and their margins.

use crate::metric::Metric;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The decision rule: recommend the variant with the least of one metric among those shown not to cost more
/// than a margin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Rule {
    /// The metric to minimize.
    pub minimize: Metric,
    /// The metrics that must not get worse.
    pub not_worse: Vec<Metric>,
    /// The margins of the costs; for the metric to minimize, the gain that is worthwhile.
    pub margin: Margins,
}

impl Default for Rule {
    fn default() -> Self {
        Rule {
            minimize: Metric::PssEnd,
            not_worse: vec![Metric::P95, Metric::CpuPerUnit],
            margin: Margins::default(),
        }
    }
}

/// The margins by which metrics may get worse, as shares: 0.03 is 3 %.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a share, 0.05, or shares by metric, { p95 = 0.1, cpu_per_unit = 0.05 }")]
pub enum Margins {
    /// The same for all metrics.
    All(f64),
    /// For some metrics; the others have the margin of their [descriptor](crate::metric::Descriptor::margin).
    Each(BTreeMap<Metric, f64>),
}

impl Default for Margins {
    fn default() -> Self {
        Margins::Each(BTreeMap::new())
    }
}

impl Margins {
    /// Returns the margins that a plan names.
    pub(super) fn named(&self) -> Vec<f64> {
        match self {
            Margins::All(share) => vec![*share],
            Margins::Each(shares) => shares.values().copied().collect(),
        }
    }
}

impl Rule {
    /// Returns the share by which a metric may differ and still count as the same.
    #[must_use]
    pub fn margin(&self, metric: Metric) -> f64 {
        match &self.margin {
            Margins::All(share) => *share,
            Margins::Each(shares) => shares.get(&metric).copied().unwrap_or(metric.descriptor().margin),
        }
    }

    /// Returns the metrics of the rule, each once: the minimized one, then those that must not get worse.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let mut seen = BTreeSet::new();
        let all = std::iter::once(self.minimize).chain(self.not_worse.iter().copied());
        all.filter(|metric| seen.insert(*metric)).collect()
    }
}
