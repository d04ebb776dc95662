//! Two inspections side by side, for `--watch`.

use crate::segment::{Appearance as _, Segment};
use crate::style::{Ink, Style, clip};
use std::fmt::Write as _;
use unbloat_heap::Iec;
use unbloat_heap::model::{Census, Inspection, ProcessReport};

/// Renders the current inspection with the changes since the previous one and since the first.
#[must_use]
pub fn changes(now: &Inspection, before: &Inspection, first: &Inspection, style: &Style) -> String {
    let mut out = String::new();
    push_head(&mut out, "process", style);
    for process in &now.processes {
        let rss = |look: &Inspection| find(look, process).map(|process| process.rss_bytes);
        let name = format!("{} {}", process.pid, process.command);
        push_row(&mut out, &name, [rss(now), rss(before), rss(first)], Ink::None, style);
    }
    for gone in first.processes.iter().filter(|process| find(now, process).is_none()) {
        let _ = writeln!(out, "{}", clip(&format!("{} {} has ended", gone.pid, gone.command), style.width));
    }
    for failure in &now.failures {
        let _ = writeln!(out, "{} {}", style.paint(Ink::Red, "!"), clip(&failure.note.text, style.width - 2));
    }
    out.push('\n');
    push_head(&mut out, if now.processes.len() > 1 { "together, by PSS" } else { "of which" }, style);
    let censuses = [census(now), census(before), census(first)];
    for segment in Segment::ALL {
        let bytes = censuses.each_ref().map(|census| census.as_ref().map(|census| segment.bytes(census)));
        if bytes.iter().flatten().any(|&bytes| bytes > 0) {
            push_row(&mut out, segment.label(), bytes, segment.ink(), style);
        }
    }
    let totals = censuses.each_ref().map(|census| census.as_ref().map(Census::total));
    push_row(&mut out, "all", totals, Ink::Bold, style);
    out
}

fn find<'a>(look: &'a Inspection, process: &ProcessReport) -> Option<&'a ProcessReport> {
    look.processes.iter().find(|candidate| candidate.pid == process.pid)
}

/// Returns one process's census; for several processes the proportional one, which can be summed.
fn census(look: &Inspection) -> Option<Census> {
    match look.processes.as_slice() {
        [only] => Some(only.census.clone()),
        _ => look.proportional(),
    }
}

fn push_head(out: &mut String, what: &str, style: &Style) {
    let width = name_width(style);
    let head = format!("{what:<width$}{:>10}{:>14}{:>14}", "now", "last look", "first look");
    let _ = writeln!(out, "{}", style.paint(Ink::Dim, &head));
}

fn push_row(out: &mut String, name: &str, [now, before, first]: [Option<u64>; 3], ink: Ink, style: &Style) {
    let width = name_width(style);
    let name = format!("{:<width$}", clip(name, width - 1));
    let size = now.map_or("–".to_owned(), |bytes| Iec(bytes).to_string());
    let since = |then: Option<u64>| match (now, then) {
        (Some(now), Some(then)) => signed(now, then),
        (Some(_), None) => "new".to_owned(),
        _ => "–".to_owned(),
    };
    let _ = writeln!(out, "{}{size:>10}{:>14}{:>14}", style.paint(ink, &name), since(before), since(first));
}

fn name_width(style: &Style) -> usize {
    style.width.saturating_sub(38).clamp(16, 60)
}

fn signed(now: u64, then: u64) -> String {
    match now.cmp(&then) {
        std::cmp::Ordering::Equal => "·".to_owned(),
        std::cmp::Ordering::Greater => format!("+{}", Iec(now - then)),
        std::cmp::Ordering::Less => format!("−{}", Iec(then - now)),
    }
}
