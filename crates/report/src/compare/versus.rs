//! Two experiments beside each other, for a person and as JSON (`docs/reference/compare-files.schema.json`).

use super::sentence::{ratio, shown, value};
use crate::style::{Ink, Style, wrap};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use unbloat_lab::metric::Metric;
use unbloat_lab::versus::{Change, Versus};

/// Two experiments and the names of their files.
#[derive(Debug, Clone, Copy)]
pub struct Two<'a> {
    /// The first file.
    pub first: &'a str,
    /// The second file.
    pub second: &'a str,
    /// The differences.
    pub versus: &'a Versus,
}

/// Renders two experiments as text.
#[must_use]
pub fn versus_text(two: &Two, style: &Style) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}\n", style.paint(Ink::Bold, &format!("{} → {}", two.first, two.second)));
    for variant in &two.versus.shared {
        let runs = format!("  {} and {} runs", variant.runs.0, variant.runs.1);
        let _ = writeln!(out, "{}{}", style.paint(Ink::Bold, &variant.name), style.paint(Ink::Dim, &runs));
        for metric in shown() {
            let Some(change) = variant.metrics.get(&metric) else { continue };
            let _ = writeln!(
                out,
                "  {:26} {:>9} → {:>9}  {}",
                metric.words(),
                value(metric, change.first),
                value(metric, change.second),
                style.paint(ink(metric, change), &ratio(change.change.ratio, change.change.interval)),
            );
        }
    }
    let legend = "Medians over runs; the second experiment relative to the first with its 95 % interval (Welch, on logarithms). The \
                  two were not run side by side: whatever else changed between them is in the ratio. An interval without 1 is \
                  a difference; it is not corrected for how many are shown.";
    let _ = write!(out, "\n{}", style.paint(Ink::Dim, &wrap(legend, style.width, 2)));
    if !two.versus.alone.is_empty() {
        out.push_str(&wrap(&format!("only in one of them: {}", two.versus.alone.join(", ")), style.width, 2));
    }
    for (what, first, second) in &two.versus.differences {
        out.push_str(&wrap(&format!("differs: {what}: {first:?} → {second:?}"), style.width, 2));
    }
    out
}

fn ink(metric: Metric, change: &Change) -> Ink {
    match change.change.interval {
        Some((low, high)) if low > 1.0 || high < 1.0 => {
            if (high < 1.0) == metric.less_is_better() {
                Ink::Green
            } else {
                Ink::Red
            }
        }
        _ => Ink::None,
    }
}

/// Renders two experiments as JSON.
#[must_use]
pub fn versus_document(two: &Two) -> Value {
    let change = |change: &Change| {
        let mut fields = Map::from_iter([
            ("first".to_owned(), json!(change.first)),
            ("second".to_owned(), json!(change.second)),
            ("ratio".to_owned(), json!(change.change.ratio)),
        ]);
        if let Some((low, high)) = change.change.interval {
            fields.extend([("ratio_low".to_owned(), json!(low)), ("ratio_high".to_owned(), json!(high))]);
        }
        Value::Object(fields)
    };
    json!({
        "schema": 1,
        "first": two.first,
        "second": two.second,
        "variants": two.versus.shared.iter().map(|variant| json!({
            "name": variant.name,
            "runs": [variant.runs.0, variant.runs.1],
            "metrics": variant.metrics.iter()
                .map(|(metric, found)| (metric.name().to_owned(), change(found)))
                .collect::<Map<_, _>>(),
        })).collect::<Vec<_>>(),
        "alone": two.versus.alone,
        "differences": two.versus.differences.iter()
            .map(|(what, first, second)| json!({ "what": what, "first": first, "second": second }))
            .collect::<Vec<_>>(),
    })
}
