//! The comparison as one self-contained page: no network, no script.
//!
//! Every part is always there: a chart that cannot be drawn says why.

mod made_of;
mod origin;
mod table;

use super::{Experiment, chart, sentence, text};
use crate::markup::escape;
use std::fmt::{self, Write as _};
use unbloat_lab::recommend::Recommendation;
use unbloat_lab::trace::Trace;

const BASE: &str = include_str!("../../../assets/inspect.css");
const STYLE: &str = include_str!("../../../assets/compare.css");

/// What the page says beside the experiment itself.
#[derive(Debug, Clone)]
pub struct About {
    /// Memory over time of the runs that count.
    pub traces: Vec<Trace>,
    /// The plan as it was written.
    pub plan: String,
    /// Facts about the machine and the programs.
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
    table::table(out, experiment)?;
    memory(out, experiment, &about.traces)?;
    trade_off(out, experiment)?;
    latency(out, experiment)?;
    intervals(out, experiment)?;
    origin::evidence(out, experiment, about)?;
    origin::reproduction(out, experiment, about)?;
    out.push_str("</main>\n</body>\n</html>\n");
    Ok(())
}

fn section(out: &mut String, title: &str, note: &str, body: &str) -> fmt::Result {
    write!(out, "<section><h2>{title}</h2>")?;
    if !note.is_empty() {
        write!(out, "<p class=\"quiet\">{note}</p>")?;
    }
    writeln!(out, "\n{body}</section>")
}

/// A section whose chart may be impossible; then it says why.
fn figure(out: &mut String, title: &str, note: &str, drawn: Option<String>, why_not: &str) -> fmt::Result {
    match drawn {
        Some(body) => section(out, title, note, &body),
        None => section(out, title, why_not, ""),
    }
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

/// Over time, and by what it is made of.
fn memory(out: &mut String, experiment: &Experiment, traces: &[Trace]) -> fmt::Result {
    let curves = chart::over_time(experiment, traces).map(|svg| legend(experiment) + &svg);
    let note = "PSS of the server's processes: the line is the median of the variant's runs, the band reaches from the \
                smallest to the largest. Dotted lines mark where the load begins, or each step of it with so many clients, and \
                where it ends and the server idles.";
    figure(out, "Memory over time", note, curves, "No run that counts has samples of its memory.")?;
    let note = "At the end of the load; medians over the variant's runs. What the application has freed is cached by a thread, \
                trimmable (whole pages that could be given back), or stranded on pages with something live on them. Not told \
                apart is what an allocator holds whose insides are not read.";
    let bars = made_of::made_of(experiment, traces);
    figure(out, "What memory is made of", note, bars, "No run that counts has a census of its memory.")
}

/// What no run has cannot be drawn.
const NO_LATENCY: &str = "This load does not measure latency.";
const NO_WORK: &str = "This load does not measure both latency and work per second.";

fn trade_off(out: &mut String, experiment: &Experiment) -> fmt::Result {
    let note = "Each small dot is a run, each large one a variant's medians; the lower left is best. What lies on the \
                dotted line, the frontier, is beaten by nothing in both.";
    let svg = chart::trade_off(experiment).map(|svg| legend(experiment) + &svg);
    figure(out, "Memory against latency", note, svg, NO_LATENCY)
}

fn latency(out: &mut String, experiment: &Experiment) -> fmt::Result {
    if let Some(svg) = chart::by_clients(experiment) {
        let note = "Each dot is a run, the lines join the medians over the variant's runs.";
        return section(out, "Latency (p95) against clients", note, &(legend(experiment) + &svg));
    }
    let title = format!("Latency ({}) against work per second", sentence::short(chart::latency(experiment)));
    let note = "This load has no steps of clients, so each run stands at the work per second that it reached; a large dot \
                is a variant's medians.";
    let svg = chart::by_work(experiment).map(|svg| legend(experiment) + &svg);
    figure(out, &title, note, svg, NO_WORK)
}

fn legend(experiment: &Experiment) -> String {
    let item = |(index, variant): (usize, &unbloat_lab::variant::Variant)| {
        format!("<li><i class=\"v{}\"></i>{}</li>", index % 10, escape(&variant.name))
    };
    let items: String = experiment.variants.iter().enumerate().map(item).collect();
    format!("<ul class=\"legend\">{items}</ul>")
}

fn intervals(out: &mut String, experiment: &Experiment) -> fmt::Result {
    let rule = &experiment.plan.rule;
    let mut body = String::new();
    for metric in rule.metrics() {
        let Some(svg) = chart::ratios(experiment, metric) else { continue };
        let seen = experiment.analysis.aa.get(&metric).and_then(|aa| aa.minimum_detectable_ratio);
        let seen = seen.map_or(String::new(), |ratio| {
            let percent = (ratio - 1.0) * 100.0;
            format!("<p class=\"quiet\">Differences from {percent:.1} % on would be shown with 80 % probability.</p>")
        });
        write!(body, "<h3>{}</h3>{seen}{svg}", sentence::words(metric))?;
    }
    let level = (1.0 - experiment.analysis.settings.alpha()) * 100.0;
    let note = format!(
        "A small dot is one block's run against its control, a large one the estimate with its {level:.0} % interval; the band \
         is the margin of the rule ({:.0} %). The last row is the control against itself, the second run of each block divided by the \
         first: what differs there is noise.",
        rule.margin * 100.0
    );
    section(out, "How sure", &note, &body)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Owned;
    use super::*;

    /// The section with this heading.
    fn part<'a>(page: &'a str, heading: &str) -> &'a str {
        let heading = format!("<h2>{heading}</h2>");
        let sections = page.split("<section").find(|section| section.contains(&heading));
        sections.unwrap_or_else(|| panic!("no {heading} on the page"))
    }

    #[test]
    fn the_page_has_every_part() {
        let owned = Owned::new(6);
        let page = html(&owned.experiment(), &owned.about());
        assert!(part(&page, "Use small").contains("small takes memory (PSS after the load) 0."));
        assert!(part(&page, "Use small").contains("ENV MALLOC_ARENA_MAX=2"));
        let table = part(&page, "Relative to the control");
        for column in ["PSS end", "PSS peak", "floor", "p99"] {
            assert!(table.contains(&format!(">{column}</th>")), "{column}");
        }
        let over_time = part(&page, "Memory over time");
        assert_eq!(over_time.matches("class=\"median v").count(), 2);
        assert_eq!(over_time.matches("class=\"band v").count(), 2);
        assert!(over_time.contains(">200</text>") && over_time.contains(">idle</text>"));
        let made_of = part(&page, "What memory is made of");
        assert!(made_of.contains("stranded: 100 MiB") && made_of.contains("stranded: 10.0 MiB"));
        let trade_off = part(&page, "Memory against latency");
        assert_eq!(trade_off.matches("class=\"run v").count(), 18, "every run is a dot");
        assert!(trade_off.contains("class=\"frontier\""));
        let clients = part(&page, "Latency (p95) against clients");
        assert!(clients.contains(">clients</text>") && clients.matches("class=\"run v").count() == 36);
        let sure = part(&page, "How sure");
        assert!(sure.contains(">control to itself</text>") && sure.contains("class=\"run v0\""));
        let evidence = part(&page, "Where the figures come from");
        for fact in ["glibc&#39;s arena_max is 2", "<td>kernel</td><td>6.1</td>", "0.10 % of the machine's"] {
            assert!(evidence.contains(fact), "{fact}: {evidence}");
        }
        let again = part(&page, "How to reproduce it");
        for word in [
            "unbloat compare shop.toml --blocks 6",
            "unbloat report shop.unbloat",
            "unbloat 1.2.3",
            "seed, 7,",
        ] {
            assert!(again.contains(word), "{word}: {again}");
        }
        assert!(
            again.contains("# Why &lt;this&gt;\ntitle = "),
            "the plan with its comments, line by line: {again}"
        );
    }

    #[test]
    fn a_chart_that_cannot_be_drawn_says_why() {
        let mut owned = Owned::new(6);
        owned.results.iter_mut().for_each(|run| run.steps.clear());
        let page = html(&owned.experiment(), &owned.about());
        assert!(part(&page, "Latency (p95) against work per second").contains("has no steps of clients"));

        owned.results.iter_mut().for_each(|run| run.metrics.retain(|metric, _| metric.name() == "pss_end"));
        let page = html(&owned.experiment(), &About { traces: Vec::new(), ..owned.about() });
        assert!(part(&page, "Memory against latency").contains(NO_LATENCY));
        assert!(part(&page, "Latency (p95) against work per second").contains(NO_WORK));
        assert!(part(&page, "Memory over time").contains("has samples of its memory"));
        assert!(part(&page, "What memory is made of").contains("has a census"));
    }

    #[test]
    fn nothing_of_a_plan_is_markup() {
        let mut owned = Owned::new(1);
        owned.plan.title = "<script>alert(1)</script>".to_owned();
        owned.variants[1].name = "<b onclick=x>".to_owned();
        let about =
            About { plan: "</pre><script>".to_owned(), recording: "<i>.unbloat".to_owned(), ..owned.about() };
        let page = html(&owned.experiment(), &about);
        assert!(!page.contains("<script") && !page.contains("<b onclick") && !page.contains("<i>.unbloat"));
    }
}
