//! An inspection as one self-contained page: no network, no fonts, no libraries. Everything but the heap map is plain
//! HTML, readable without scripts; `assets/heap_map.js` draws the map from the pages that `map` packs.

mod map;
mod tables;

use crate::markup::escape;
use crate::segment::Segment;
use crate::style::{bind_units, percent};
use std::fmt::{self, Write as _};
use unbloat_heap::Iec;
use unbloat_heap::model::{Census, Finding, Inspection, Note, ProcessReport};

const STYLE: &str = include_str!("../../../assets/inspect.css");
const SCRIPT: &str = include_str!("../../../assets/heap_map.js");

/// What the page says about its making.
#[derive(Debug, Clone)]
pub struct Html {
    /// When the look was taken, as it shall be shown.
    pub taken: String,
    /// The machine it was taken on.
    pub host: String,
}

/// Whether a process of several is unfolded at first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fold {
    Open,
    Closed,
}

/// Renders an inspection.
#[must_use]
pub fn html(inspection: &Inspection, about: &Html) -> String {
    let mut out = String::new();
    // Writing to a string has no way to fail.
    let _ = page(&mut out, inspection, about);
    out
}

fn page(out: &mut String, inspection: &Inspection, about: &Html) -> fmt::Result {
    let title = match inspection.processes.as_slice() {
        [only] => format!("{} {}", only.pid, only.command),
        several => format!("{} processes", several.len()),
    };
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} · unbloat inspect</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><p class=\"tool\">unbloat inspect</p><h1>{title}</h1>\
         <p class=\"quiet\">{host} · {taken}</p>\
         <button id=\"theme\" type=\"button\" hidden>light / dark</button></header>\n<main>\n",
        title = escape(&title),
        host = escape(&about.host),
        taken = escape(&about.taken),
    )?;
    if inspection.processes.len() > 1 {
        together(out, inspection)?;
    }
    let largest = inspection.processes.iter().map(|process| process.rss_bytes).max().unwrap_or(0);
    for process in &inspection.processes {
        let fold = match process.rss_bytes == largest {
            _ if inspection.processes.len() == 1 => None,
            true => Some(Fold::Open),
            false => Some(Fold::Closed),
        };
        section(out, process, fold)?;
    }
    for failure in &inspection.failures {
        let command = failure.command.as_deref().unwrap_or("");
        writeln!(
            out,
            "<section class=\"failure\"><h2>{} {}</h2><p>{}</p></section>",
            failure.pid,
            escape(command),
            escape(&failure.note.text)
        )?;
    }
    write!(
        out,
        "</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// The processes as bars on one scale, their sum, and the verdict on them together.
fn together(out: &mut String, inspection: &Inspection) -> fmt::Result {
    let scale = inspection.processes.iter().map(|process| process.rss_bytes).max().unwrap_or(1);
    out.push_str("<section><h2>All processes</h2>\n");
    for process in &inspection.processes {
        let depth = super::tree::depth(inspection, process);
        write!(
            out,
            "<a class=\"process\" href=\"#p{pid}\"><span class=\"name\" style=\"padding-left:{depth}em\">{pid} \
             {command}</span><span class=\"sizes\">{rss} resident{pss}</span></a>",
            pid = process.pid,
            command = escape(&process.command),
            rss = Iec(process.rss_bytes),
            pss = process.pss_bytes.map_or(String::new(), |bytes| format!(", {} proportional", Iec(bytes))),
        )?;
        bar(out, &process.census, process.rss_bytes, scale)?;
    }
    if let Some(census) = inspection.proportional() {
        let total = census.total();
        let pss = Iec(inspection.pss_bytes().unwrap_or(total));
        write!(
            out,
            "<p class=\"process\"><strong class=\"name\">together, by PSS</strong>\
             <span class=\"sizes\">{pss}</span></p>"
        )?;
        bar(out, &census, total, total)?;
        legend(out, &census)?;
    }
    verdict(out, &inspection.verdict)?;
    out.push_str("</section>\n");
    Ok(())
}

/// One process: alone under the page's title, else under a heading that folds it away.
fn section(out: &mut String, process: &ProcessReport, fold: Option<Fold>) -> fmt::Result {
    let figures = figures(process);
    match fold {
        None => writeln!(out, "<section class=\"one\">{figures}")?,
        Some(fold) => writeln!(
            out,
            "<details class=\"one\" id=\"p{pid}\"{open}><summary><h2>{pid} {command}</h2>{figures}</summary>",
            pid = process.pid,
            open = if fold == Fold::Open { " open" } else { "" },
            command = escape(&process.command),
        )?,
    }
    content(out, process)?;
    writeln!(out, "</{}>", if fold.is_none() { "section" } else { "details" })
}

fn figures(process: &ProcessReport) -> String {
    let share = percent(process.census.bloat(), process.rss_bytes);
    format!(
        "<p class=\"figures\"><b>{}</b> resident{} · <b>{}</b> bloat{} · floor <b>{}</b></p>",
        Iec(process.rss_bytes),
        process.pss_bytes.map_or(String::new(), |bytes| format!(" ({} proportional)", Iec(bytes))),
        Iec(process.census.bloat()),
        if share.is_empty() { share } else { format!(" ({share})") },
        Iec(process.floor_bytes()),
    )
}

fn content(out: &mut String, process: &ProcessReport) -> fmt::Result {
    bar(out, &process.census, process.rss_bytes, process.rss_bytes)?;
    legend(out, &process.census)?;
    verdict(out, &process.verdict)?;
    if let Some(heap_map) = &process.map {
        map::element(out, process, heap_map)?;
    }
    out.push_str("<div class=\"columns\">");
    tables::census(out, process)?;
    if let Some(ruby) = &process.ruby {
        tables::ruby(out, ruby)?;
    }
    out.push_str("</div>\n");
    if let Some(allocator) = &process.allocator {
        tables::allocator(out, allocator)?;
    }
    if let Some(runtime) = &process.runtime {
        let (policy, done) = (escape(&runtime.policy), escape(&super::words::runtime(runtime)));
        write!(out, "<h3>unbloat run <span class=\"quiet\">{policy}</span></h3><p>{done}</p>")?;
    }
    notes(out, &process.notes)?;
    let stopped = if process.stopped.is_zero() {
        "without stopping the process".to_owned()
    } else {
        format!("the process was stopped for {:.1} ms of it", process.stopped.as_secs_f64() * 1e3)
    };
    writeln!(
        out,
        "<p class=\"quiet\">Looked for {:.0} ms, {stopped}.</p>",
        process.elapsed.as_secs_f64() * 1e3
    )
}

/// A stacked bar whose full width is `scale` bytes.
fn bar(out: &mut String, census: &Census, whole: u64, scale: u64) -> fmt::Result {
    let width = |bytes: u64| bytes as f64 / scale.max(1) as f64 * 100.0;
    write!(out, "<div class=\"bar\" role=\"img\" aria-label=\"{} in parts\">", Iec(whole))?;
    for segment in Segment::ALL {
        let bytes = segment.bytes(census);
        if bytes > 0 {
            write!(
                out,
                "<i class=\"{}\" style=\"width:{:.3}%\" title=\"{}: {} ({})\"></i>",
                segment.key(),
                width(bytes),
                segment.label(),
                Iec(bytes),
                percent(bytes, whole)
            )?;
        }
    }
    out.push_str("</div>\n");
    Ok(())
}

fn legend(out: &mut String, census: &Census) -> fmt::Result {
    out.push_str("<ul class=\"legend\">");
    for segment in Segment::ALL {
        let bytes = segment.bytes(census);
        if bytes > 0 {
            write!(
                out,
                "<li><i class=\"{}\"></i>{} <b>{}</b></li>",
                segment.key(),
                segment.label(),
                Iec(bytes)
            )?;
        }
    }
    out.push_str("</ul>\n");
    Ok(())
}

fn verdict(out: &mut String, findings: &[Finding]) -> fmt::Result {
    let Some((first, rest)) = findings.split_first() else { return Ok(()) };
    write!(out, "<div class=\"verdict\"><h3>Verdict</h3><p>{}</p>", escape(&bind_units(&first.text)))?;
    actions(out, first)?;
    out.push_str("<ol>");
    for finding in rest {
        write!(out, "<li><p>{}</p>", escape(&bind_units(&finding.text)))?;
        actions(out, finding)?;
        out.push_str("</li>");
    }
    out.push_str("</ol></div>\n");
    Ok(())
}

fn actions(out: &mut String, finding: &Finding) -> fmt::Result {
    if finding.actions.is_empty() {
        return Ok(());
    }
    out.push_str("<dl>");
    for action in &finding.actions {
        write!(out, "<dt>{}</dt><dd><code>{}</code></dd>", escape(action.place), escape(&action.line))?;
    }
    out.push_str("</dl>");
    Ok(())
}

fn notes(out: &mut String, notes: &[Note]) -> fmt::Result {
    if notes.is_empty() {
        return Ok(());
    }
    out.push_str("<div class=\"notes\"><h3>What could not be told</h3><ul>");
    for note in notes {
        write!(out, "<li>{}</li>", escape(&note.text))?;
    }
    out.push_str("</ul></div>\n");
    Ok(())
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
        assert!(page.contains("&lt;/script&gt;&lt;img onerror=&#39;x&#39;&gt;\u{fffd}"));
    }
}
