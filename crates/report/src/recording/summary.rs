//! `unbloat show`: a recording in a few lines.

use super::live::clock;
use super::plot::date;
use crate::segment::Segment;
use crate::style::{Ink, Style, clip};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;
use unbloat_heap::Iec;
use unbloat_recording::{Cost, Key, Process, Recording, recording::seconds};
use unbloat_untrusted::Untrusted;

/// Number of processes listed; the others are counted.
const LISTED: usize = 20;

/// Renders the summary as text. `writing`: the process that is currently writing the file.
#[must_use]
pub fn text(recording: &Recording, writing: Option<i32>, style: &Style) -> String {
    let mut out = String::new();
    let (memory, counted) = recording.memory();
    let command = recording.fact(Key::Command).map_or(recording.name.as_str(), Untrusted::raw);
    let _ = writeln!(out, "{}", style.paint(Ink::Bold, &clip(command, style.width)));
    let _ = writeln!(out, "{}", style.paint(Ink::Dim, &clip(&when(recording, writing), style.width)));
    for (name, value) in [("machine", machine(recording)), ("runs", runtime(recording))] {
        if let Some(value) = value {
            let _ = writeln!(out, "{name:<10}{}", clip(&value, style.width.saturating_sub(10)));
        }
    }
    if let (Some(first), Some(last)) = (memory.first(), memory.last()) {
        let most = memory.iter().fold(first, |a, b| if b.1 > a.1 { b } else { a });
        let _ = writeln!(
            out,
            "{:<10}{} {counted} at first, {} at the end, at most {} after {}",
            "memory",
            Iec(first.1 as u64),
            Iec(last.1 as u64),
            style.paint(Ink::Bold, &Iec(most.1 as u64).to_string()),
            clock(Duration::from_secs_f64(most.0.max(0.0)))
        );
    }
    if let Some(census) = recording.censuses.last() {
        let named = |(segment, bytes): (Segment, u64)| format!("{} {}", segment.label(), Iec(bytes));
        let parts: Vec<_> = Segment::recorded(census).into_iter().map(named).collect();
        let body = crate::style::wrap(&parts.join(", "), style.width, 10);
        let _ = write!(out, "{:<10}{}", "made of", body.trim_start());
    }
    if let Some(cost) = &recording.cost {
        let _ = writeln!(out, "{:<10}{}", "cost", cost_text(cost, recording.rubies.classes.len()));
    }
    processes(&mut out, recording, style);
    for mark in &recording.marks {
        let at = clock(Duration::from_secs_f64(seconds(mark.time_ns).max(0.0)));
        let _ =
            writeln!(out, "{:<10}{at}  {}", "mark", clip(mark.name.raw(), style.width.saturating_sub(20)));
    }
    out += &super::latency::text(&recording.latencies);
    out
}

fn when(recording: &Recording, writing: Option<i32>) -> String {
    let mut facts = vec![
        date(recording.header.started_wall_ns),
        clock(Duration::from_secs_f64(recording.duration_s().max(0.0))),
    ];
    facts.push(match (writing, &recording.header.end_reason) {
        (Some(pid), _) => format!("being recorded by process {pid}"),
        (None, Some(reason)) => format!("ended because {reason}"),
        (None, None) => "cut short: the recorder was killed".to_owned(),
    });
    facts.extend(recording.header.exit_status.map(|status| format!("exit status {status}")));
    facts.join(" · ")
}

fn machine(recording: &Recording) -> Option<String> {
    let facts: Vec<_> = [Key::Host, Key::Kernel, Key::Processor, Key::Memory]
        .into_iter()
        .filter_map(|key| recording.fact(key).map(Untrusted::shown))
        .collect();
    (!facts.is_empty()).then(|| facts.join(", "))
}

fn runtime(recording: &Recording) -> Option<String> {
    let mut all: Vec<&str> =
        recording.processes.iter().filter_map(|process| process.runtime.as_deref()).collect();
    all.sort_unstable();
    all.dedup();
    (!all.is_empty()).then(|| all.join("; "))
}

fn cost_text(cost: &Cost, class_looks: usize) -> String {
    let duration = seconds(cost.time_ns).max(1e-3);
    let rate =
        |n: u64| if n == 0 { "never".to_owned() } else { format!("every {:.1} s", duration / n as f64) };
    let mut text = format!(
        "{:.2} % of a core, {}; PSS {}, census {}",
        cost.cpu_s / duration * 100.0,
        Iec(cost.rss_bytes.unwrap_or(0)),
        rate(cost.pss_sweeps),
        rate(cost.censuses)
    );
    if class_looks > 0 {
        let _ = write!(text, ", classes {}", rate(class_looks as u64));
    }
    if cost.late_ticks + cost.missed_ticks > 0 {
        let _ = write!(text, "; {} samples late, {} missed", cost.late_ticks, cost.missed_ticks);
    }
    if cost.short_lived > 0 {
        let n = cost.short_lived;
        let _ = write!(
            text,
            "; {n} short-lived {} between samples",
            if n == 1 { "process" } else { "processes" }
        );
    }
    text
}

fn processes(out: &mut String, recording: &Recording, style: &Style) {
    let sampled: Vec<&Process> = recording.processes.iter().filter(|p| p.peak_rss_bytes.is_some()).collect();
    let _ = writeln!(out, "\n{}", style.paint(Ink::Dim, "    PID    LARGEST RSS      CPU  STATUS  COMMAND"));
    let mut largest = sampled.clone();
    largest.sort_by_key(|process| std::cmp::Reverse(process.peak_rss_bytes));
    largest.truncate(LISTED);
    largest.sort_by_key(|process| process.id);
    for process in &largest {
        let cpu = match (process.user_s, process.system_s) {
            (Some(user), Some(system)) => format!("{:.2} s", user + system),
            _ => String::new(),
        };
        let status = match (process.ended_ns, process.exit_status) {
            (None, _) => "runs".to_owned(),
            (Some(_), Some(status)) => status.to_string(),
            (Some(_), None) => "ended".to_owned(),
        };
        let head = format!(
            "{:>7}  {:>12} {cpu:>10} {status:>6}  ",
            process.pid,
            Iec(process.peak_rss_bytes.unwrap_or(0)).to_string()
        );
        let _ = writeln!(
            out,
            "{head}{}",
            clip(process.command.raw(), style.width.saturating_sub(head.len()).max(10))
        );
        if let Some(note) = &process.note {
            let _ = writeln!(
                out,
                "         {} {}",
                style.paint(Ink::Yellow, "!"),
                clip(note, style.width.saturating_sub(11))
            );
        }
    }
    if sampled.len() > largest.len() {
        let _ = writeln!(out, "         and {} smaller processes", sampled.len() - largest.len());
    }
    let counted: u64 = recording.folded.iter().map(|row| row.processes).sum();
    if counted > 0 {
        let cpu_s: f64 = recording.folded.iter().map(|row| row.user_s + row.system_s).sum();
        let _ = writeln!(
            out,
            "         and {counted} short-lived ones that are only counted, {cpu_s:.2} s of CPU"
        );
    }
}

/// Renders the summary according to `docs/reference/show.schema.json`.
#[must_use]
pub fn json(recording: &Recording, writing: Option<i32>) -> Value {
    let (memory, counted) = recording.memory();
    let most = memory.iter().map(|&(_, y)| y as u64).max();
    let parts: Option<serde_json::Map<String, Value>> =
        recording.censuses.last().map(|c| c.iter().map(|(k, v)| (k.clone(), json!(v))).collect());
    json!({
        "schema": 1,
        "name": recording.name,
        "kind": recording.header.kind,
        "started_wall_ns": recording.header.started_wall_ns,
        "duration_s": recording.duration_s(),
        "end_reason": recording.header.end_reason,
        "exit_status": recording.header.exit_status,
        "writing_pid": writing,
        "provenance": recording.provenance.iter().map(|(k, v)| (k.clone(), json!(v))).collect::<serde_json::Map<_, _>>(),
        "memory": {
            "counted_as": counted.name().to_lowercase(),
            "first_bytes": memory.first().map(|&(_, y)| y as u64),
            "last_bytes": memory.last().map(|&(_, y)| y as u64),
            "largest_bytes": most,
        },
        "last_census_bytes": parts,
        "cost": recording.cost,
        "processes": recording.processes,
        "folded": recording.folded,
        "marks": recording.marks.iter().map(|m| json!({"time_s": seconds(m.time_ns), "name": m.name})).collect::<Vec<_>>(),
        "latencies": super::latency::json(&recording.latencies),
    })
}
