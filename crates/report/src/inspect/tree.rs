//! Several processes in one table, summed by proportional bytes.

use crate::style::{Ink, Style, clip};
use std::fmt::Write as _;
use unbloat_heap::Iec;
use unbloat_heap::model::{Census, Inspection, ProcessReport};

/// Columns of the figures and the PID.
const FIXED_WIDTH: usize = 8 + 6 * 9;

/// Renders one row per process, with children indented below their parent; the last row is the sum.
pub(super) fn table(inspection: &Inspection, style: &Style) -> String {
    let mut out = String::new();
    let command_width = style.width.saturating_sub(FIXED_WIDTH).max(16);
    let head = format!(
        "{:<8}{:<command_width$}{:>9}{:>9}{:>9}{:>9}{:>10}{:>8}",
        "pid", "process", "RSS", "PSS", "live", "bloat", "trimmable", "strand."
    );
    let _ = writeln!(out, "{}", style.paint(Ink::Dim, &head));
    for process in &inspection.processes {
        let name = format!("{:indent$}{}", "", process.command, indent = depth(inspection, process));
        let name = clip(&name, command_width - 1);
        let pss = process.pss_bytes;
        let figures = figures(Some(process.rss_bytes), pss, Some(&process.census));
        let _ = writeln!(out, "{:<8}{name:<command_width$}{figures}", process.pid.to_string());
    }
    let figures = figures(None, inspection.pss_bytes(), inspection.proportional().as_ref());
    let sum = format!("{:<8}{:<command_width$}{figures}", "", "together, by PSS");
    let _ = writeln!(out, "{}", style.paint(Ink::Bold, sum.trim_end()));
    out
}

fn figures(rss: Option<u64>, pss: Option<u64>, census: Option<&Census>) -> String {
    [
        rss,
        pss,
        census.map(Census::live),
        census.and_then(Census::bloat),
        census.and_then(Census::trimmable),
        census.and_then(Census::stranded),
    ]
    .map(|bytes| format!("{:>9}", bytes.map_or(String::new(), |bytes| Iec(bytes).to_string())))
    .concat()
}

/// Returns the number of inspected processes above this one.
pub(super) fn depth(inspection: &Inspection, process: &ProcessReport) -> usize {
    let parent = |process: &ProcessReport| {
        inspection.processes.iter().find(|candidate| Some(candidate.pid) == process.parent)
    };
    // A process cannot have more ancestors than there are processes; a report that claims otherwise must not
    // cause a hang.
    std::iter::successors(parent(process), |ancestor| parent(ancestor))
        .take(inspection.processes.len())
        .count()
}
