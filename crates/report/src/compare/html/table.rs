//! The table of all metrics relative to the control.

use super::super::{Experiment, sentence};
use crate::markup::escape;
use std::fmt::{self, Write as _};
use unbloat_lab::analysis::{Comparison, Finding};
use unbloat_lab::metric::Metric;

/// A row per variant, a column per metric that any run has.
pub(super) fn table(out: &mut String, experiment: &Experiment) -> fmt::Result {
    let variants = &experiment.analysis.variants;
    let columns: Vec<Metric> =
        Metric::ALL.into_iter().filter(|m| variants.iter().any(|v| v.metrics.contains_key(m))).collect();
    out.push_str("<section><h2>Relative to the control</h2><div class=\"wide\"><table><thead><tr><th>variant</th><th>runs</th>");
    for metric in &columns {
        write!(out, "<th title=\"{}\">{}</th>", sentence::words(*metric), sentence::short(*metric))?;
    }
    out.push_str("</tr></thead><tbody>");
    for (index, variant) in variants.iter().enumerate() {
        write!(
            out,
            "<tr><td><i class=\"v{}\"></i>{}</td><td>{}",
            index % 10,
            escape(&variant.name),
            variant.runs
        )?;
        if variant.excluded > 0 {
            write!(out, " <span class=\"quiet\">({} left out)</span>", variant.excluded)?;
        }
        out.push_str("</td>");
        for metric in &columns {
            match variant.metrics.get(metric) {
                None => out.push_str("<td></td>"),
                Some(comparison) => cell(out, *metric, comparison)?,
            }
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    let claimed: Vec<&str> = experiment.plan.rule.metrics().into_iter().map(sentence::short).collect();
    write!(
        out,
        "<p class=\"quiet\">The control in its units, the others as ratios. Of {}, which the rule looks at: green is shown to be \
         better, red shown to be worse, = shown to be the same within the margin; without a mark neither a difference nor its \
         absence is shown. Of the others nothing is claimed.</p><p class=\"quiet\">{COLUMNS}</p>",
        claimed.join(", ")
    )?;
    writeln!(out, "</section>")
}

/// What the columns mean.
const COLUMNS: &str = "PSS is the memory of the server's processes, what they share divided among those that share it: at the end of the load, \
     at its peak, and after idling. Bloat is what of it the application has freed already, floor the rest. Half, 95 % and 99 % \
     of the latencies are below p50, p95 and p99. work/s is deliveries, requests or jobs per second, CPU/unit the server's CPU \
     time for one of them.";

fn cell(out: &mut String, metric: Metric, comparison: &Comparison) -> fmt::Result {
    let (class, mark) = match comparison.verdict {
        Finding::Better => ("better", ""),
        Finding::Worse => ("worse", ""),
        Finding::Same => ("same", " ="),
        Finding::Control => ("control", ""),
        Finding::NotShown | Finding::Exploratory => ("open", ""),
    };
    let interval = comparison.contrast.and_then(|c| c.interval);
    let median = sentence::value(metric, comparison.median);
    let title = match interval {
        Some((low, high)) => format!("median {median}, ratio {low:.3}–{high:.3}"),
        None => format!("median {median}"),
    };
    let figure = match comparison.contrast {
        Some(contrast) => format!("{:.2}×{mark}", contrast.ratio),
        None => median,
    };
    write!(out, "<td class=\"{class}\" title=\"{}\">{}</td>", escape(&title), escape(&figure))
}
