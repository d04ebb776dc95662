//! Two experiments beside each other: as text, as a page, and as JSON (`docs/reference/compare-files.schema.json`).

use super::chart::{Row, drawn};
use super::figures::{ratio, shown, value};
use crate::chart::page::STILL;
use crate::page::{Page, section};
use crate::style::{Ink, Style, wrap};
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use unbloat_lab::metric::Metric;
use unbloat_lab::versus::{Change, Shared, Versus};
use unbloat_untrusted::visible;

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

/// Explains the ratios.
const LEGEND: &str = "Medians over runs; the second experiment relative to the first with its 95 % interval (Welch, on logarithms). The two \
     were not run side by side: whatever else changed between them is in the ratio. An interval without 1 is a difference; \
     it is not corrected for how many are shown.";

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
    let _ = write!(out, "\n{}", style.paint(Ink::Dim, &wrap(LEGEND, style.width, 2)));
    if !two.versus.alone.is_empty() {
        out.push_str(&wrap(&format!("only in one of them: {}", two.versus.alone.join(", ")), style.width, 2));
    }
    for (what, first, second) in &two.versus.differences {
        out.push_str(&wrap(&format!("differs: {what}: {first:?} → {second:?}"), style.width, 2));
    }
    out
}

/// The direction of a change whose interval leaves 1 out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Better,
    Worse,
}

fn direction(metric: Metric, change: &Change) -> Option<Direction> {
    let (_, high) = change.change.interval.filter(|&(low, high)| low > 1.0 || high < 1.0)?;
    Some(if (high < 1.0) == metric.less_is_better() { Direction::Better } else { Direction::Worse })
}

fn ink(metric: Metric, change: &Change) -> Ink {
    match direction(metric, change) {
        Some(Direction::Better) => Ink::Green,
        Some(Direction::Worse) => Ink::Red,
        None => Ink::None,
    }
}

/// Renders two experiments as a page whose charts need no script.
#[must_use]
pub fn versus_html(two: &Two) -> String {
    let Versus { shared, alone, differences } = two.versus;
    let body = html! {
        @for (index, variant) in shared.iter().enumerate() { (of_variant(index, variant)) }
        section {
            p.quiet { (LEGEND) }
            @if !alone.is_empty() { p { "Only in one of them: " (visible(&alone.join(", "))) } }
        }
        @if !differences.is_empty() { (differing(differences)) }
    };
    let title = format!("{} → {}", two.first, two.second);
    let subtitle = "Two experiments that were not run side by side";
    Page { command: "unbloat report", title: &title, subtitle, body, parts: &[STILL] }.render()
}

fn of_variant(index: usize, variant: &Shared) -> Markup {
    let runs = format!("{} and {} runs", variant.runs.0, variant.runs.1);
    let changes: Vec<(Metric, &Change)> =
        variant.metrics.iter().map(|(&metric, change)| (metric, change)).collect();
    let row = |&(metric, change): &(Metric, &Change)| Row {
        index,
        name: metric.short(),
        dots: Vec::new(),
        ratio: change.change.ratio,
        interval: change.change.interval,
    };
    let label = format!("{}: the second experiment as a ratio to the first", variant.name);
    let body = html! {
        div.wide {
            table.sortable {
                thead { tr { th { "metric" } th { "first" } th { "second" } th { "second ÷ first" } } }
                tbody { @for (metric, change) in &changes { (change_row(*metric, change)) } }
            }
        }
        @if let Some(svg) = drawn(&changes.iter().map(row).collect::<Vec<_>>(), 1.0, &label) { (svg) }
    };
    section(&variant.name, &runs, &body)
}

fn change_row(metric: Metric, change: &Change) -> Markup {
    let class = match direction(metric, change) {
        Some(Direction::Better) => "better",
        Some(Direction::Worse) => "worse",
        None => "open",
    };
    html! {
        tr {
            td { (metric.words()) }
            td data-value=(change.first) { (value(metric, change.first)) }
            td data-value=(change.second) { (value(metric, change.second)) }
            td class=(class) data-value=(change.change.ratio) { (ratio(change.change.ratio, change.change.interval)) }
        }
    }
}

fn differing(differences: &[(String, String, String)]) -> Markup {
    let body = html! {
        table.facts {
            @for (what, first, second) in differences {
                tr { td { (visible(&what.replace('_', " "))) } td { (visible(first)) " → " (visible(second)) } }
            }
        }
    };
    section("What else differs", "", &body)
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
