//! The answer in a sentence, each figure of it from the analysis.

use super::Experiment;
use unbloat_heap::Iec;
use unbloat_lab::analysis::{Comparison, Verdict};
use unbloat_lab::metric::{Metric, Unit};
use unbloat_lab::recommend::Recommendation;

/// The metrics that a text shows; the page and the documents have all.
pub(super) const SHOWN: [Metric; 8] = [
    Metric::PssEnd,
    Metric::PssIdle,
    Metric::Floor,
    Metric::Bloat,
    Metric::P50,
    Metric::P95,
    Metric::Throughput,
    Metric::CpuPerUnit,
];

/// The name of the variant to use: also the control, when nothing is shown to be better.
#[must_use]
pub(super) fn recommended<'a>(experiment: &Experiment<'a>) -> Option<&'a str> {
    let index = match experiment.recommendation {
        Recommendation::Use { variant, .. } => *variant,
        Recommendation::Keep { .. } => 0,
        Recommendation::NeedBlocks { .. } | Recommendation::NoData => return None,
    };
    experiment.variants.get(index).map(|variant| variant.name.as_str())
}

/// Why.
#[must_use]
pub(super) fn reason(experiment: &Experiment) -> String {
    let rule = &experiment.plan.rule;
    let name = |index: usize| experiment.variants.get(index).map_or("?", |v| v.name.as_str());
    let control = name(0);
    match experiment.recommendation {
        Recommendation::Use { variant, ties } => {
            let mut text = format!(
                "{} takes {} {} of the {control}'s",
                name(*variant),
                words(rule.minimize),
                gain(experiment, *variant).unwrap_or_default(),
            );
            let costs: Vec<String> =
                rule.not_worse.iter().filter_map(|&metric| cost(experiment, *variant, metric)).collect();
            text += &match costs.is_empty() {
                true => ". This load measures nothing that it could cost.".to_owned(),
                false => format!(", and {}.", costs.join(", and ")),
            };
            if !ties.is_empty() {
                let names: Vec<&str> = ties.iter().map(|&i| name(i)).collect();
                text += &format!(" It cannot be told from {}.", names.join(" and "));
            }
            text
        }
        Recommendation::Keep { detectable } => {
            let size = detectable.map_or(String::new(), |ratio| {
                format!(
                    " It would have shown a difference of {:.0} % with 80 % probability.",
                    (ratio - 1.0) * 100.0
                )
            });
            format!(
                "No variant is shown to take less {} than the {control} at no cost in {}.{size}",
                words(rule.minimize),
                list(&rule.not_worse),
            )
        }
        Recommendation::NoData => {
            "No block has a run of the control and one of a variant that both count; why the others do not stands below."
                .to_owned()
        }
        Recommendation::NeedBlocks { variant, metric, more } => {
            let needed = more.map_or_else(
                || "more blocks than the plan's max-blocks allows".to_owned(),
                |more| format!("about {more} more blocks (--until-decided adds them)"),
            );
            format!(
                "{} looks smaller ({}), but {} is not decided yet: that needs {needed}.",
                name(*variant),
                gain(experiment, *variant).unwrap_or_default(),
                words(*metric),
            )
        }
    }
}

/// `0.58× (0.55–0.61)`.
pub(super) fn ratio(ratio: f64, interval: Option<(f64, f64)>) -> String {
    match interval {
        Some((low, high)) => format!("{ratio:.2}× ({low:.2}–{high:.2})"),
        None => format!("{ratio:.2}×"),
    }
}

/// The ratio to the control.
pub(super) fn contrast(comparison: &Comparison) -> Option<String> {
    comparison.contrast.map(|contrast| ratio(contrast.ratio, contrast.interval))
}

fn gain(experiment: &Experiment, variant: usize) -> Option<String> {
    contrast(experiment.analysis.variants.get(variant)?.metrics.get(&experiment.plan.rule.minimize)?)
}

fn cost(experiment: &Experiment, variant: usize, metric: Metric) -> Option<String> {
    let comparison = experiment.analysis.variants.get(variant)?.metrics.get(&metric)?;
    let shown = contrast(comparison)?;
    Some(match comparison.verdict {
        Verdict::Better => format!("its {} is better: {shown}", words(metric)),
        _ => format!(
            "its {} is at most {:.0} % worse: {shown}",
            words(metric),
            experiment.plan.rule.margin * 100.0
        ),
    })
}

/// A metric in words.
#[must_use]
pub(super) fn words(metric: Metric) -> &'static str {
    match metric {
        Metric::PssEnd => "memory (PSS after the load)",
        Metric::PssPeak => "memory (PSS at its peak)",
        Metric::PssIdle => "memory (PSS after idling)",
        Metric::Floor => "floor",
        Metric::Bloat => "bloat",
        Metric::P50 => "median latency",
        Metric::P95 => "p95 latency",
        Metric::P99 => "p99 latency",
        Metric::Throughput => "throughput",
        Metric::CpuPerUnit => "CPU per unit of work",
    }
}

/// A metric as the head of a column.
#[must_use]
pub(super) fn short(metric: Metric) -> &'static str {
    match metric {
        Metric::PssEnd => "PSS end",
        Metric::PssPeak => "PSS peak",
        Metric::PssIdle => "PSS idle",
        Metric::Floor => "floor",
        Metric::Bloat => "bloat",
        Metric::P50 => "p50",
        Metric::P95 => "p95",
        Metric::P99 => "p99",
        Metric::Throughput => "work/s",
        Metric::CpuPerUnit => "CPU/unit",
    }
}

fn list(metrics: &[Metric]) -> String {
    metrics.iter().map(|&metric| words(metric)).collect::<Vec<_>>().join(" and ")
}

/// A value of a metric for people.
#[must_use]
pub(super) fn value(metric: Metric, value: f64) -> String {
    match metric.unit() {
        Unit::Bytes => Iec(value as u64).to_string(),
        Unit::PerSecond => format!("{value:.0}/s"),
        Unit::Seconds if value == 0.0 => "0".to_owned(),
        Unit::Seconds if value >= 1.0 => format!("{value:.2} s"),
        Unit::Seconds if value >= 0.001 => format!("{:.1} ms", value * 1e3),
        Unit::Seconds => format!("{:.0} µs", value * 1e6),
    }
}
