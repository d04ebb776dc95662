//! A comparison as a page whose charts need no script.
//!
//! Every section is always present: a chart that cannot be drawn is replaced by the reason.

mod made_of;
mod origin;
mod table;
mod tried;

use super::{Experiment, chart, figures, text};
use crate::chart::page::STILL;
use crate::page::{Page, section};
use crate::palette::Color;
use maud::{Markup, html as markup};
use unbloat_lab::recommend::Answer;
use unbloat_lab::trace::Trace;
use unbloat_lab::tune::SearchResult;
use unbloat_lab::variant::Variant;
use unbloat_stats::power::ALPHA;
use unbloat_untrusted::visible;

/// Context of the page in addition to the experiment.
#[derive(Debug, Clone)]
pub struct About {
    /// Memory over time of the runs that count.
    pub traces: Vec<Trace>,
    /// The plan as written.
    pub plan: String,
    /// Facts about the machine and the programs.
    pub environment: Vec<(String, String)>,
    /// The recording's file name.
    pub recording: String,
    /// The search that it concludes.
    pub search: Option<SearchResult>,
}

/// Renders the page.
#[must_use]
pub fn html(experiment: &Experiment, about: &About) -> String {
    let body = markup! {
        (answer(experiment))
        (table::table(experiment))
        (tried::tried(about.search.as_ref()))
        (memory(experiment, &about.traces))
        (trade_off(experiment))
        (latency(experiment))
        (intervals(experiment))
        (origin::evidence(experiment, about))
        (origin::reproduction(experiment, about))
    };
    let subtitle = format!("{} · each on a freshly started server", text::size(experiment));
    let title = &experiment.plan.title;
    Page { command: "unbloat compare", title, subtitle: &subtitle, body, parts: &[STILL] }.render()
}

/// Renders a section with a chart, or with the reason why there is none.
fn figure(title: &str, note: &str, drawn: Option<Markup>, why_not: &str) -> Markup {
    match drawn {
        Some(body) => section(title, note, &body),
        None => section(title, why_not, &markup! {}),
    }
}

fn answer(experiment: &Experiment) -> Markup {
    let (headline, reason) = text::answer(experiment);
    let yes = matches!(experiment.recommendation.answer, Answer::Use { .. });
    let deploy = text::deploy(experiment);
    markup! {
        section.answer.yes[yes] {
            h2 { (visible(&headline)) }
            p { (visible(&reason)) }
            @if !deploy.is_empty() {
                dl {
                    @for (place, line) in &deploy {
                        dt { (place) }
                        dd { code { (visible(line)) } }
                    }
                }
            }
            @for warning in &experiment.analysis.warnings { p.caution { (visible(&warning.to_string())) } }
        }
    }
}

/// Renders memory over time, and its composition.
fn memory(experiment: &Experiment, traces: &[Trace]) -> Markup {
    let over_time = "PSS of the server's processes: the line is the median of the variant's runs, the band reaches from the \
                     smallest to the largest. Dotted lines mark where the load begins, or each step of it with so many \
                     clients, and where it ends and the server idles.";
    let made_of = "At the end of the load; medians over the variant's runs. What the application has freed is cached by a \
                   thread, trimmable (whole pages that could be given back), or stranded on pages with something live on \
                   them. Not told apart is what an allocator holds whose insides are not read.";
    let curves = chart::over_time(experiment, traces).map(|svg| with_legend(experiment, &svg));
    let bars = made_of::made_of(experiment, traces);
    markup! {
        (figure("Memory over time", over_time, curves, "No run that counts has samples of its memory."))
        (figure("Composition of memory", made_of, bars, "No run that counts has a census of its memory."))
    }
}

/// Notes in place of charts without data.
const NO_LATENCY: &str = "This load does not measure latency.";
const NO_WORK: &str = "This load does not measure both latency and work per second.";

fn trade_off(experiment: &Experiment) -> Markup {
    let note = "Each small dot is a run, each large one a variant's medians; the lower left is best. What lies on the \
                dotted line, the frontier, is beaten by nothing in both.";
    let svg = chart::trade_off(experiment).map(|svg| with_legend(experiment, &svg));
    figure("Memory against latency", note, svg, NO_LATENCY)
}

fn latency(experiment: &Experiment) -> Markup {
    if let Some(svg) = chart::by_clients(experiment) {
        let note = "Each dot is a run, the lines join the medians over the variant's runs.";
        return section("Latency (p95) against clients", note, &with_legend(experiment, &svg));
    }
    let title = format!("Latency ({}) against work per second", chart::latency(experiment).short());
    let note = "This load has no steps of clients, so each run stands at the work per second that it reached; a large dot \
                is a variant's medians.";
    let svg = chart::by_work(experiment).map(|svg| with_legend(experiment, &svg));
    figure(&title, note, svg, NO_WORK)
}

fn with_legend(experiment: &Experiment, drawing: &Markup) -> Markup {
    markup! {
        ul.legend {
            @for (index, variant) in experiment.variants.iter().enumerate() { li { (name(index, variant)) } }
        }
        (drawing)
    }
}

/// Renders a variant's name beside its color.
fn name(index: usize, variant: &Variant) -> Markup {
    markup! { i class=(Color::variant(index).class()) {} (visible(&variant.name)) }
}

fn intervals(experiment: &Experiment) -> Markup {
    let rule = &experiment.plan.rule;
    let detectable = |metric| {
        let ratio = experiment.analysis.aa.get(&metric)?.minimum_detectable_ratio?;
        Some((ratio - 1.0) * 100.0)
    };
    let body = markup! {
        @for metric in rule.metrics() {
            @if let Some(svg) = chart::ratios(experiment, metric) {
                h3 { (metric.words()) }
                @if let Some(percent) = detectable(metric) {
                    p.quiet {
                        (format!("Differences from {percent:.1} % on would be shown with 80 % probability."))
                    }
                }
                (svg)
            }
        }
    };
    let level = (1.0 - ALPHA) * 100.0;
    let note = format!(
        "A small dot is one block's run against its control, a large one the estimate with its {level:.0} % interval; the band \
         is the margin of the rule ({}). The last row is the control against itself, the second run of each block divided by the \
         first: what differs there is noise.",
        figures::margins(rule)
    );
    section("How sure", &note, &body)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Owned;
    use super::*;

    /// Returns the section with this heading.
    fn part<'a>(page: &'a str, heading: &str) -> &'a str {
        let heading = format!("<h2>{heading}</h2>");
        let sections = page.split("<section").find(|section| section.contains(&heading));
        sections.unwrap_or_else(|| panic!("no {heading} on the page"))
    }

    #[test]
    fn the_page_has_every_part() {
        let owned = Owned::new(6);
        let page = html(&owned.experiment(), &owned.about());
        assert!(part(&page, "Decided: use small").contains("small uses 0."));
        assert!(part(&page, "Decided: use small").contains("ENV MALLOC_ARENA_MAX=2"));
        let table = part(&page, "Relative to the control");
        for column in ["PSS end", "PSS peak", "floor", "p99"] {
            assert!(table.contains(&format!(">{column}</th>")), "{column}");
        }
        let over_time = part(&page, "Memory over time");
        assert_eq!(over_time.matches("class=\"line ").count(), 2);
        assert_eq!(over_time.matches("class=\"band ").count(), 2);
        assert!(over_time.contains(">200</text>") && over_time.contains(">idle</text>"));
        let made_of = part(&page, "Composition of memory");
        assert!(made_of.contains("stranded: 100 MiB") && made_of.contains("stranded: 10.0 MiB"));
        let trade_off = part(&page, "Memory against latency");
        assert_eq!(trade_off.matches("class=\"run ").count(), 18, "every run is a dot");
        assert!(trade_off.contains("class=\"frontier\""));
        let clients = part(&page, "Latency (p95) against clients");
        assert!(clients.contains(">clients</text>") && clients.matches("class=\"run ").count() == 36);
        let sure = part(&page, "How sure");
        assert!(sure.contains(">control to itself</text>") && sure.contains("class=\"run neutral\""));
        let evidence = part(&page, "Origin of the figures");
        for fact in ["glibc's arena_max is 2", "<td>kernel</td><td>6.1</td>", "0.10 % of the machine's"] {
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
        assert!(part(&page, "Composition of memory").contains("has a census"));
    }

    #[test]
    fn nothing_of_a_plan_is_markup() {
        let mut owned = Owned::new(1);
        owned.plan.title = "<script>alert(1)</script>".to_owned();
        owned.variants[1].name = "<b onclick=x>".to_owned();
        let about =
            About { plan: "</pre><script>".to_owned(), recording: "<i>.unbloat".to_owned(), ..owned.about() };
        let page = html(&owned.experiment(), &about);
        assert_eq!(page.matches("<script").count(), 1, "the shell's own");
        assert!(!page.contains("<b onclick") && !page.contains("<i>.unbloat"));
    }
}
