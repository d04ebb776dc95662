//! The answer in sentences; every figure comes from the analysis.

use super::Experiment;
use unbloat_heap::Iec;
use unbloat_lab::analysis::{Comparison, Finding};
use unbloat_lab::metric::{Metric, Unit};
use unbloat_lab::plan::Rule;
use unbloat_lab::recommend::{More, Objection, Recommendation};
use unbloat_lab::remedy::Remedy;

/// The metrics that a text shows; the page and the documents have all.
pub(super) fn shown() -> impl Iterator<Item = Metric> {
    Metric::ALL.into_iter().filter(|metric| metric.descriptor().in_text)
}

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

/// The answer in a few words.
#[must_use]
pub(super) fn headline(experiment: &Experiment) -> String {
    match (experiment.recommendation, recommended(experiment)) {
        (Recommendation::Use { .. }, Some(name)) => format!("Decided: use {name}"),
        (Recommendation::Keep { open: true, .. }, Some(_)) => {
            "Not decided: no difference shown so far".to_owned()
        }
        (Recommendation::Keep { .. }, Some(name)) if shows_a_difference(experiment) => {
            format!("Decided: keep {name}")
        }
        (Recommendation::Keep { .. }, Some(name)) => format!("The same within the margin: keep {name}"),
        (Recommendation::Use { .. } | Recommendation::Keep { .. }, None)
        | (Recommendation::NeedBlocks { .. } | Recommendation::NoData, _) => "Not decided".to_owned(),
    }
}

fn shows_a_difference(experiment: &Experiment) -> bool {
    let mut comparisons = experiment.analysis.variants.iter().flat_map(|v| v.metrics.values());
    comparisons.any(|comparison| matches!(comparison.verdict, Finding::Better | Finding::Worse))
}

/// Why.
#[must_use]
pub(super) fn reason(experiment: &Experiment) -> String {
    let name = |index: usize| experiment.variants.get(index).map_or("?", |v| v.name.as_str());
    let minimize = experiment.plan.rule.minimize.words();
    match experiment.recommendation {
        Recommendation::Use { variant, ties } => reason_to_use(experiment, *variant, ties),
        Recommendation::Keep { detectable, smaller, .. } => {
            let mut text = format!(
                "No variant is shown to take less {minimize} than the {} at no cost in {}.",
                name(0),
                list(&experiment.plan.rule.not_worse),
            );
            text += &match (smaller, detectable) {
                (Some((variant, objection)), _) => format!(
                    " {} takes {} of it, but {}.",
                    name(*variant),
                    gain(experiment, *variant).unwrap_or_default(),
                    against(experiment, *variant, *objection),
                ),
                (None, Some(ratio)) => format!(
                    " It would have shown a difference of {:.0} % with 80 % probability.",
                    (ratio - 1.0) * 100.0
                ),
                (None, None) => String::new(),
            };
            text + &remedy(experiment)
        }
        Recommendation::NoData => {
            "No block has a run of the control and one of a variant that both count; why the others do not stands below."
                .to_owned()
        }
        Recommendation::NeedBlocks { variant, metric, more } => {
            let certain = compared(experiment, *variant, experiment.plan.rule.minimize)
                .is_some_and(|gain| gain.verdict == Finding::Better);
            let looks = if certain { "certainly takes less" } else { "looks smaller in" };
            format!(
                "{} {looks} {minimize}: {}. But {}{}",
                name(*variant),
                gain(experiment, *variant).unwrap_or_default(),
                needed(experiment, *variant, *metric, *more),
                remedy(experiment),
            )
        }
    }
}

fn reason_to_use(experiment: &Experiment, variant: usize, ties: &[usize]) -> String {
    let rule = &experiment.plan.rule;
    let name = |index: usize| experiment.variants.get(index).map_or("?", |v| v.name.as_str());
    let mut text = format!(
        "{} takes {} {} of the {}'s",
        name(variant),
        rule.minimize.words(),
        gain(experiment, variant).unwrap_or_default(),
        name(0),
    );
    let costs: Vec<String> =
        rule.not_worse.iter().filter_map(|&metric| cost(experiment, variant, metric)).collect();
    text += &match costs.is_empty() {
        true => ". This load measures nothing that it could cost.".to_owned(),
        false => format!(", and {}.", costs.join(", and ")),
    };
    if !ties.is_empty() {
        let names: Vec<&str> = ties.iter().map(|&i| name(i)).collect();
        text += &format!(" It cannot be told from {}.", names.join(" and "));
    }
    text + &exclusions(experiment, variant)
}

/// Runs of the recommended variant that were left out.
fn exclusions(experiment: &Experiment, variant: usize) -> String {
    let runs = experiment.results.iter().filter(|run| run.slot.variant == variant);
    let whys: Vec<String> = runs.filter_map(|run| Some(run.excluded.as_ref()?.to_string())).collect();
    match whys.first() {
        None => String::new(),
        Some(why) if whys.len() == 1 => format!(" One of its runs is left out: {why}."),
        Some(why) => format!(" {} of its runs are left out, the first because {why}.", whys.len()),
    }
}

fn against(experiment: &Experiment, variant: usize, objection: Objection) -> String {
    match objection {
        Objection::Costs(metric) => {
            let shown = compared(experiment, variant, metric).and_then(contrast).unwrap_or_default();
            format!("its {} is worse: {shown}", metric.words())
        }
        Objection::NotMeasured(metric) => format!("none of its runs yields {}", metric.words()),
        Objection::Died(1) => "its server ended by itself in one run".to_owned(),
        Objection::Died(runs) => format!("its server ended by itself in {runs} runs"),
    }
}

fn needed(experiment: &Experiment, variant: usize, metric: Metric, more: More) -> String {
    let open = format!("{} is not decided yet", metric.words());
    let so_far = compared(experiment, variant, metric).and_then(contrast).unwrap_or_default();
    match more {
        More::Blocks(_) | More::BeyondLimit => format!("{open}: {so_far}."),
        More::NoUse => format!(
            "{open}: {so_far} is more than the {:.0} % that the rule allows, and if that is right, more blocks will only \
             confirm it.",
            experiment.plan.rule.margin(metric) * 100.0,
        ),
    }
}

/// The one change that would decide it, and its price.
fn remedy(experiment: &Experiment) -> String {
    let Experiment { plan, calibration, results, analysis, recommendation, .. } = *experiment;
    let minutes = |minutes: f64| format!("about {:.0} minutes", minutes.max(1.0).ceil());
    match unbloat_lab::remedy::remedy(plan, calibration, results, analysis, recommendation) {
        None => String::new(),
        Some(Remedy::OpenLoop) => {
            " This would decide it: an open loop (rate = \"auto\" in [load]); a closed loop keeps the server saturated, and its \
             latency is that of a queue."
                .to_owned()
        }
        Some(Remedy::QuieterMachine { disturbed, places }) => format!(
            " This would decide it: a quieter machine; {disturbed} of {places} runs were disturbed each time they were tried."
        ),
        Some(Remedy::MoreBlocks { blocks, minutes: time }) => format!(
            " This would decide it: about {blocks} more block{}, {}{}.",
            if blocks == 1 { "" } else { "s" },
            minutes(time),
            price_of_looks(analysis.settings.look_count()),
        ),
        Some(Remedy::LongerRuns { run_s, minutes: time }) => format!(
            " This would decide it: longer runs (run-length = \"{run_s:.0}s\" in [load]), {} in all.",
            minutes(time)
        ),
        Some(Remedy::Margin { metric, supported }) => format!(
            " This would decide it: a margin of {:.0} % for {} (rule.margin), if you can live with that.",
            (supported * 100.0).ceil(),
            metric.words()
        ),
    }
}

/// Looks that were planned share the 5 %; one that is added afterwards comes on top.
fn price_of_looks(looks: usize) -> &'static str {
    match looks {
        1 => {
            " (--until-decided adds them; given from the start it shares the 5 % among its looks, given now they come on top of \
             this one's)"
        }
        _ => "",
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

fn compared<'a>(experiment: &Experiment<'a>, variant: usize, metric: Metric) -> Option<&'a Comparison> {
    experiment.analysis.variants.get(variant)?.metrics.get(&metric)
}

fn gain(experiment: &Experiment, variant: usize) -> Option<String> {
    contrast(compared(experiment, variant, experiment.plan.rule.minimize)?)
}

fn cost(experiment: &Experiment, variant: usize, metric: Metric) -> Option<String> {
    let comparison = compared(experiment, variant, metric)?;
    let shown = contrast(comparison)?;
    Some(match comparison.verdict {
        Finding::Better => format!("its {} is better: {shown}", metric.words()),
        _ => {
            let margin = experiment.plan.rule.margin(metric);
            let supported = comparison.worst(metric).map(|worst| (worst - 1.0).max(0.0));
            let smaller =
                supported.filter(|supported| *supported < margin).map_or(String::new(), |supported| {
                    format!(" (the data would support a margin of {:.1} %)", supported * 100.0)
                });
            format!("its {} is at most {:.0} % worse: {shown}{smaller}", metric.words(), margin * 100.0)
        }
    })
}

/// The largest cost that the interval allows, as it is compared with the margin.
pub(super) fn at_most(comparison: &Comparison, metric: Metric) -> Option<String> {
    let percent = (comparison.worst(metric)? - 1.0) * 100.0;
    Some(match percent >= 0.0 {
        true => format!("at most {percent:.1} % worse"),
        false => format!("at least {:.1} % better", -percent),
    })
}

/// `p95 10 %, CPU/unit 5 %`.
pub(super) fn margins(rule: &Rule) -> String {
    let one = |metric: &Metric| format!("{} {:.0} %", metric.short(), rule.margin(*metric) * 100.0);
    rule.not_worse.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn list(metrics: &[Metric]) -> String {
    metrics.iter().map(|metric| metric.words()).collect::<Vec<_>>().join(" and ")
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

#[cfg(test)]
mod tests {
    use super::super::fixture::Owned;
    use super::*;
    use unbloat_lab::result::{Exclusion, RunResult};

    /// Headline and reason of eight blocks in which the variant "small" takes 0.6 of the memory and costs nothing, after
    /// its runs were changed.
    fn told(change: impl Fn(&mut RunResult)) -> (String, String) {
        let mut owned = Owned::new(8);
        owned.results.iter_mut().filter(|run| run.slot.variant == 1).for_each(change);
        owned.conclude();
        (headline(&owned.experiment()), reason(&owned.experiment()))
    }

    fn times(run: &mut RunResult, metric: Metric, factor: f64) {
        run.metrics.entry(metric).and_modify(|value| *value *= factor);
    }

    #[test]
    fn nothing_shown_is_said_to_be_nothing_shown() {
        let (headline, reason) = told(|run| times(run, Metric::PssEnd, 1.0 / 0.6));
        assert_eq!(headline, "The same within the margin: keep glibc");
        assert!(reason.contains("It would have shown a difference of "), "{reason}");
    }

    #[test]
    fn what_is_smaller_but_costs_is_named_with_its_cost() {
        let (headline, reason) = told(|run| times(run, Metric::P95, 1.5));
        assert_eq!(headline, "Decided: keep glibc");
        assert!(reason.contains("small takes 0.60× ("), "{reason}");
        assert!(reason.contains("of it, but its p95 latency is worse: 1.50× ("), "{reason}");
    }

    #[test]
    fn a_server_that_ended_by_itself_is_an_objection() {
        let (headline, reason) = told(|run| {
            run.excluded = (run.slot.block == 3).then(|| Exclusion::Died("SIGSEGV".into()));
        });
        assert_eq!(headline, "Decided: keep glibc");
        assert!(reason.contains("but its server ended by itself in one run"), "{reason}");
    }

    #[test]
    fn what_is_left_out_of_a_recommended_variant_stands_in_the_answer() {
        let (headline, reason) = told(|run| {
            run.excluded = (run.slot.block == 3).then(|| Exclusion::LeftBehind("4711 (sleep)".into()));
        });
        assert_eq!(headline, "Decided: use small");
        let left_out = "One of its runs is left out: the run left something behind: 4711 (sleep).";
        assert!(reason.ends_with(left_out), "{reason}");
    }

    #[test]
    fn a_cost_beyond_the_margin_is_not_argued_away_with_more_blocks() {
        let (headline, reason) =
            told(|run| times(run, Metric::P95, if run.slot.block % 2 == 0 { 1.4 } else { 0.9 }));
        assert_eq!(headline, "Not decided");
        assert!(reason.contains("is more than the 10 % that the rule allows"), "{reason}");
    }
}
