//! The table of all metrics relative to the control.

use super::super::{Experiment, figures};
use super::name;
use maud::{Markup, html};
use unbloat_lab::analysis::{Comparison, Finding, VariantAnalysis};
use unbloat_lab::metric::Metric;
use unbloat_lab::variant::Variant;

/// Renders one row per variant and one column per metric that any run has.
pub(super) fn table(experiment: &Experiment) -> Markup {
    let analyzed = &experiment.analysis.variants;
    let columns: Vec<Metric> =
        Metric::ALL.into_iter().filter(|m| analyzed.iter().any(|v| v.metrics.contains_key(m))).collect();
    let claimed: Vec<&str> = experiment.plan.rule.metrics().into_iter().map(Metric::short).collect();
    html! {
        section {
            h2 { "Relative to the control" }
            div.wide {
                table.sortable {
                    thead {
                        tr {
                            th { "variant" }
                            th { "runs" }
                            @for &metric in &columns { th title=(metric.words()) { (metric.short()) } }
                        }
                    }
                    tbody {
                        @for (index, (variant, of)) in experiment.variants.iter().zip(analyzed).enumerate() {
                            (row(index, variant, of, &columns))
                        }
                    }
                }
            }
            p.quiet {
                "The control in its units, the others as ratios. Of " (claimed.join(", ")) ", which the rule looks at: green is \
                 shown to be better, red shown to be worse, = shown to be the same within the margin; without a mark neither a \
                 difference nor its absence is shown. Of the others nothing is claimed."
            }
            p.quiet { (COLUMNS) }
        }
    }
}

fn row(index: usize, variant: &Variant, of: &VariantAnalysis, columns: &[Metric]) -> Markup {
    html! {
        tr {
            td { (name(index, variant)) }
            td data-value=(of.runs) {
                (of.runs)
                @if of.excluded > 0 { " " span.quiet { "(" (of.excluded) " left out)" } }
            }
            @for metric in columns {
                @match of.metrics.get(metric) {
                    None => td {},
                    Some(comparison) => (cell(*metric, comparison)),
                }
            }
        }
    }
}

/// Explains the columns.
const COLUMNS: &str = "PSS is the memory of the server's processes, what they share divided among those that share it: at the end of the load, \
     at its peak, and after idling. Bloat is what of it the application has freed already, floor the rest. Half, 95 % and 99 % \
     of the latencies are below p50, p95 and p99. work/s is deliveries, requests or jobs per second, CPU/unit the server's CPU \
     time for one of them.";

fn cell(metric: Metric, comparison: &Comparison) -> Markup {
    let (class, mark) = match comparison.verdict {
        Finding::Better => ("better", ""),
        Finding::Worse => ("worse", ""),
        Finding::Same => ("same", " ="),
        Finding::Control => ("control", ""),
        Finding::NotShown | Finding::Exploratory => ("open", ""),
    };
    let interval = comparison.contrast.and_then(|c| c.interval);
    let median = figures::value(metric, comparison.median);
    let title = match interval {
        Some((low, high)) => format!("median {median}, ratio {low:.3}–{high:.3}"),
        None => format!("median {median}"),
    };
    let figure = match comparison.contrast {
        Some(contrast) => format!("{:.2}×{mark}", contrast.ratio),
        None => median,
    };
    html! { td class=(class) title=(title) data-value=(comparison.median) { (figure) } }
}
