//! An inspection as a page. Everything except the heap map is plain HTML, readable without scripts;
//! `assets/heap_map.js` draws the map from the pages packed by `map`.

mod map;
mod tables;

use crate::inspect::advice;
use crate::page::Page;
use crate::segment::Segment;
use crate::style::{bind_units, percent};
use maud::{Markup, html as markup};
use unbloat_heap::Iec;
use unbloat_heap::model::{Census, Failure, Finding, Inspection, Note, ProcessReport};
use unbloat_untrusted::visible;

/// Time and place of the inspection.
#[derive(Debug, Clone)]
pub struct Html {
    /// Time of the inspection, as text.
    pub taken: String,
    /// Name of the machine.
    pub host: String,
}

/// Renders an inspection.
#[must_use]
pub fn html(inspection: &Inspection, about: &Html) -> String {
    let several = inspection.processes.len() > 1;
    let title = match inspection.processes.as_slice() {
        [only] => format!("{} {}", only.pid, only.command),
        several => format!("{} processes", several.len()),
    };
    let largest = inspection.processes.iter().map(|process| process.rss_bytes).max().unwrap_or(0);
    let body = markup! {
        @if several { (together(inspection, largest)) }
        @for process in &inspection.processes {
            @if several { (folded(process, process.rss_bytes == largest)) }
            @else { section.one { (figures(process)) (content(process)) } }
        }
        @for failure in &inspection.failures { (failed(failure)) }
    };
    let subtitle = format!("{} · {}", about.host, about.taken);
    Page { command: "unbloat inspect", title: &title, subtitle: &subtitle, body, parts: &[map::PART] }
        .render()
}

/// Renders a process that could not be inspected.
fn failed(failure: &Failure) -> Markup {
    let command = failure.command.clone().unwrap_or_default();
    markup! {
        section.failure {
            h2 { (failure.pid) " " (command) }
            p { (visible(&failure.note.text)) }
        }
    }
}

/// Renders the processes as bars on one scale, their sum, and the verdict on them together.
fn together(inspection: &Inspection, largest: u64) -> Markup {
    let sum = inspection.proportional();
    markup! {
        section {
            h2 { "All processes" }
            @for process in &inspection.processes {
                @let depth = super::tree::depth(inspection, process);
                a.process href={ "#p" (process.pid) } {
                    span.name style={ "padding-left:" (depth) "em" } { (process.pid) " " (process.command) }
                    span.sizes { (Iec(process.rss_bytes)) " resident" (proportional(process, ", ", "")) }
                }
                (bar(&process.census, process.rss_bytes, largest.max(1)))
            }
            @if let Some(census) = sum {
                @let total = census.total();
                p.process {
                    strong.name { "together, by PSS" }
                    span.sizes { (Iec(inspection.pss_bytes().unwrap_or(total))) }
                }
                (bar(&census, total, total))
                (legend(&census))
            }
            (verdict(&inspection.verdict))
        }
    }
}

/// Renders one of several processes, under a heading that collapses it.
fn folded(process: &ProcessReport, open: bool) -> Markup {
    markup! {
        details.one id={ "p" (process.pid) } open[open] {
            summary { h2 { (process.pid) " " (process.command) } (figures(process)) }
            (content(process))
        }
    }
}

fn figures(process: &ProcessReport) -> Markup {
    let bloat = process.bloat_bytes().zip(process.floor_bytes());
    markup! {
        p.figures {
            b { (Iec(process.rss_bytes)) } " resident" (proportional(process, " (", ")"))
            @if let Some((bloat, floor)) = bloat {
                @let share = percent(bloat, process.rss_bytes);
                " · " b { (Iec(bloat)) } " bloat"
                @if !share.is_empty() { " (" (share) ")" }
                " · floor " b { (Iec(floor)) }
            }
        }
        @if let Some(waiting) = super::words::waiting(process) { p.quiet { (waiting) } }
    }
}

fn proportional(process: &ProcessReport, before: &str, after: &str) -> String {
    process.pss_bytes.map_or(String::new(), |bytes| format!("{before}{} proportional{after}", Iec(bytes)))
}

fn content(process: &ProcessReport) -> Markup {
    markup! {
        (bar(&process.census, process.rss_bytes, process.rss_bytes))
        (legend(&process.census))
        (verdict(&process.verdict))
        @if let Some(heap_map) = &process.map { (map::element(process, heap_map)) }
        div.columns {
            (tables::census(process))
            @if let Some(ruby) = &process.ruby { (tables::ruby(ruby, process.ownership.as_ref())) }
        }
        @if let Some(allocator) = &process.allocator { (tables::allocator(allocator)) }
        @if let Some(runtime) = &process.runtime {
            h3 { "unbloat run " span.quiet { (runtime.policy) } }
            p { (visible(&super::words::runtime(runtime))) }
        }
        (notes(&process.notes))
        p.quiet { (effort(process)) }
    }
}

/// Describes the duration of the inspection, and the time for which the process was stopped.
fn effort(process: &ProcessReport) -> String {
    let milliseconds = process.elapsed.as_secs_f64() * 1e3;
    let stopped = match process.stopped.is_zero() {
        true => "without stopping the process".to_owned(),
        false => format!("the process was stopped for {:.1} ms of it", process.stopped.as_secs_f64() * 1e3),
    };
    format!("The inspection took {milliseconds:.0} ms, {stopped}.")
}

/// Renders a stacked bar whose full width is `scale` bytes.
fn bar(census: &Census, whole: u64, scale: u64) -> Markup {
    let width = |bytes: u64| format!("width:{:.3}%", bytes as f64 / scale.max(1) as f64 * 100.0);
    markup! {
        div.bar role="img" aria-label={ (Iec(whole)) " in parts" } {
            @for (segment, bytes) in parts(census) {
                i class=(segment.key()) style=(width(bytes))
                    title={ (segment.label()) ": " (Iec(bytes)) " (" (percent(bytes, whole)) ")" } {}
            }
        }
    }
}

fn legend(census: &Census) -> Markup {
    markup! {
        ul.legend {
            @for (segment, bytes) in parts(census) {
                li { i class=(segment.key()) {} (segment.label()) " " b { (Iec(bytes)) } }
            }
        }
    }
}

/// Returns the segments that have bytes.
fn parts(census: &Census) -> Vec<(Segment, u64)> {
    let all = Segment::ALL.into_iter().map(|segment| (segment, segment.bytes(census)));
    all.filter(|&(_, bytes)| bytes > 0).collect()
}

fn verdict(findings: &[Finding]) -> Markup {
    let Some((first, others)) = findings.split_first() else { return markup! {} };
    markup! {
        div.verdict {
            h3 { "Verdict" }
            (finding(first))
            ol { @for other in others { li { (finding(other)) } } }
        }
    }
}

fn finding(finding: &Finding) -> Markup {
    markup! {
        p { (visible(&bind_units(&finding.text))) }
        @if !finding.actions.is_empty() {
            dl {
                @for line in advice::lines(&finding.actions) {
                    dt { (line.place) }
                    dd { code { (line.line) } }
                }
            }
        }
    }
}

fn notes(notes: &[Note]) -> Markup {
    if notes.is_empty() {
        return markup! {};
    }
    markup! {
        div.notes {
            h3 { "Limitations" }
            ul { @for note in notes { li { (visible(&note.text)) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use unbloat_heap::model::HeapMap;

    fn about() -> Html {
        Html { taken: "2026-11-21 10:00 UTC".into(), host: "web-1".into() }
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let mut inspection = fixture::cluster();
        inspection.processes[1].map = Some(HeapMap { regions: vec![fixture::region()] });
        let page = html(&inspection, &about());
        for forbidden in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(page.contains("<canvas"));
        assert!(page.contains("unbloat trim 2310"));
    }

    #[test]
    fn a_command_line_cannot_be_markup() {
        let mut process = fixture::worker(7);
        process.command = "</script><img onerror='x'>\u{1b}".into();
        let inspection = Inspection { processes: vec![process], ..Inspection::default() };
        let page = html(&inspection, &about());
        assert!(!page.contains("<img"));
        assert!(page.contains("&lt;/script&gt;&lt;img onerror='x'&gt;\u{fffd}"));
    }
}
