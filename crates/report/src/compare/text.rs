//! The comparison for a person at a terminal: the answer, the table relative to the control, and its
//! reliability.

use super::Experiment;
use super::figures::{self, shown, value};
use super::sentence;
use crate::style::{Ink, Style, wrap};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use unbloat_lab::analysis::{Comparison, Finding, VariantAnalysis};
use unbloat_lab::metric::Metric;
use unbloat_lab::recommend::Answer;
use unbloat_lab::result::most_harness_cpu;
use unbloat_stats::power::ALPHA;

/// Renders an experiment.
#[must_use]
pub fn text(experiment: &Experiment, style: &Style) -> String {
    let mut out = String::new();
    let heading = format!("{} · {}", experiment.plan.title, size(experiment));
    let _ = writeln!(out, "{}\n", style.paint(Ink::Bold, &heading));
    table(&mut out, experiment, style);
    trust(&mut out, experiment, style);
    // Printed last, so that it stays on the screen.
    let _ = writeln!(out, "\n{}", style.paint(Ink::Bold, "ANSWER"));
    let (headline, reason) = answer(experiment);
    let ink = if experiment.recommendation.is_decided() { Ink::Green } else { Ink::Yellow };
    let _ = writeln!(out, "  {}", style.paint(ink, &format!("{headline}.")));
    out.push_str(&wrap(&reason, style.width, 2));
    for (place, line) in deploy(experiment) {
        let _ = writeln!(out, "    {place:11} {}", style.paint(Ink::Green, &line));
    }
    out
}

/// Formats as `5 blocks · 25 runs`.
pub(super) fn size(experiment: &Experiment) -> String {
    let (blocks, runs) = (experiment.analysis.blocks, experiment.results.len());
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    format!("{blocks} block{} · {runs} run{}", plural(blocks), plural(runs))
}

/// Returns the answer in a few words, and the reason.
pub(super) fn answer(experiment: &Experiment) -> (String, String) {
    (sentence::headline(experiment), sentence::reason(experiment))
}

/// Returns the lines that deploy the recommended variant, each with its target; none if nothing is
/// recommended.
pub(super) fn deploy(experiment: &Experiment) -> Vec<(&'static str, String)> {
    match experiment.recommendation.answer {
        Answer::Use { variant, .. } => {
            let variant = experiment.variants.get(variant);
            variant.map(|v| unbloat_lab::deploy::deploy(v, experiment.plan)).unwrap_or_default()
        }
        Answer::Keep | Answer::Undecided { .. } | Answer::NoData => Vec::new(),
    }
}

/// Maximum width of the table in columns, unless names are very long.
const WIDEST: usize = 120;

fn table(out: &mut String, experiment: &Experiment, style: &Style) {
    let variants = &experiment.analysis.variants;
    // Metrics that no run has are left out.
    let has = |metric: &Metric| variants.iter().any(|v| v.metrics.contains_key(metric));
    let mut columns: Vec<Metric> = shown().filter(has).collect();
    let name_width = variants.iter().map(|v| v.name.chars().count()).max().unwrap_or(0).max(7);
    // The floor is PSS minus bloat, so it is the one to drop if the table would be too wide.
    if 8 + name_width + 12 * columns.len() > WIDEST {
        columns.retain(|metric| *metric != Metric::Floor);
    }
    let mut heading = format!("  {:name_width$}  {:>4}", "variant", "runs");
    columns.iter().for_each(|&metric| {
        let _ = write!(heading, "  {:>9} ", metric.short());
    });
    let _ = writeln!(out, "{}", style.paint(Ink::Dim, heading.trim_end()));
    for variant in variants {
        let _ = write!(out, "  {:name_width$}  {:>4}", variant.name, variant.runs);
        if variant.runs == 0 && variant.excluded > 0 {
            let _ = writeln!(out, "  {}", style.paint(Ink::Yellow, "all left out: see the reason below"));
            continue;
        }
        let cells: String = columns.iter().map(|&metric| cell(variant, metric, style)).collect();
        let _ = writeln!(out, "{}", cells.trim_end());
    }
    let claimed: Vec<&str> = experiment.plan.rule.metrics().into_iter().map(Metric::short).collect();
    let legend = format!(
        "the control in its units, the others relative to it (1.00× is the same). Of {}, which the rule looks at: ✓ better, \
         ✗ worse, = the same within the margin: shown; without a mark neither a difference nor its absence is shown. Of the \
         others nothing is claimed.",
        claimed.join(", ")
    );
    out.push_str(&style.paint(Ink::Dim, &wrap(&legend, style.width, 2)));
}

/// Formats eleven columns and a mark.
fn cell(variant: &VariantAnalysis, metric: Metric, style: &Style) -> String {
    let Some(comparison) = variant.metrics.get(&metric) else { return format!("  {:>9} ", "") };
    let (mark, ink) = match comparison.verdict {
        Finding::Better => ('✓', Ink::Green),
        Finding::Worse => ('✗', Ink::Red),
        Finding::Same => ('=', Ink::None),
        Finding::Control | Finding::NotShown | Finding::Exploratory => (' ', Ink::None),
    };
    style.paint(ink, &format!("  {:>9}{mark}", figure(metric, comparison)))
}

fn figure(metric: Metric, comparison: &Comparison) -> String {
    match (comparison.verdict, comparison.contrast) {
        (Finding::Control, _) => value(metric, comparison.median),
        (_, Some(contrast)) => format!("{:.2}×", contrast.ratio),
        (_, None) => String::new(),
    }
}

/// Adds the intervals of the rule's metrics, the control against itself, and the cautions.
fn trust(out: &mut String, experiment: &Experiment, style: &Style) {
    let rule = &experiment.plan.rule;
    let _ = writeln!(out, "\n{}", style.paint(Ink::Bold, "HOW SURE"));
    for metric in rule.metrics() {
        let level = (1.0 - ALPHA) * 100.0;
        let _ = writeln!(out, "  {}, ratio to the control with its {level:.0} % interval", metric.words());
        for variant in experiment.analysis.variants.iter().skip(1) {
            let Some(comparison) = variant.metrics.get(&metric) else { continue };
            let (Some(ratio), Some(p)) = (figures::contrast(comparison), comparison.p_adjusted) else {
                continue;
            };
            let worst = figures::at_most(comparison, metric).filter(|_| metric != rule.minimize);
            let worst = worst.map_or(String::new(), |worst| format!("  {worst}"));
            let _ = writeln!(out, "    {:20} {ratio:22} p = {p:.3}{worst}", variant.name);
        }
        if let Some(aa) = experiment.analysis.aa.get(&metric) {
            let seen = aa
                .minimum_detectable_ratio
                .map_or("none".to_owned(), |r| format!("{:.1} %", (r - 1.0) * 100.0));
            let _ = writeln!(
                out,
                "    {:20} {:.2}×, p = {:.3}; smallest difference this experiment would show: {seen}",
                "control to itself", aa.contrast.ratio, aa.contrast.p,
            );
        }
    }
    let looks = match experiment.analysis.settings.look_count() {
        1 => String::new(),
        looks => format!(" The data are looked at up to {looks} times, each time for a share of the 5 %."),
    };
    let how = format!(
        "p is corrected over all {} comparisons above; \"at most\" over the variants, and what is held against the margin ({}). \
         The smallest difference is shown with 80 % probability, if a variant is as noisy as the control.{looks}",
        experiment.analysis.comparisons,
        figures::margins(rule)
    );
    out.push_str(&style.paint(Ink::Dim, &wrap(&how, style.width, 2)));
    let _ = writeln!(
        out,
        "  harness: at most {:.2} % of the machine's CPU while a load ran",
        most_harness_cpu(experiment.results) * 100.0
    );
    for (why, runs) in left_out(experiment) {
        out.push_str(&wrap(&format!("left out: {runs}: {why}"), style.width, 2));
    }
    for warning in &experiment.analysis.warnings {
        out.push_str(&style.paint(Ink::Yellow, &wrap(&format!("caution: {warning}"), style.width, 2)));
    }
}

/// Returns the reasons for excluding runs, each once, with the variants and blocks.
pub(super) fn left_out(experiment: &Experiment) -> BTreeMap<String, String> {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for run in experiment.results {
        let Some(why) = &run.excluded else { continue };
        let name = experiment.variants.get(run.slot.variant).map_or("?", |v| v.name.as_str());
        reasons.entry(why.to_string()).or_default().push(format!("{name} in block {}", run.slot.block + 1));
    }
    reasons.into_iter().map(|(why, runs)| (why, runs.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Owned;
    use super::*;

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn the_text_has_the_floor_and_what_the_harness_took() {
        let text = text(&Owned::new(6).experiment(), &Style::PLAIN);
        assert!(text.contains("  floor"), "{text}");
        assert!(text.contains("harness: at most 0.10 % of the machine's CPU"), "{text}");
    }

    #[test]
    fn a_long_name_does_not_make_the_table_too_wide() {
        let mut owned = Owned::new(6);
        for metric in Metric::ALL {
            for run in &mut owned.results {
                run.metrics.entry(metric).or_insert(0.5);
            }
        }
        owned.conclude();
        for name in ["jemalloc-tuned", "jemalloc-tuned, and arenas"] {
            owned.analysis.variants[1].name = name.to_owned();
            let text = text(&owned.experiment(), &Style { width: WIDEST, color: false });
            assert!(widest(&text) <= WIDEST && text.contains(name), "{text}");
            assert_eq!(text.contains("  floor"), name.len() < 16, "{text}");
        }
    }
}
