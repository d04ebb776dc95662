//! The answer in sentences; every figure comes from the analysis.

use super::Experiment;
use super::figures::{contrast, percent};
use unbloat_lab::analysis::{Comparison, Finding};
use unbloat_lab::demands::Bar;
use unbloat_lab::metric::Metric;
use unbloat_lab::recommend::{Answer, Objection, Standing};
use unbloat_lab::remedy::Remedy;

/// Returns the name of the variant to use, which is the control if nothing is shown to be better.
#[must_use]
pub(super) fn recommended<'a>(experiment: &Experiment<'a>) -> Option<&'a str> {
    let index = match experiment.recommendation.answer {
        Answer::Use { variant, .. } => variant,
        Answer::Keep => 0,
        Answer::Undecided { .. } | Answer::NoData => return None,
    };
    experiment.variants.get(index).map(|variant| variant.name.as_str())
}

/// Returns the answer in a few words.
#[must_use]
pub(super) fn headline(experiment: &Experiment) -> String {
    match (&experiment.recommendation.answer, recommended(experiment)) {
        (Answer::Use { .. }, Some(name)) => format!("Decided: use {name}"),
        (Answer::Keep, Some(name)) if is_all_the_same(experiment) => {
            format!("The same within the margin: keep {name}")
        }
        (Answer::Keep, Some(name)) => format!("Decided: keep {name}"),
        (Answer::Use { .. } | Answer::Keep, None) | (Answer::Undecided { .. } | Answer::NoData, _) => {
            "Not decided".to_owned()
        }
    }
}

/// Returns whether no variant gains enough to be worthwhile, and none is shown to differ in anything.
fn is_all_the_same(experiment: &Experiment) -> bool {
    let gains_too_little =
        |standing: &Standing| matches!(standing, Standing::RuledOut(Objection::GainsTooLittle));
    let mut comparisons = experiment.analysis.variants.iter().flat_map(|v| v.metrics.values());
    experiment.recommendation.standings.iter().all(gains_too_little)
        && !comparisons.any(|comparison| matches!(comparison.verdict, Finding::Better | Finding::Worse))
}

fn name<'a>(experiment: &Experiment<'a>, variant: usize) -> &'a str {
    experiment.variants.get(variant).map_or("?", |variant| variant.name.as_str())
}

/// Returns the reason.
#[must_use]
pub(super) fn reason(experiment: &Experiment) -> String {
    match &experiment.recommendation.answer {
        Answer::Use { variant, ties } => reason_to_use(experiment, *variant, ties),
        Answer::Keep => reason_to_keep(experiment),
        Answer::NoData => {
            "No block has a run of the control and one of a variant that both count; why the others do not stands below."
                .to_owned()
        }
        Answer::Undecided { variant, metric } => {
            open(experiment, *variant, *metric) + &certain(experiment, *variant) + &prospect(experiment)
        }
    }
}

/// Lists the reasons against each variant.
fn reason_to_keep(experiment: &Experiment) -> String {
    let rule = &experiment.plan.rule;
    let against = experiment.recommendation.standings.iter().enumerate().filter_map(|(index, standing)| {
        let Standing::RuledOut(objection) = standing else { return None };
        Some(format!("{} {}", name(experiment, index + 1), self::against(experiment, index + 1, *objection)))
    });
    format!(
        "No variant takes {} % less {} than {} at no cost in {}: {}.",
        percent(rule.margin(rule.minimize)),
        rule.minimize.words(),
        name(experiment, 0),
        list(&rule.not_worse),
        against.collect::<Vec<_>>().join("; "),
    )
}

/// Describes the open question of the variant that looks smallest.
fn open(experiment: &Experiment, variant: usize, metric: Metric) -> String {
    let rule = &experiment.plan.rule;
    let gain = compared(experiment, variant, rule.minimize);
    let is_shown = gain.is_some_and(|gain| gain.verdict == Finding::Better);
    let takes = if is_shown { "certainly takes less" } else { "looks smaller in" };
    let so_far = |metric| compared(experiment, variant, metric).and_then(contrast).unwrap_or_default();
    let begins =
        format!("{} {takes} {}: {}", name(experiment, variant), rule.minimize.words(), so_far(rule.minimize));
    match metric == rule.minimize {
        true => format!(
            "{begins}; neither that it takes less nor that it takes less than {} % less is shown.",
            percent(rule.margin(metric))
        ),
        false => format!(
            "{begins}. But {} is not decided: {}, and the rule allows {} % more.",
            metric.words(),
            so_far(metric),
            percent(rule.margin(metric))
        ),
    }
}

/// Lists other variants that are shown to take less, whatever they cost.
fn certain(experiment: &Experiment, but: usize) -> String {
    let minimize = experiment.plan.rule.minimize;
    let shown = (1..experiment.variants.len()).filter(|variant| *variant != but).filter_map(|variant| {
        let gain = compared(experiment, variant, minimize).filter(|gain| gain.verdict == Finding::Better)?;
        Some(format!("{} {}", name(experiment, variant), contrast(gain)?))
    });
    let shown: Vec<String> = shown.collect();
    match shown.is_empty() {
        true => String::new(),
        false => format!(" Certain already, in {}: {}.", minimize.words(), shown.join(", ")),
    }
}

/// Describes the chance of an answer, and the change that would decide it.
fn prospect(experiment: &Experiment) -> String {
    let dropped = |standing: &&Standing| matches!(standing, Standing::Dropped(_));
    let dropped = experiment.recommendation.standings.iter().filter(dropped).count();
    let hopeless = match dropped {
        0 => "",
        _ => " What is open can hardly be decided in the blocks that are left.",
    };
    let chance = experiment.recommendation.forecast.as_ref().filter(|_| dropped == 0);
    let chance = chance.filter(|forecast| forecast.blocks > 0.0).map_or(String::new(), |forecast| {
        format!(" The chance that the blocks that are left decide it is {:.0} %.", forecast.chance * 100.0)
    });
    format!("{hopeless}{chance}{}", remedy(experiment))
}

fn reason_to_use(experiment: &Experiment, variant: usize, ties: &[usize]) -> String {
    let rule = &experiment.plan.rule;
    let name = |index: usize| experiment.variants.get(index).map_or("?", |v| v.name.as_str());
    let mut text = format!(
        "{} uses {} of {}'s {}",
        name(variant),
        gain(experiment, variant).unwrap_or_default(),
        name(0),
        rule.minimize.words(),
    );
    let costs: Vec<String> =
        rule.not_worse.iter().filter_map(|&metric| cost(experiment, variant, metric)).collect();
    text += &match costs.is_empty() {
        true => ". This load measures no cost.".to_owned(),
        false => format!("; {}.", costs.join("; ")),
    };
    if !ties.is_empty() {
        let names: Vec<&str> = ties.iter().map(|&i| name(i)).collect();
        text += &format!(" It cannot be distinguished from {}.", names.join(" and "));
    }
    text += &smaller_still(experiment, variant);
    text + &exclusions(experiment, variant)
}

/// Lists undecided variants that look smaller than the recommended one.
fn smaller_still(experiment: &Experiment, variant: usize) -> String {
    let minimize = experiment.plan.rule.minimize;
    let ratio = |variant| Some(compared(experiment, variant, minimize)?.contrast?.ratio);
    let is_smaller = |other: &usize| match minimize.less_is_better() {
        true => ratio(*other) < ratio(variant),
        false => ratio(*other) > ratio(variant),
    };
    let standings = experiment.recommendation.standings.iter().enumerate();
    let open = standings.filter(|(_, standing)| matches!(standing, Standing::Open(_) | Standing::Dropped(_)));
    let names: Vec<String> = open
        .map(|(index, _)| index + 1)
        .filter(is_smaller)
        .filter_map(|other| Some(format!("{} {}", name(experiment, other), gain(experiment, other)?)))
        .collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" Not decided, but smaller so far: {}.", names.join(", ")),
    }
}

/// Lists runs of the recommended variant that were left out.
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
    let shown = |metric| compared(experiment, variant, metric).and_then(contrast).unwrap_or_default();
    let minimize = experiment.plan.rule.minimize;
    match objection {
        Objection::GainsTooLittle => format!("takes {} of it", shown(minimize)),
        Objection::Costs(metric) => format!(
            "takes {} of it, but its {} is worse by more than {} %: {}",
            shown(minimize),
            metric.words(),
            percent(experiment.plan.rule.margin(metric)),
            shown(metric)
        ),
        Objection::Barred(Bar::NotMeasured(metric)) => format!("has no run that yields {}", metric.words()),
        Objection::Barred(Bar::Died(1)) => "is out because its server ended by itself in one run".to_owned(),
        Objection::Barred(Bar::Died(runs)) => {
            format!("is out because its server ended by itself in {runs} runs")
        }
    }
}

/// Describes the one change that would decide the experiment, and its cost.
fn remedy(experiment: &Experiment) -> String {
    let Experiment { plan, calibration, results, analysis, recommendation, .. } = *experiment;
    let minutes = |minutes: f64| format!("about {:.0} minutes", minutes.max(1.0).ceil());
    let plural = |count: usize| if count == 1 { "" } else { "s" };
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
        Some(Remedy::MoreBlocks { blocks, minutes: time, goes_on: true }) => format!(
            " This would decide it: about {blocks} more block{}, {}; the same command goes on.",
            plural(blocks),
            minutes(time),
        ),
        Some(Remedy::MoreBlocks { blocks, minutes: time, goes_on: false }) => {
            let most = match blocks > plan.design.max_blocks {
                true => format!(", and max-blocks = {blocks} in [design]"),
                false => String::new(),
            };
            format!(
                " This would decide it: about {blocks} block{} in a new recording (-o FILE without --blocks{most}), {}.",
                plural(blocks),
                minutes(time)
            )
        }
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
        Finding::Worse | Finding::Same | Finding::NotShown | Finding::Control | Finding::Exploratory => {
            let margin = experiment.plan.rule.margin(metric) * 100.0;
            let bound = comparison.worst(metric).map(|worst| (worst - 1.0).max(0.0) * 100.0);
            let at_most = match bound.filter(|bound| *bound < margin) {
                Some(bound) => format!("at most {bound:.1} % worse, and the rule allows {margin:.0} %"),
                None => format!("at most {margin:.0} % worse"),
            };
            format!("its {} is {shown}: {at_most}", metric.words())
        }
    })
}

fn list(metrics: &[Metric]) -> String {
    metrics.iter().map(|metric| metric.words()).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Owned;
    use super::*;
    use unbloat_lab::result::{Exclusion, RunResult};

    /// Returns headline and reason for eight blocks in which the variant "small" takes 0.6 of the memory and
    /// costs nothing, after its runs were changed.
    fn answer(change: impl Fn(&mut RunResult)) -> (String, String) {
        let mut owned = Owned::new(8);
        owned.results.iter_mut().filter(|run| run.slot.variant == 1).for_each(change);
        owned.conclude();
        (headline(&owned.experiment()), reason(&owned.experiment()))
    }

    fn times(run: &mut RunResult, metric: Metric, factor: f64) {
        run.metrics.entry(metric).and_modify(|value| *value *= factor);
    }

    #[test]
    fn what_gains_nothing_is_said_to_be_the_same() {
        let (headline, reason) = answer(|run| times(run, Metric::PssEnd, 1.0 / 0.6));
        assert_eq!(headline, "The same within the margin: keep glibc");
        assert!(
            reason.starts_with("No variant takes 5 % less memory (PSS after the load) than glibc"),
            "{reason}"
        );
        assert!(reason.contains("small takes 1.00× ("), "{reason}");
    }

    #[test]
    fn what_is_smaller_but_costs_is_named_with_its_cost() {
        let (headline, reason) = answer(|run| times(run, Metric::P95, 1.5));
        assert_eq!(headline, "Decided: keep glibc");
        assert!(reason.contains("small takes 0.60× ("), "{reason}");
        assert!(
            reason.contains("of it, but its p95 latency is worse by more than 10 %: 1.50× ("),
            "{reason}"
        );
    }

    #[test]
    fn a_server_that_ended_by_itself_is_an_objection() {
        let (headline, reason) = answer(|run| {
            run.excluded = (run.slot.block == 3).then(|| Exclusion::Died("SIGSEGV".into()));
        });
        assert_eq!(headline, "Decided: keep glibc");
        assert!(reason.contains("small is out because its server ended by itself in one run"), "{reason}");
    }

    #[test]
    fn what_is_left_out_of_a_recommended_variant_stands_in_the_answer() {
        let (headline, reason) = answer(|run| {
            run.excluded = (run.slot.block == 3).then(|| Exclusion::LeftBehind("4711 (sleep)".into()));
        });
        assert_eq!(headline, "Decided: use small");
        let left_out = "One of its runs is left out: the run left something behind: 4711 (sleep).";
        assert!(reason.ends_with(left_out), "{reason}");
    }

    #[test]
    fn what_is_not_decided_says_what_is_certain_and_what_would_decide_it() {
        let noisy = |run: &mut RunResult| {
            times(run, Metric::P95, if run.slot.block.is_multiple_of(2) { 1.16 } else { 0.9 })
        };
        let (headline, reason) = answer(noisy);
        assert_eq!(headline, "Not decided");
        assert!(
            reason.starts_with("small certainly takes less memory (PSS after the load): 0.60×"),
            "{reason}"
        );
        assert!(reason.contains("But p95 latency is not decided: 1.02× ("), "{reason}");
        assert!(
            reason.contains("This would decide it: about ") && reason.contains("new recording"),
            "{reason}"
        );
        let mut owned = Owned::new(8);
        owned.results.iter_mut().filter(|run| run.slot.variant == 1).for_each(noisy);
        owned.look(55);
        let reason = super::reason(&owned.experiment());
        assert!(reason.contains("The chance that the blocks that are left decide it is "), "{reason}");
        assert!(reason.ends_with("the same command goes on."), "{reason}");
    }
}
