//! The comparison as one self-contained page: no network, no script.

use super::{Experiment, chart, sentence, text};
use crate::markup::escape;
use crate::segment::Segment;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use unbloat_heap::Iec;
use unbloat_lab::analysis::{Comparison, Verdict};
use unbloat_lab::metric::Metric;
use unbloat_lab::recommend::Recommendation;
use unbloat_lab::trace::Trace;

const BASE: &str = include_str!("../../assets/inspect.css");
const STYLE: &str = include_str!("../../assets/compare.css");

/// What the page says beside the experiment itself.
#[derive(Debug, Clone)]
pub struct About {
    /// Memory over time of the runs that count.
    pub traces: Vec<Trace>,
    /// Facts about the machine.
    pub environment: Vec<(String, String)>,
    /// The recording's file name.
    pub recording: String,
}

/// Renders the page.
#[must_use]
pub fn html(experiment: &Experiment, about: &About) -> String {
    let mut out = String::new();
    // Writing to a string has no way to fail.
    let _ = page(&mut out, experiment, about);
    out
}

fn page(out: &mut String, experiment: &Experiment, about: &About) -> fmt::Result {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} · unbloat compare</title>\n<style>\n{BASE}{STYLE}</style>\n</head>\n<body>\n\
         <header><p class=\"tool\">unbloat compare</p><h1>{title}</h1>\
         <p class=\"quiet\">{size} · each on a freshly started server</p></header>\n<main>\n",
        title = escape(&experiment.plan.title),
        size = text::size(experiment),
    )?;
    answer(out, experiment)?;
    table(out, experiment)?;
    let legend = legend(experiment);
    if let Some(svg) = chart::over_time(experiment, &about.traces) {
        let note = "PSS of the server's processes: the line is the median of the variant's runs, the band reaches from the \
                    smallest to the largest.";
        section(out, "Memory over time", note, &format!("{legend}{svg}"))?;
    }
    made_of(out, experiment, &about.traces)?;
    if let Some(svg) = chart::trade_off(experiment) {
        let note = "Each small dot is a run, each large one a variant's medians. What lies on the line is beaten by nothing \
                    in both.";
        section(out, "Memory against latency", note, &svg)?;
    }
    if let Some(svg) = chart::by_clients(experiment) {
        section(
            out,
            "p95 latency against clients",
            "Medians over the variant's runs.",
            &format!("{legend}{svg}"),
        )?;
    }
    intervals(out, experiment)?;
    trust(out, experiment, about)?;
    out.push_str("</main>\n</body>\n</html>\n");
    Ok(())
}

fn section(out: &mut String, title: &str, note: &str, body: &str) -> fmt::Result {
    writeln!(out, "<section><h2>{title}</h2><p class=\"quiet\">{note}</p>\n{body}</section>")
}

fn answer(out: &mut String, experiment: &Experiment) -> fmt::Result {
    let (headline, reason) = text::answer(experiment);
    let class =
        if matches!(experiment.recommendation, Recommendation::Use { .. }) { "answer yes" } else { "answer" };
    write!(out, "<section class=\"{class}\"><h2>{}</h2><p>{}</p>", escape(&headline), escape(&reason))?;
    let deploy = text::deploy(experiment);
    if !deploy.is_empty() {
        out.push_str("<dl>");
        for (place, line) in deploy {
            write!(out, "<dt>{}</dt><dd><code>{}</code></dd>", escape(place), escape(&line))?;
        }
        out.push_str("</dl>");
    }
    for warning in &experiment.analysis.warnings {
        write!(out, "<p class=\"caution\">{}</p>", escape(&warning.to_string()))?;
    }
    out.push_str("</section>\n");
    Ok(())
}

fn table(out: &mut String, experiment: &Experiment) -> fmt::Result {
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
    let note = "The control in its units, the others as ratios; green is shown to be better, red shown to be worse, = shown \
                to be the same within the margin. Without a mark neither a difference nor its absence is shown.";
    writeln!(out, "</tbody></table></div><p class=\"quiet\">{note}</p></section>")
}

fn cell(out: &mut String, metric: Metric, comparison: &Comparison) -> fmt::Result {
    let (class, mark) = match comparison.verdict {
        Verdict::Better => ("better", ""),
        Verdict::Worse => ("worse", ""),
        Verdict::Same => ("same", " ="),
        Verdict::Control => ("control", ""),
        Verdict::NotShown => ("open", ""),
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

fn legend(experiment: &Experiment) -> String {
    let item = |(index, variant): (usize, &unbloat_lab::variant::Variant)| {
        format!("<li><i class=\"v{}\"></i>{}</li>", index % 10, escape(&variant.name))
    };
    let items: String = experiment.variants.iter().enumerate().map(item).collect();
    format!("<ul class=\"legend\">{items}</ul>")
}

/// What memory is made of at the end of the load: the median of the variant's runs, segment by segment.
fn made_of(out: &mut String, experiment: &Experiment, traces: &[Trace]) -> fmt::Result {
    let mut bars = Vec::new();
    for index in 0..experiment.variants.len() {
        let mut segments: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for trace in traces.iter().filter(|t| t.slot.variant == index && !t.made_of.is_empty()) {
            for (place, segment) in Segment::ALL.into_iter().enumerate() {
                let bytes = trace
                    .made_of
                    .iter()
                    .filter(|(name, _)| Segment::named(name) == segment)
                    .map(|(_, b)| b)
                    .sum();
                segments.entry(place).or_default().push(bytes);
            }
        }
        let medians: Vec<f64> =
            segments.values().map(|values| unbloat_stats::median::median(values).unwrap_or(0.0)).collect();
        bars.push(medians);
    }
    let longest = bars.iter().map(|bar| bar.iter().sum::<f64>()).fold(0.0, f64::max);
    if longest == 0.0 {
        return Ok(());
    }
    let mut body = String::from("<div class=\"bars\">");
    for (variant, bar) in experiment.variants.iter().zip(&bars) {
        let total: f64 = bar.iter().sum();
        // A variant none of whose runs counts.
        if total == 0.0 {
            continue;
        }
        write!(body, "<span>{}</span><div class=\"bar\">", escape(&variant.name))?;
        for (segment, bytes) in Segment::ALL.into_iter().zip(bar) {
            let (share, size) = (bytes / longest * 100.0, Iec(*bytes as u64));
            write!(
                body,
                "<i class=\"{}\" style=\"width:{share:.2}%\" title=\"{}: {size}\"></i>",
                segment.key(),
                segment.label()
            )?;
        }
        write!(body, "</div><b>{}</b>", Iec(total as u64))?;
    }
    body.push_str("</div><ul class=\"legend\">");
    for segment in Segment::ALL {
        write!(body, "<li><i class=\"{}\"></i>{}</li>", segment.key(), segment.label())?;
    }
    body.push_str("</ul>");
    section(out, "What memory is made of", "At the end of the load; medians over the variant's runs.", &body)
}

fn intervals(out: &mut String, experiment: &Experiment) -> fmt::Result {
    let rule = &experiment.plan.rule;
    let mut body = String::new();
    for metric in std::iter::once(rule.minimize).chain(rule.not_worse.iter().copied()) {
        let Some(svg) = chart::ratios(experiment, metric) else { continue };
        let seen = experiment.analysis.aa.get(&metric).and_then(|aa| aa.minimum_detectable_ratio);
        let seen = seen.map_or(String::new(), |ratio| {
            format!(" · this experiment shows differences from {:.1} % on", (ratio - 1.0) * 100.0)
        });
        write!(body, "<h3>{}{seen}</h3>{svg}", sentence::words(metric))?;
    }
    let level = (1.0 - experiment.analysis.settings.alpha()) * 100.0;
    let note = format!(
        "A small dot is one block's run against its control, a large one the estimate with its {level:.0} % interval; the band \
         is the margin of the rule ({:.0} %). The last row is the control against itself: what differs there is noise.",
        rule_margin(experiment)
    );
    section(out, "How sure", &note, &body)
}

fn rule_margin(experiment: &Experiment) -> f64 {
    experiment.plan.rule.margin * 100.0
}

fn trust(out: &mut String, experiment: &Experiment, about: &About) -> fmt::Result {
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
        let proof = experiment.results.iter().find(|r| r.slot.variant == index && r.excluded.is_none());
        let proof = proof.map_or("no run that counts".to_owned(), |r| r.proof.join("; "));
        write!(body, "<li><b>{}</b>: {}</li>", escape(&variant.name), escape(&proof))?;
    }
    body.push_str("</ul><h3>Environment</h3><table class=\"facts\">");
    for (name, value) in &about.environment {
        write!(body, "<tr><td>{}</td><td>{}</td></tr>", escape(name), escape(value))?;
    }
    let harness = experiment.results.iter().map(|r| r.harness_cpu).fold(0.0, f64::max) * 100.0;
    write!(
        body,
        "<tr><td>the harness's own CPU, at most</td><td>{harness:.2} % of the machine</td></tr></table>"
    )?;
    write!(
        body,
        "<h3>To see it again</h3><p><code>unbloat report {file}</code></p>\
         <p class=\"quiet\">The recording has every run, sample and mark, and the plan; it is an SQLite file.</p>",
        file = escape(&about.recording)
    )?;
    section(out, "Where the figures come from", "", &body)
}
