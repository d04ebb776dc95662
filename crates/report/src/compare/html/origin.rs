//! Where the figures come from: runs that do not count, what proves the variants, the machine, and how to make them again.

use super::super::{Experiment, text};
use super::{About, section};
use crate::markup::escape;
use std::fmt::{self, Write as _};
use std::path::Path;
use unbloat_lab::result::most_harness_cpu;

/// Runs left out, proofs, and the environment.
pub(super) fn evidence(out: &mut String, experiment: &Experiment, about: &About) -> fmt::Result {
    let mut body = String::new();
    let left_out = text::left_out(experiment);
    if !left_out.is_empty() {
        body.push_str("<h3>Runs left out</h3><ul class=\"notes\">");
        for (why, runs) in left_out {
            write!(body, "<li>{}: {}</li>", escape(&runs), escape(&why))?;
        }
        body.push_str("</ul>");
    }
    body.push_str("<h3>What proves each variant</h3><ul class=\"notes\">");
    for (index, variant) in experiment.variants.iter().enumerate() {
        let proof = experiment.results.iter().find(|run| run.counts_for(index));
        let proof = proof.map_or("no run that counts".to_owned(), |run| run.proof.join("; "));
        write!(body, "<li><b>{}</b>: {}</li>", escape(&variant.name), escape(&proof))?;
    }
    body.push_str("</ul><h3>Environment</h3><table class=\"facts\">");
    for (name, value) in &about.environment {
        write!(body, "<tr><td>{}</td><td>{}</td></tr>", escape(&name.replace('_', " ")), escape(value))?;
    }
    let harness = most_harness_cpu(experiment.results) * 100.0;
    write!(
        body,
        "<tr><td>CPU that the harness took while a load ran, at most</td><td>{harness:.2} % of the machine's</td></tr></table>"
    )?;
    section(out, "Where the figures come from", "", &body)
}

/// The plan, the command, and what must be the same.
pub(super) fn reproduction(out: &mut String, experiment: &Experiment, about: &About) -> fmt::Result {
    let plan = format!("{}.toml", stem(&about.recording));
    let version =
        about.environment.iter().find(|(name, _)| name == "unbloat").map(|(_, value)| value.as_str());
    let body = format!(
        "<p>Save the plan below as {plan}, where the paths in it lead to the application, and run:</p>\
         <p><code>unbloat compare {plan} {blocks}</code></p>\
         <p class=\"quiet\">Measured with unbloat {version}. The plan's seed, {seed}, gives the order of the runs in each block and \
         the resampling behind the intervals.</p>\
         <p>This page again, from the recording, which has every run, sample and mark, and the plan:</p>\
         <p><code>unbloat report {recording}</code></p>\
         <h3>The plan</h3><pre class=\"plan\">{text}</pre>",
        plan = escape(&plan),
        blocks = blocks(experiment),
        version = escape(version.unwrap_or("of unknown version")),
        seed = experiment.plan.design.seed,
        recording = escape(&about.recording),
        text = plan_as_html(&about.plan),
    );
    section(out, "How to reproduce it", "", &body)
}

/// As many blocks as there are here.
fn blocks(experiment: &Experiment) -> String {
    match experiment.analysis.settings.looks {
        0 | 1 => format!("--blocks {}", experiment.analysis.blocks),
        _ => "--until-decided".to_owned(),
    }
}

fn stem(recording: &str) -> String {
    Path::new(recording).file_stem().map_or("plan".into(), |stem| stem.to_string_lossy()).into_owned()
}

/// Its lines and tabs are no control characters to be shown as such.
fn plan_as_html(plan: &str) -> String {
    let lines = plan.trim_end().lines().map(|line| escape(&line.replace('\t', "    ")));
    lines.collect::<Vec<_>>().join("\n")
}
