//! The rule of decision: what is to be small, what must not get worse, and by how much at most.

use crate::metric::Metric;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Which variant to recommend: the least of one metric among those that are shown not to cost more than a margin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Rule {
    /// What is to be small.
    pub minimize: Metric,
    /// What must not get worse.
    pub not_worse: Vec<Metric>,
    /// By how much at most.
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

/// By how much a metric may get worse, as a share: 0.03 is 3 %.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a share, 0.05, or shares by metric, { p95 = 0.1, cpu_per_unit = 0.05 }")]
pub enum Margins {
    /// The same for all metrics.
    All(f64),
    /// Of some metrics; the others have that of their [descriptor](crate::metric::Descriptor::margin).
    Each(BTreeMap<Metric, f64>),
}

impl Default for Margins {
    fn default() -> Self {
        Margins::Each(BTreeMap::new())
    }
}

impl Margins {
    /// The shares that a plan names.
    pub(super) fn named(&self) -> Vec<f64> {
        match self {
            Margins::All(share) => vec![*share],
            Margins::Each(shares) => shares.values().copied().collect(),
        }
    }
}

impl Rule {
    /// The share by which a metric may differ and still count as the same.
    #[must_use]
    pub fn margin(&self, metric: Metric) -> f64 {
        match &self.margin {
            Margins::All(share) => *share,
            Margins::Each(shares) => shares.get(&metric).copied().unwrap_or(metric.descriptor().margin),
        }
    }

    /// The metrics that it looks at, each once: what is to be small, then what must not get worse.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let mut seen = BTreeSet::new();
        let all = std::iter::once(self.minimize).chain(self.not_worse.iter().copied());
        all.filter(|metric| seen.insert(*metric)).collect()
    }
}
