//! The origin of the figures: excluded runs, proofs of the variants, the machine, and instructions to repeat
//! the measurement.

use super::super::{Experiment, text};
use super::About;
use crate::page::section;
use maud::{Markup, html};
use std::path::Path;
use unbloat_lab::result::most_harness_cpu;
use unbloat_untrusted::visible;

/// Renders excluded runs, proofs, and the environment.
pub(super) fn evidence(experiment: &Experiment, about: &About) -> Markup {
    let left_out = text::left_out(experiment);
    let harness = most_harness_cpu(experiment.results) * 100.0;
    let body = html! {
        @if !left_out.is_empty() {
            h3 { "Runs left out" }
            ul.notes { @for (why, runs) in &left_out { li { (visible(runs)) ": " (visible(why)) } } }
        }
        h3 { "Proof of each variant" }
        ul.notes {
            @for (index, variant) in experiment.variants.iter().enumerate() {
                li { b { (visible(&variant.name)) } ": " (visible(&proof(experiment, index))) }
            }
        }
        h3 { "Environment" }
        table.facts {
            @for (name, value) in &about.environment {
                tr { td { (visible(&name.replace('_', " "))) } td { (visible(value)) } }
            }
            tr {
                td { "CPU that the harness took while a load ran, at most" }
                td { (format!("{harness:.2} % of the machine's")) }
            }
        }
    };
    section("Origin of the figures", "", &body)
}

fn proof(experiment: &Experiment, variant: usize) -> String {
    let run = experiment.results.iter().find(|run| run.counts_for(variant));
    run.map_or("no run that counts".to_owned(), |run| run.proof.join("; "))
}

/// Renders the plan, the command, and the conditions that must be the same.
pub(super) fn reproduction(experiment: &Experiment, about: &About) -> Markup {
    let plan = visible(&format!("{}.toml", stem(&about.recording)));
    let version =
        about.environment.iter().find(|(name, _)| name == "unbloat").map(|(_, value)| value.as_str());
    let body = html! {
        p { "Save the plan below as " (plan) ", where the paths in it lead to the application, and run:" }
        p { code { "unbloat compare " (plan) (blocks(experiment)) } }
        p.quiet {
            "Measured with unbloat " (visible(version.unwrap_or("of unknown version"))) ". The plan's seed, "
            (experiment.plan.design.seed) ", gives the order of the runs in each block."
        }
        p { "To render this page again from the recording, which contains every run, sample and mark, and \
            the plan:" }
        p { code { "unbloat report " (visible(&about.recording)) } }
        h3 { "The plan" }
        pre.plan { (lines(&about.plan)) }
    };
    section("How to reproduce it", "", &body)
}

/// Returns the number of blocks to repeat the experiment with: as many as here, unless the data decided it.
fn blocks(experiment: &Experiment) -> String {
    if experiment.analysis.settings.look_count() > 1 {
        return String::new();
    }
    format!(" --blocks {}", experiment.analysis.blocks)
}

fn stem(recording: &str) -> String {
    Path::new(recording).file_stem().map_or("plan".into(), |stem| stem.to_string_lossy()).into_owned()
}

/// Returns a plan without control characters, except line ends.
fn lines(plan: &str) -> String {
    let lines = plan.trim_end().lines().map(|line| visible(&line.replace('\t', "    ")));
    lines.collect::<Vec<_>>().join("\n")
}
