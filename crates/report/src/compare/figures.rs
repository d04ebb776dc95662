//! Figures of a comparison in words: values, ratios, costs and margins.

use unbloat_heap::Iec;
use unbloat_lab::analysis::Comparison;
use unbloat_lab::metric::{Metric, Number, Unit};
use unbloat_lab::plan::Rule;

/// Returns the metrics shown in text; the page and the documents have all.
pub(super) fn shown() -> impl Iterator<Item = Metric> {
    Metric::ALL.into_iter().filter(|metric| metric.descriptor().in_text)
}

/// Formats a share in percent, with at most one decimal.
pub(super) fn percent(share: f64) -> String {
    let tenths = (share * 1000.0).round() / 10.0;
    format!("{tenths}")
}

/// `0.58× (0.55–0.61)`.
pub(super) fn ratio(ratio: f64, interval: Option<(f64, f64)>) -> String {
    match interval {
        Some((low, high)) => format!("{ratio:.2}× ({low:.2}–{high:.2})"),
        None => format!("{ratio:.2}×"),
    }
}

/// Formats the ratio to the control.
pub(super) fn contrast(comparison: &Comparison) -> Option<String> {
    comparison.contrast.map(|contrast| ratio(contrast.ratio, contrast.interval))
}

/// Formats the largest cost within the interval, as compared with the margin.
pub(super) fn at_most(comparison: &Comparison, metric: Metric) -> Option<String> {
    let percent = (comparison.worst(metric)? - 1.0) * 100.0;
    Some(match percent >= 0.0 {
        true => format!("at most {percent:.1} % worse"),
        false => format!("at least {:.1} % better", -percent),
    })
}

/// Formats as `p95 10 %, CPU/unit 5 %`.
pub(super) fn margins(rule: &Rule) -> String {
    let one = |metric: &Metric| format!("{} {:.0} %", metric.short(), rule.margin(*metric) * 100.0);
    rule.not_worse.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Formats a metric's value for people.
#[must_use]
pub(super) fn value(metric: Metric, value: f64) -> String {
    match metric.unit() {
        Unit::Bytes => Iec(value as u64).to_string(),
        Unit::Number(Number { decimals, suffix, .. }) => format!("{value:.decimals$}{suffix}"),
        Unit::Seconds if value == 0.0 => "0".to_owned(),
        Unit::Seconds if value >= 1.0 => format!("{value:.2} s"),
        Unit::Seconds if value >= 0.001 => format!("{:.1} ms", value * 1e3),
        Unit::Seconds => format!("{:.0} µs", value * 1e6),
    }
}
