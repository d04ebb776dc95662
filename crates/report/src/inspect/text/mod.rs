//! An inspection for a person at a terminal: the answer first, then the evidence.

mod allocator;
mod ruby;

use super::tree;
use super::words;
use crate::inspect::advice;
use crate::segment::{Appearance as _, Segment};
use crate::style::{Ink, Style, apportion, bar, clip, percent, wrap};
use std::fmt::Write as _;
use unbloat_heap::Iec;
use unbloat_heap::model::{Category, Census, Failure, Finding, Group, Inspection, Note, ProcessReport};

/// Level of detail for each of several processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// All processes in one table, and the largest in full.
    Largest,
    /// Every process in full.
    Every,
}

/// Number of Ruby types shown by name; the rest is summed up.
const TYPE_ROWS: usize = 6;

/// Renders an inspection.
#[must_use]
pub fn text(inspection: &Inspection, detail: Detail, style: &Style) -> String {
    let mut out = String::new();
    let several = inspection.processes.len() > 1;
    if several {
        out.push_str(&tree::table(inspection, style));
        push_findings(&mut out, &inspection.verdict, style);
    }
    let shown: Vec<&ProcessReport> = match detail {
        Detail::Every => inspection.processes.iter().collect(),
        Detail::Largest => largest(inspection).into_iter().collect(),
    };
    for process in &shown {
        if !out.is_empty() {
            let _ = writeln!(out, "\n{}\n", style.paint(Ink::Dim, &"─".repeat(style.width)));
        }
        push_process(&mut out, process, style);
    }
    for failure in &inspection.failures {
        push_failure(&mut out, failure, style);
    }
    if several && shown.len() < inspection.processes.len() {
        let more =
            "Only the largest process is shown in full; --full shows every one, --html FILE draws them.";
        let _ = writeln!(out, "\n{}", style.paint(Ink::Dim, more));
    }
    out
}

/// Returns the largest process; of equals, the first.
fn largest(inspection: &Inspection) -> Option<&ProcessReport> {
    inspection.processes.iter().min_by_key(|process| std::cmp::Reverse(process.rss_bytes))
}

fn push_process(out: &mut String, process: &ProcessReport, style: &Style) {
    push_title(out, process, style);
    if process.rss_bytes > 0 {
        push_bar(out, &process.census, style);
        push_findings(out, &process.verdict, style);
        push_census(out, process, style);
    }
    if let Some(allocator) = &process.allocator {
        allocator::push(out, allocator, process.threads, style);
    }
    if let Some(ruby) = &process.ruby {
        ruby::push(out, ruby, process.ownership.as_ref(), style);
    }
    if let Some(runtime) = &process.runtime {
        push_heading(out, "UNBLOAT RUN", &format!("  {}", runtime.policy), style);
        out.push_str(&wrap(&words::runtime(runtime), style.width, 2));
    }
    push_notes(out, &process.notes, style);
    push_cost(out, process, style);
}

fn push_title(out: &mut String, process: &ProcessReport, style: &Style) {
    let pid = format!("{}  ", process.pid);
    let command = clip(process.command.raw(), style.width.saturating_sub(pid.len()));
    let _ = writeln!(out, "{pid}{}", style.paint(Ink::Bold, &command));
    let ruby = process.ruby.as_ref().map(|ruby| format!("Ruby {}", ruby.version));
    let allocator = process.allocator.as_ref().map(|allocator| match &allocator.version {
        Some(version) => format!("{} {version}", allocator.kind.name()),
        None => allocator.kind.name().to_owned(),
    });
    let threads =
        Some(if process.threads == 1 { "1 thread".into() } else { format!("{} threads", process.threads) });
    let what: Vec<_> = [ruby, allocator, threads].into_iter().flatten().collect();
    let _ = writeln!(out, "{}", style.paint(Ink::Dim, &what.join(" · ")));
    let proportional =
        process.pss_bytes.map_or(String::new(), |bytes| format!(" ({} proportional)", Iec(bytes)));
    let bloat = process.bloat_bytes().zip(process.floor_bytes());
    let bloat = bloat
        .map_or(String::new(), |(bloat, floor)| format!(" · {} bloat · floor {}", Iec(bloat), Iec(floor)));
    let _ = writeln!(out, "{} resident{proportional}{bloat}", Iec(process.rss_bytes),);
    if let Some(waiting) = words::waiting(process) {
        let _ = writeln!(out, "{waiting}");
    }
    out.push('\n');
}

/// Adds the stacked bar with its legend.
fn push_bar(out: &mut String, census: &Census, style: &Style) {
    let parts: Vec<_> = Segment::ALL
        .iter()
        .map(|&segment| (segment, segment.bytes(census)))
        .filter(|&(_, b)| b > 0)
        .collect();
    let bytes: Vec<_> = parts.iter().map(|&(_, bytes)| bytes).collect();
    for (&(segment, _), cells) in parts.iter().zip(apportion(&bytes, style.width)) {
        out.push_str(&style.paint(segment.ink(), &segment.cell(style).to_string().repeat(cells)));
    }
    out.push('\n');
    let mut column = 0;
    for &(segment, bytes) in &parts {
        let block = segment.cell(style);
        let label = format!("{} {}", segment.label(), Iec(bytes));
        let width = label.chars().count() + 2;
        if column > 0 && column + 3 + width > style.width {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push_str("   ");
            column += 3;
        }
        column += width;
        let _ = write!(out, "{} {}", style.paint(segment.ink(), &block.to_string()), label);
    }
    out.push('\n');
}

pub(super) fn push_heading(out: &mut String, heading: &str, rest: &str, style: &Style) {
    let _ = writeln!(out, "\n{}{}", style.paint(Ink::Bold, heading), style.paint(Ink::Dim, rest));
}

/// Adds the verdict: the first finding is the summary, those with an action are numbered.
pub(super) fn push_findings(out: &mut String, findings: &[Finding], style: &Style) {
    if findings.is_empty() {
        return;
    }
    push_heading(out, "VERDICT", "", style);
    let mut number = 0;
    for (i, finding) in findings.iter().enumerate() {
        let mark = if i == 0 {
            String::new()
        } else if finding.actions.is_empty() {
            "– ".to_owned()
        } else {
            number += 1;
            format!("{number}. ")
        };
        let indent = if i == 0 { 2 } else { 5 };
        if i == 1 {
            out.push('\n');
        }
        let paragraph = wrap(&finding.text, style.width, indent);
        let start = indent - mark.chars().count();
        let body = paragraph.trim_start();
        let _ = write!(out, "{:start$}{}{body}", "", style.paint(Ink::Bold, &mark));
        push_actions(out, finding, style);
    }
}

fn push_actions(out: &mut String, finding: &Finding, style: &Style) {
    let lines = advice::lines(&finding.actions);
    let widest = lines.iter().map(|line| line.place.chars().count()).max().unwrap_or(0);
    for advice::Line { place, line } in lines {
        let pad = widest - place.chars().count();
        let place = style.paint(Ink::Dim, place);
        let _ = writeln!(out, "       {place}{:pad$}   {}", "", style.paint(Ink::Green, &line));
    }
}

/// Adds the census: every category with its bytes, and the types of Ruby objects under their sum.
fn push_census(out: &mut String, process: &ProcessReport, style: &Style) {
    push_heading(out, "WHERE EVERY BYTE IS", "", style);
    let rss = process.rss_bytes;
    let mut row = |group: &str, label: &str, bytes: u64, ink: Ink, with_bar: bool| {
        let drawn = if with_bar { bar(bytes, rss, style.width.saturating_sub(51)) } else { String::new() };
        let line =
            format!("  {group:<8}{label:<22}{:>9}  {:>6}  ", Iec(bytes).to_string(), percent(bytes, rss));
        let _ = writeln!(out, "{}", format!("{line}{}", style.paint(ink, &drawn)).trim_end());
    };
    for group in Group::ALL {
        let mut name = group.label();
        if group == Group::Ruby && process.census.ruby_live() > 0 {
            row(name, "objects", process.census.ruby_live(), Segment::RubyObjects.ink(), true);
            name = "";
            for (label, bytes) in object_rows(&process.census) {
                row("", &format!("  {label}"), bytes, Ink::None, false);
            }
        }
        let in_group = |&(category, _): &(Category, u64)| {
            category.group() == group && !matches!(category, Category::RubyLive(_))
        };
        for (category, bytes) in process.census.iter().filter(in_group) {
            row(name, category.label(), bytes, category.segment().ink(), true);
            name = "";
        }
    }
    row("", "resident", rss, Ink::None, false);
    match process.unattributed_bytes() {
        0 => {}
        missing if missing > 0 => row("", "  not attributed", missing.unsigned_abs(), Ink::None, false),
        excess => row("", "  counted twice", excess.unsigned_abs(), Ink::None, false),
    }
}

/// Returns the largest types by name, and the sum of the others.
fn object_rows(census: &Census) -> Vec<(String, u64)> {
    let mut types: Vec<_> = census
        .iter()
        .filter(|(category, _)| matches!(category, Category::RubyLive(_)))
        .map(|(category, bytes)| (category.label().to_owned(), bytes))
        .collect();
    types.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    if types.len() > TYPE_ROWS + 1 {
        let others = types.split_off(TYPE_ROWS);
        types.push((format!("{} other types", others.len()), others.iter().map(|(_, bytes)| bytes).sum()));
    }
    types
}

fn push_notes(out: &mut String, notes: &[Note], style: &Style) {
    if notes.is_empty() {
        return;
    }
    push_heading(out, "LIMITATIONS", "", style);
    for note in notes {
        let paragraph = wrap(&note.text, style.width, 4);
        let _ = write!(out, "  {} {}", style.paint(Ink::Yellow, "!"), paragraph.trim_start());
    }
}

fn push_failure(out: &mut String, failure: &Failure, style: &Style) {
    let command =
        failure.command.as_ref().map_or(String::new(), |command| format!("  {}", clip(command.raw(), 60)));
    let _ = writeln!(out, "\n{}{command}", failure.pid);
    let paragraph = wrap(&failure.note.text, style.width, 4);
    let _ = write!(out, "  {} {}", style.paint(Ink::Red, "!"), paragraph.trim_start());
}

fn push_cost(out: &mut String, process: &ProcessReport, style: &Style) {
    let stopped = if process.stopped.is_zero() {
        "without stopping the process".to_owned()
    } else {
        format!("the process was stopped for {:.1} ms of it", process.stopped.as_secs_f64() * 1e3)
    };
    let cost = format!("Inspected in {:.0} ms, {stopped}.", process.elapsed.as_secs_f64() * 1e3);
    let _ = writeln!(out, "\n{}", style.paint(Ink::Dim, &cost));
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn one_process() {
        let inspection = Inspection { processes: vec![fixture::worker(2310)], ..Inspection::default() };
        insta::assert_snapshot!(text(&inspection, Detail::Largest, &Style::PLAIN));
    }

    #[test]
    fn a_cluster() {
        insta::assert_snapshot!(text(&fixture::cluster(), Detail::Largest, &Style::PLAIN));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let text = text(&fixture::cluster(), Detail::Every, &Style::PLAIN);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
    }
}
