//! `unbloat tune`: the answer of the final comparison and the tried setups, as text and as JSON. The page of
//! the final comparison has a section for them.

use crate::compare::{Experiment, document as compared, text as compared_text};
use crate::style::{Ink, Style, wrap};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use unbloat_lab::metric::Metric;
use unbloat_lab::tune::SearchResult;
use unbloat_lab::tune::space::LeftOut;
use unbloat_lab::tune::standings::{Fate, Tried};

/// Renders a search and its final comparison, whose answer comes last.
#[must_use]
pub fn text(found: &SearchResult, last: &Experiment, style: &Style) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", style.paint(Ink::Bold, "TRIED"));
    let columns = columns(&found.tried);
    let width = found.tried.iter().map(|tried| tried.variant.name.chars().count()).max().unwrap_or(0).max(6);
    let heads: String = columns.iter().map(|metric| format!("  {:>9}", metric.short())).collect();
    let head = format!("  {:width$}  {:>6}{heads}  then", "setup", "blocks");
    let _ = writeln!(out, "{}", style.paint(Ink::Dim, &head));
    for tried in &found.tried {
        let cell = |metric: &Metric| format!("  {:>9}", ratio(tried, *metric).unwrap_or_default());
        let cells: String = columns.iter().map(cell).collect();
        let _ = writeln!(
            out,
            "  {:width$}  {:>6}{cells}  {}",
            tried.variant.name,
            tried.blocks,
            fate(&tried.fate)
        );
    }
    out.push_str(&style.paint(Ink::Dim, &wrap(NOTE, style.width, 2)));
    for (why, names) in left_out(&found.left_out) {
        out.push_str(&wrap(&format!("not tried: {}: {why}", names.join(", ")), style.width, 2));
    }
    out + "\n" + &compared_text(last, style)
}

/// The caveat about the figures of rounds.
pub(crate) const NOTE: &str = "Ratios to the control in the short runs of the search: first impressions, by which the hopeless are dropped. \
                               The best of many looks better there than it is. The answer is from fresh runs alone.";

/// Returns the metrics that any of them has.
pub(crate) fn columns(tried: &[Tried]) -> Vec<Metric> {
    let has =
        |metric: &Metric| tried.iter().any(|tried| tried.ratios.iter().any(|(known, _)| known == metric));
    Metric::ALL.into_iter().filter(has).collect()
}

/// `0.72×`.
pub(crate) fn ratio(tried: &Tried, metric: Metric) -> Option<String> {
    let of_metric = tried.ratios.iter().find(|(known, _)| *known == metric);
    of_metric.map(|(_, ratio)| format!("{ratio:.2}×"))
}

/// Describes the fate of a setup.
pub(crate) fn fate(fate: &Fate) -> String {
    match fate {
        Fate::Final => "compared in full".to_owned(),
        Fate::Dropped(round) => format!("dropped after round {round}"),
        Fate::Failed(round, why) => format!("failed in round {round}: {why}"),
    }
}

/// Groups the setups that were not tried, by reason.
pub(crate) fn left_out(all: &[LeftOut]) -> BTreeMap<String, Vec<&str>> {
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for left in all {
        reasons.entry(left.why.to_string()).or_default().push(&left.what);
    }
    reasons
}

/// Renders the document (`docs/reference/tune.schema.json`).
#[must_use]
pub fn document(found: &SearchResult, last: &Experiment, unbloat: &Path) -> Value {
    json!({
        "schema": 1,
        "tried": found.tried.iter().map(|tried| self::tried(tried, unbloat)).collect::<Vec<_>>(),
        "left_out": found.left_out.iter().map(|left| json!({ "what": left.what, "why": left.why })).collect::<Vec<_>>(),
        "final": compared(last),
    })
}

fn tried(tried: &Tried, unbloat: &Path) -> Value {
    let (fate, round, why) = match &tried.fate {
        Fate::Final => ("final", None, None),
        Fate::Dropped(round) => ("dropped", Some(round), None),
        Fate::Failed(round, why) => ("failed", Some(round), Some(why)),
    };
    json!({
        "name": tried.variant.name,
        "words": tried.variant.words(unbloat),
        "start": tried.variant.start,
        "fate": fate,
        "round": round,
        "why": why,
        "blocks": tried.blocks,
        "ratios": ratios(tried),
    })
}

fn ratios(tried: &Tried) -> Value {
    let named = |(metric, ratio): &(Metric, f64)| (metric.name().to_owned(), json!(ratio));
    Value::Object(tried.ratios.iter().map(named).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::compare::fixture::Owned;
    use unbloat_lab::tune::space::Why;
    use unbloat_lab::variant::{Variant, built_in};

    pub(crate) fn found() -> SearchResult {
        let tried = |variant: Variant, fate, ratio: Option<f64>| Tried {
            variant,
            fate,
            blocks: 3,
            ratios: ratio.into_iter().map(|ratio| (Metric::PssEnd, ratio)).collect(),
        };
        let named = |name: &str| Variant { name: name.to_owned(), ..Variant::default() };
        SearchResult {
            tried: vec![
                tried(named("small"), Fate::Final, Some(0.58)),
                tried(built_in("arenas=2").unwrap(), Fate::Dropped(1), Some(0.9)),
                tried(
                    named("odd"),
                    Fate::Failed(1, "the server did not get ready: no such option".into()),
                    None,
                ),
            ],
            left_out: vec![LeftOut { what: "refork".to_owned(), why: Why::NotPuma }],
            recording: "final.unbloat".into(),
        }
    }

    #[test]
    fn the_text_has_the_answer_and_what_was_tried() {
        let text = text(&found(), &Owned::new(8).experiment(), &Style::PLAIN);
        for piece in [
            "Decided: use small",
            "ENV MALLOC_ARENA_MAX=2",
            "TRIED",
            "0.58×  compared in full",
            "0.90×  dropped after round 1",
            "failed in round 1: the server did not get ready",
            "not tried: refork: server.start does not run puma itself",
        ] {
            assert!(text.contains(piece), "{piece}: {text}");
        }
    }

    #[test]
    fn the_document_follows_its_schema() {
        let document = document(&found(), &Owned::new(8).experiment(), Path::new("unbloat"));
        unbloat_test_support::assert_follows(&document, "tune.schema.json");
        assert_eq!(document["tried"][1]["words"], json!(["env", "MALLOC_ARENA_MAX=2"]));
        assert_eq!(document["final"]["recommendation"]["variant"], "small");
    }
}
