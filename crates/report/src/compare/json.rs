//! The document of `unbloat compare --json` (`docs/reference/compare.schema.json`).

use super::{Experiment, sentence};
use serde_json::{Map, Value, json};
use unbloat_lab::analysis::{Aa, Analysis, Comparison, VariantAnalysis};
use unbloat_lab::demands::Bar;
use unbloat_lab::metric::Metric;
use unbloat_lab::recommend::{Objection, Standing};
use unbloat_lab::result::most_harness_cpu;
use unbloat_stats::power::ALPHA;

/// Renders the document.
#[must_use]
pub fn document(experiment: &Experiment) -> Value {
    let Analysis { variants, aa, blocks, comparisons, warnings, settings, .. } = experiment.analysis;
    let recommended = sentence::recommended(experiment);
    let deploy: Vec<Value> = super::text::deploy(experiment)
        .into_iter()
        .map(|(place, line)| json!({ "where": place, "line": line }))
        .collect();
    json!({
        "schema": 1,
        "title": experiment.plan.title,
        "blocks": blocks,
        "looks": settings.look_count(),
        "alpha": ALPHA,
        "margin": settings.rule.not_worse.first().map_or(0.0, |metric| settings.rule.margin(*metric)),
        "margins": per_metric(settings.rule.metrics().into_iter().map(|metric| (metric, json!(settings.rule.margin(metric))))),
        "rate": experiment.calibration.map(|calibration| calibration.rate_per_s),
        "utilization": experiment.calibration.and_then(|calibration| calibration.utilization),
        "sustained": experiment.calibration.and_then(|calibration| calibration.sustained_per_s),
        "run_s": experiment.calibration.map(|calibration| calibration.run_s),
        "comparisons": comparisons,
        "harness_cpu": most_harness_cpu(experiment.results),
        "control": experiment.variants.first().map(|v| v.name.as_str()),
        "variants": variants.iter().enumerate().map(|(index, of)| variant(experiment, index, of)).collect::<Vec<_>>(),
        "aa": per_metric(aa.iter().map(|(metric, aa)| (*metric, control_itself(aa)))),
        "mde": per_metric(aa.iter().map(|(metric, aa)| (*metric, json!(aa.minimum_detectable_ratio)))),
        "recommendation": {
            "variant": recommended,
            "decided": experiment.recommendation.is_decided(),
            "chance": experiment.recommendation.forecast.as_ref().map(|forecast| forecast.chance),
            "reason": sentence::reason(experiment),
            "deploy": deploy,
        },
        "warnings": warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "runs": experiment.results.iter().map(|run| json!({
            "variant": experiment.variants.get(run.slot.variant).map(|v| v.name.as_str()),
            "block": run.slot.block,
            "repeated": run.repeat,
            "other_cpu": run.other_cpu,
            "counts": run.excluded.is_none(),
        })).collect::<Vec<_>>(),
        "excluded": experiment.results.iter().filter_map(|run| Some(json!({
            "variant": experiment.variants.get(run.slot.variant).map(|v| v.name.as_str()),
            "block": run.slot.block,
            "why": run.excluded.as_ref()?.to_string(),
        }))).collect::<Vec<_>>(),
    })
}

fn variant(experiment: &Experiment, index: usize, variant: &VariantAnalysis) -> Value {
    let standing = index.checked_sub(1).and_then(|index| experiment.recommendation.standings.get(index));
    let (standing, because) = standing.map_or(("control", None), |standing| words(*standing));
    json!({
        "name": variant.name,
        "standing": standing,
        "because": because,
        "runs": variant.runs,
        "excluded": variant.excluded,
        "metrics": per_metric(variant.metrics.iter().map(|(metric, comparison)| (*metric, compared(*metric, comparison)))),
    })
}

/// Returns the standing, and the metric or event behind it.
fn words(standing: Standing) -> (&'static str, Option<&'static str>) {
    match standing {
        Standing::Passes => ("passes", None),
        Standing::RuledOut(Objection::GainsTooLittle) => ("ruled_out", Some("gains_too_little")),
        Standing::RuledOut(Objection::Costs(metric)) => ("ruled_out", Some(metric.name())),
        Standing::RuledOut(Objection::Barred(Bar::NotMeasured(metric))) => ("ruled_out", Some(metric.name())),
        Standing::RuledOut(Objection::Barred(Bar::Died(_))) => ("ruled_out", Some("died")),
        Standing::Open(metric) => ("open", Some(metric.name())),
        Standing::Dropped(metric) => ("dropped", Some(metric.name())),
    }
}

/// Renders a comparison. Absent values are unknown: a ratio needs a block with both; an interval needs five.
fn compared(metric: Metric, comparison: &Comparison) -> Value {
    let interval = comparison.contrast.and_then(|c| c.interval);
    let mut fields = Map::from_iter([
        ("median".to_owned(), json!(comparison.median)),
        ("verdict".to_owned(), json!(comparison.verdict.name())),
        ("values".to_owned(), json!(comparison.values.iter().map(|v| v.1).collect::<Vec<_>>())),
    ]);
    let optional = [
        ("ratio", comparison.contrast.map(|c| c.ratio)),
        ("ratio_low", interval.map(|i| i.0)),
        ("ratio_high", interval.map(|i| i.1)),
        ("p_adjusted", comparison.p_adjusted),
        ("worst", comparison.worst(metric)),
    ];
    fields.extend(optional.into_iter().filter_map(|(key, value)| Some((key.to_owned(), json!(value?)))));
    Value::Object(fields)
}

fn control_itself(aa: &Aa) -> Value {
    json!({
        "ratio": aa.contrast.ratio,
        "ratio_low": aa.contrast.interval.map(|i| i.0),
        "ratio_high": aa.contrast.interval.map(|i| i.1),
        "p": aa.contrast.p,
    })
}

fn per_metric(entries: impl Iterator<Item = (Metric, Value)>) -> Value {
    Value::Object(entries.map(|(metric, value)| (metric.name().to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::fixture::Owned;
    use super::*;

    #[test]
    fn a_document_has_every_metric_and_what_the_harness_took() {
        let mut owned = Owned::new(6);
        owned.results[3].harness_cpu = 0.004;
        let document = document(&owned.experiment());
        assert_eq!(document["harness_cpu"], 0.004);
        for metric in ["pss_peak", "floor", "p99"] {
            assert!(document["variants"][1]["metrics"][metric]["ratio"].is_f64(), "{metric}");
        }
        unbloat_test_support::assert_follows(&document, "compare.schema.json");
    }
}
