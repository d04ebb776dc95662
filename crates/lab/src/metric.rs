//! The metrics of a run: one positive number per run and metric, with one table row per metric.

use serde::{Deserialize, Serialize};

/// The unit of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// A plain number: a rate, a count, a share.
    Number(Number),
}

/// The unit of a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// The name in recordings.
    pub name: &'static str,
    /// Text after a value, with its space if it needs one.
    pub suffix: &'static str,
    /// Digits after the decimal point.
    pub decimals: usize,
}

/// The direction in which a metric gets better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Lower is better.
    Less,
    /// Higher is better.
    More,
}

/// The facts about a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Descriptor {
    /// The name in JSON, in recordings and in plans.
    pub name: &'static str,
    /// The name in the middle of a sentence.
    pub words: &'static str,
    /// The heading of a column.
    pub short: &'static str,
    /// The unit of the values.
    pub unit: Unit,
    /// The direction in which it gets better.
    pub better: Better,
    /// The share by which it may get worse unless a plan says otherwise: what users mean by "no cost". For the
    /// metric to minimize, the smallest gain worth having.
    pub margin: f64,
    /// The table in a terminal has a column for it; pages and documents have all metrics.
    pub in_text: bool,
}

/// Defines the table, from which the enum, [`Metric::ALL`] and [`Metric::descriptor`] are generated.
macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident $descriptor:expr;)*) => {
        /// A quantity that a run yields.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Metric {
            $($(#[$doc])* $variant,)*
        }

        impl Metric {
            /// All metrics, in the order of the report.
            pub const ALL: [Metric; [$(Metric::$variant),*].len()] = [$(Metric::$variant),*];

            /// Its row in the table.
            #[must_use]
            pub const fn descriptor(self) -> &'static Descriptor {
                match self {
                    $(Metric::$variant => {
                        const ROW: Descriptor = $descriptor;
                        &ROW
                    })*
                }
            }
        }
    };
}

const fn memory(name: &'static str, words: &'static str, short: &'static str, in_text: bool) -> Descriptor {
    Descriptor { name, words, short, unit: Unit::Bytes, better: Better::Less, margin: 0.05, in_text }
}

const fn latency(name: &'static str, words: &'static str, short: &'static str, in_text: bool) -> Descriptor {
    Descriptor { name, words, short, unit: Unit::Seconds, better: Better::Less, margin: 0.10, in_text }
}

metrics! {
    /// Proportional bytes of the server's tree when the load ends.
    PssEnd memory("pss_end", "memory (PSS after the load)", "PSS end", true);
    /// The largest PSS sampled.
    PssPeak memory("pss_peak", "memory (PSS at its peak)", "PSS peak", false);
    /// PSS after the idle tail.
    PssIdle memory("pss_idle", "memory (PSS after idling)", "PSS idle", true);
    /// PSS − bloat over the tree when the load ends: the application's own needs.
    Floor memory("floor", "floor", "floor", true);
    /// cached + trimmable + stranded over the tree when the load ends.
    Bloat memory("bloat", "bloat", "bloat", true);
    /// Median latency: fan-out time, response time or queue latency, depending on the driver.
    P50 latency("p50", "median latency", "p50", true);
    /// 95th percentile of the latency.
    P95 latency("p95", "p95 latency", "p95", true);
    /// 99th percentile of the latency.
    P99 latency("p99", "p99 latency", "p99", false);
    /// Mean latency of the slowest tenth, which does not jump when a single full collection falls into a run
    /// or not.
    TailMean latency("tail_mean", "tail latency (mean of the slowest tenth)", "tail", false);
    /// Work per second: deliveries, requests or jobs.
    Throughput Descriptor {
        name: "throughput",
        words: "throughput",
        short: "work/s",
        unit: Unit::Number(Number { name: "1/s", suffix: "/s", decimals: 0 }),
        better: Better::More,
        margin: 0.05,
        in_text: true,
    };
    /// CPU seconds of the server's tree per unit of work.
    CpuPerUnit Descriptor {
        name: "cpu_per_unit",
        words: "CPU per unit of work",
        short: "CPU/unit",
        unit: Unit::Seconds,
        better: Better::Less,
        margin: 0.05,
        in_text: true,
    };
}

impl Metric {
    /// The name in JSON, in recordings and in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.descriptor().name
    }

    /// The name in the middle of a sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        self.descriptor().words
    }

    /// The heading of a column.
    #[must_use]
    pub const fn short(self) -> &'static str {
        self.descriptor().short
    }

    /// The unit of the values.
    #[must_use]
    pub const fn unit(self) -> Unit {
        self.descriptor().unit
    }

    /// Returns whether less is better.
    #[must_use]
    pub const fn less_is_better(self) -> bool {
        match self.descriptor().better {
            Better::Less => true,
            Better::More => false,
        }
    }
}

impl Unit {
    /// The name in recordings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::Seconds => "s",
            Unit::Number(number) => number.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Metric;
    use std::collections::BTreeSet;

    /// The reference of plans lists the metrics; a row missing there is undocumented.
    const REFERENCE: &str = include_str!("../../../docs/reference/plan.md");

    #[test]
    fn names_are_those_of_serde_and_each_its_own() {
        for metric in Metric::ALL {
            assert_eq!(serde_json::to_value(metric).ok(), Some(metric.name().into()));
        }
        let names: BTreeSet<_> = Metric::ALL.map(Metric::name).into();
        assert_eq!(names.len(), Metric::ALL.len());
    }

    #[test]
    fn every_metric_stands_in_the_reference() {
        for metric in Metric::ALL {
            assert!(
                REFERENCE.contains(&format!("`{}`", metric.name())),
                "{} is not in docs/reference/plan.md",
                metric.name()
            );
        }
    }
}
