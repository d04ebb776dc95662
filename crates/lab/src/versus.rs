//! Compares two experiments: for every variant in both, the second experiment's runs against the first's.
//!
//! Runs of two experiments are not paired, so the ratio includes everything else that changed between them,
//! such as the state of the machine. Within an experiment, the control's two runs of a block share the
//! block's conditions. They are therefore combined into one figure, their geometric mean, since the interval
//! assumes independent values.

use crate::file::Stored;
use crate::metric::Metric;
use crate::result::RunResult;
use crate::software;
use std::collections::{BTreeMap, BTreeSet};
use unbloat_stats::median::median;
use unbloat_stats::power::ALPHA;
use unbloat_stats::unpaired::{Unpaired, unpaired};

/// The comparison of two experiments.
#[derive(Debug, Clone, PartialEq)]
pub struct Versus {
    /// Variants in both, in the first one's order.
    pub shared: Vec<Shared>,
    /// Names that occur in only one of them.
    pub alone: Vec<String>,
    /// Other differences: facts of the environment, keys of the plans, settings and software of the shared
    /// variants, as (name, first, second).
    pub differences: Vec<(String, String, String)>,
}

/// A variant in both experiments.
#[derive(Debug, Clone, PartialEq)]
pub struct Shared {
    /// Its name.
    pub name: String,
    /// Number of runs that count, in each.
    pub runs: (usize, usize),
    /// Metrics that both yield.
    pub metrics: BTreeMap<Metric, Change>,
}

/// One metric of one variant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Median over the first experiment's runs.
    pub first: f64,
    /// Median over the second one's.
    pub second: f64,
    /// The second against the first.
    pub change: Unpaired,
}

/// Compares two experiments.
#[must_use]
pub fn versus(first: &Stored, second: &Stored) -> Versus {
    let names = |stored: &Stored| stored.variants.iter().map(|v| v.name.clone()).collect::<Vec<_>>();
    let (names_first, names_second) = (names(first), names(second));
    let shared = names_first.iter().enumerate().filter_map(|(index, name)| {
        let other = names_second.iter().position(|n| n == name)?;
        Some(Shared {
            name: name.clone(),
            runs: (runs(first, index), runs(second, other)),
            metrics: Metric::ALL
                .into_iter()
                .filter_map(|metric| {
                    Some((metric, change(&values(first, index, metric), &values(second, other, metric))?))
                })
                .collect(),
        })
    });
    let missing = |of: &[String], from: &[String]| {
        of.iter().filter(|name| !from.contains(name)).cloned().collect::<Vec<_>>()
    };
    let alone = [missing(&names_first, &names_second), missing(&names_second, &names_first)].concat();
    Versus { shared: shared.collect(), alone, differences: differences(first, second) }
}

fn counting(stored: &Stored, variant: usize) -> impl Iterator<Item = &RunResult> {
    let runs = stored.runs.iter().map(|(_, result)| result);
    runs.filter(move |result| result.counts_for(variant))
}

fn runs(stored: &Stored, variant: usize) -> usize {
    counting(stored, variant).count()
}

/// Returns the values of the runs, with their blocks.
fn values(stored: &Stored, variant: usize, metric: Metric) -> Vec<(usize, f64)> {
    let value = |result: &RunResult| Some((result.slot.block, result.metrics.get(&metric).copied()?));
    counting(stored, variant).filter_map(value).collect()
}

fn change(first: &[(usize, f64)], second: &[(usize, f64)]) -> Option<Change> {
    let of_runs = |values: &[(usize, f64)]| median(&values.iter().map(|v| v.1).collect::<Vec<_>>());
    let change = unpaired(&of_blocks(first), &of_blocks(second), ALPHA)?;
    Some(Change { first: of_runs(first)?, second: of_runs(second)?, change })
}

/// Returns the geometric mean of each block's runs.
fn of_blocks(values: &[(usize, f64)]) -> Vec<f64> {
    let mut blocks: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    values.iter().for_each(|&(block, value)| blocks.entry(block).or_default().push(value.ln()));
    blocks.into_values().map(|logs| (logs.iter().sum::<f64>() / logs.len() as f64).exp()).collect()
}

fn differences(first: &Stored, second: &Stored) -> Vec<(String, String, String)> {
    let of_all = |stored: &Stored| -> BTreeMap<String, String> {
        let plan = &stored.plan;
        let title = [("plan".to_owned(), plan.title.clone())];
        let keys = [keys("server", &plan.server), keys("load", &plan.load), keys("design", &plan.design)];
        stored.environment.iter().cloned().chain(title).chain(keys.into_iter().flatten()).collect()
    };
    let mut differences = differing(&of_all(first), &of_all(second));
    // The same change in several variants is listed once.
    let mut of_variants: BTreeMap<(String, String, String), Vec<&str>> = BTreeMap::new();
    for (index, variant) in first.variants.iter().enumerate() {
        let Some(other) = second.variants.iter().position(|v| v.name == variant.name) else { continue };
        for difference in differing(&of_variant(first, index), &of_variant(second, other)) {
            of_variants.entry(difference).or_default().push(&variant.name);
        }
    }
    differences.extend(of_variants.into_iter().map(|((what, first, second), variants)| {
        (format!("{what} of {}", variants.join(", ")), first, second)
    }));
    differences
}

/// Returns the settings of a variant, and its server's software.
fn of_variant(stored: &Stored, index: usize) -> BTreeMap<String, String> {
    let settings = stored.variants.get(index).map(|variant| keys("variant", variant)).unwrap_or_default();
    let software =
        software::NAMES.map(|name| (name.to_owned(), stored.software(index, name).join(", then ")));
    settings.into_iter().chain(software).collect()
}

/// Returns the keys of a table of a plan, with their values as text.
fn keys(table: &str, value: &impl serde::Serialize) -> Vec<(String, String)> {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(value) else { return Vec::new() };
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    };
    fields.into_iter().map(|(key, value)| (format!("{table}.{key}"), text(value))).collect()
}

/// Returns the differences. An empty text stands for a missing value.
fn differing(
    first: &BTreeMap<String, String>,
    second: &BTreeMap<String, String>,
) -> Vec<(String, String, String)> {
    let names: BTreeSet<_> = first.keys().chain(second.keys()).collect();
    let value = |facts: &BTreeMap<String, String>, name| facts.get(name).cloned().unwrap_or_default();
    let all = names.into_iter().map(|name| (name.clone(), value(first, name), value(second, name)));
    all.filter(|(_, first, second)| first != second).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::analysis::tests::runs as simulated;
    use crate::plan::Plan;

    fn stored(compare: &str, effects: &[(f64, f64)]) -> Stored {
        let plan = Plan::parse(&format!(
            "title = \"x\"\ncompare = [{compare}]\n[server]\nstart = [\"a\"]\nready = {{ line = \"r\" }}\n[load]\ndriver = \"own\"\n"
        ))
        .unwrap();
        let results = simulated(6, effects);
        Stored {
            variants: plan.variants().unwrap(),
            plan,
            runs: results.into_iter().map(|result| (unbloat_recording::RunId(1), result)).collect(),
            looks: Some(1),
            calibration: None,
            environment: vec![],
            run_facts: BTreeMap::new(),
        }
    }

    #[test]
    fn variants_are_matched_by_name_and_what_only_one_has_is_said() {
        let first = stored(r#""glibc", "arenas=2""#, &[(1.0, 1.0), (0.5, 1.0)]);
        let second = stored(r#""lean", "glibc""#, &[(0.4, 1.0), (1.0, 1.0)]);
        let found = versus(&first, &second);
        assert_eq!(found.shared.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["glibc"]);
        // The control of an experiment runs twice per block.
        assert_eq!(found.shared[0].runs, (12, 6));
        let change = found.shared[0].metrics[&Metric::PssEnd].change;
        assert!((change.ratio - 1.0).abs() < 0.1 && change.interval.is_some(), "{change:?}");
        assert_eq!(found.alone, ["arenas=2", "lean"]);
        assert_eq!(found.differences, []);
    }

    #[test]
    fn two_runs_of_a_block_are_one_figure() {
        let block = |i: usize| [1.0, 1.4, 0.8, 1.1, 0.7, 1.2][i];
        let once = |factor: f64| (0..6).map(|i| (i, block(i) * factor)).collect::<Vec<_>>();
        // The same blocks with each run duplicated, which adds no information.
        let twice: Vec<_> = once(1.0).into_iter().flat_map(|value| [value, value]).collect();
        let (other, expected) = (once(1.3), change(&once(1.0), &once(1.3)).unwrap().change);
        let (low, high) = change(&twice, &other).unwrap().change.interval.unwrap();
        let (expected_low, expected_high) = expected.interval.unwrap();
        assert!((low - expected_low).abs() < 1e-9 && (high - expected_high).abs() < 1e-9);
        assert!((of_blocks(&[(3, 2.0), (3, 8.0), (5, 7.0)])[0] - 4.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_known_to_differ_is_listed() {
        let effects = [(1.0, 1.0), (0.5, 1.0)];
        let (first, mut second) =
            (stored(r#""glibc", "arenas=2""#, &effects), stored(r#""glibc", "arenas=2""#, &effects));
        second.plan.design.idle_tail = std::time::Duration::from_secs(1);
        second.variants[1].environment.insert("MALLOC_ARENA_MAX".into(), "3".into());
        let id = second.runs[0].0;
        second.run_facts.insert(id, BTreeMap::from([("ruby".into(), "3.3.8".into())]));
        let differences = versus(&first, &second).differences;
        let found: Vec<_> =
            differences.iter().map(|(what, _, second)| (what.as_str(), second.as_str())).collect();
        let expected = [
            ("design.idle-tail", "1s"),
            ("ruby of glibc, arenas=2", "3.3.8"),
            ("variant.environment of arenas=2", r#"{"MALLOC_ARENA_MAX":"3"}"#),
        ];
        assert_eq!(found, expected);
    }
}
