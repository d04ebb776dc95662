//! The answer in a sentence, each figure of it from the analysis.

use super::Experiment;
use unbloat_heap::Iec;
use unbloat_lab::analysis::{Comparison, Finding};
use unbloat_lab::metric::{Metric, Unit};
use unbloat_lab::recommend::{More, Objection, Recommendation};

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

/// The answer in a few words.
#[must_use]
pub(super) fn headline(experiment: &Experiment) -> String {
    match (experiment.recommendation, recommended(experiment)) {
        (Recommendation::Use { .. }, Some(name)) => format!("Use {name}"),
        (Recommendation::Keep { .. }, Some(name)) if shows_a_difference(experiment) => format!("Keep {name}"),
        (Recommendation::Keep { .. }, Some(name)) => format!("Keep {name}: no difference shown"),
        _ => "Not decided".to_owned(),
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
    let minimize = words(experiment.plan.rule.minimize);
    match experiment.recommendation {
        Recommendation::Use { variant, ties } => reason_to_use(experiment, *variant, ties),
        Recommendation::Keep { detectable, smaller } => {
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
            text
        }
        Recommendation::NoData => {
            "No block has a run of the control and one of a variant that both count; why the others do not stands below."
                .to_owned()
        }
        Recommendation::NeedBlocks { variant, metric, more } => format!(
            "{} looks smaller ({}), but {}",
            name(*variant),
            gain(experiment, *variant).unwrap_or_default(),
            needed(experiment, *variant, *metric, *more),
        ),
    }
}

fn reason_to_use(experiment: &Experiment, variant: usize, ties: &[usize]) -> String {
    let rule = &experiment.plan.rule;
    let name = |index: usize| experiment.variants.get(index).map_or("?", |v| v.name.as_str());
    let mut text = format!(
        "{} takes {} {} of the {}'s",
        name(variant),
        words(rule.minimize),
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

/// What is left out of a variant that is recommended nevertheless.
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
            format!("its {} is worse: {shown}", words(metric))
        }
        Objection::NotMeasured(metric) => format!("none of its runs yields {}", words(metric)),
        Objection::Died(1) => "its server ended by itself in one run".to_owned(),
        Objection::Died(runs) => format!("its server ended by itself in {runs} runs"),
    }
}

fn needed(experiment: &Experiment, variant: usize, metric: Metric, more: More) -> String {
    let open = format!("{} is not decided yet", words(metric));
    match more {
        More::Blocks(more) => {
            // Looks that were planned share the 5 %; one that is added afterwards comes on top.
            let price = match experiment.analysis.settings.looks {
                1 => {
                    "; given from the start it shares the 5 % among its looks, given now they come on top of this one's"
                }
                _ => "",
            };
            let plural = if more == 1 { "" } else { "s" };
            format!("{open}: that needs about {more} more block{plural} (--until-decided adds them{price}).")
        }
        More::BeyondLimit => format!("{open}: that needs more blocks than the plan's max-blocks allows."),
        More::NoUse => format!(
            "{open}: {} is more than the {:.0} % that the rule allows, and if that is right, more blocks will only \
             confirm it.",
            compared(experiment, variant, metric).and_then(contrast).unwrap_or_default(),
            experiment.plan.rule.margin * 100.0,
        ),
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
        Finding::Better => format!("its {} is better: {shown}", words(metric)),
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

/// How much worse a cost may be at most, by the bounds that are held against the margin.
pub(super) fn at_most(comparison: &Comparison, metric: Metric) -> Option<String> {
    let percent = (comparison.worst(metric)? - 1.0) * 100.0;
    Some(match percent >= 0.0 {
        true => format!("at most {percent:.1} % worse"),
        false => format!("at least {:.1} % better", -percent),
    })
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
        assert_eq!(headline, "Keep glibc: no difference shown");
        assert!(reason.contains("It would have shown a difference of "), "{reason}");
    }

    #[test]
    fn what_is_smaller_but_costs_is_named_with_its_cost() {
        let (headline, reason) = told(|run| times(run, Metric::P95, 1.5));
        assert_eq!(headline, "Keep glibc");
        assert!(reason.contains("small takes 0.60× ("), "{reason}");
        assert!(reason.contains("of it, but its p95 latency is worse: 1.50× ("), "{reason}");
    }

    #[test]
    fn a_server_that_ended_by_itself_is_an_objection() {
        let (headline, reason) = told(|run| {
            run.excluded = (run.slot.block == 3).then(|| Exclusion::Died("SIGSEGV".into()));
        });
        assert_eq!(headline, "Keep glibc");
        assert!(reason.contains("but its server ended by itself in one run"), "{reason}");
    }

    #[test]
    fn what_is_left_out_of_a_recommended_variant_stands_in_the_answer() {
        let (headline, reason) = told(|run| {
            run.excluded = (run.slot.block == 3).then(|| Exclusion::LeftBehind("4711 (sleep)".into()));
        });
        assert_eq!(headline, "Use small");
        let left_out = "One of its runs is left out: the run left something behind: 4711 (sleep).";
        assert!(reason.ends_with(left_out), "{reason}");
    }

    #[test]
    fn a_cost_beyond_the_margin_is_not_argued_away_with_more_blocks() {
        let (headline, reason) =
            told(|run| times(run, Metric::P95, if run.slot.block % 2 == 0 { 1.4 } else { 0.9 }));
        assert_eq!(headline, "Not decided");
        assert!(reason.contains("is more than the 3 % that the rule allows"), "{reason}");
    }
}
