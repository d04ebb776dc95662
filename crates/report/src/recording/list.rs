//! A recording as numbers for other programs: CSV and JSON.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use unbloat_recording::rubies::RubyMoment;
use unbloat_recording::{Composition, Recording, recording::seconds};
use unbloat_untrusted::csv;

/// Renders one line per look at the tree, in our own columns.
#[must_use]
pub fn csv(recording: &Recording) -> String {
    let mut out = "time_s,processes,pss_bytes,rss_bytes,uss_bytes,swap_bytes,cpu_cores\n".to_owned();
    for look in recording.looks() {
        let _ = writeln!(
            out,
            "{:.3},{},{},{},{},{},{}",
            look.time_s,
            look.processes,
            cell(look.pss_bytes),
            cell(look.rss_bytes),
            cell(look.uss_bytes),
            cell(look.swap_bytes),
            look.cpu_cores.map_or_else(String::new, |cores| format!("{cores:.3}")),
        );
    }
    out
}

/// Renders one line per process and look.
#[must_use]
pub fn csv_by_process(recording: &Recording) -> String {
    let commands: HashMap<_, _> =
        recording.processes.iter().map(|p| (p.id, (p.pid, csv::cell(p.command.raw())))).collect();
    let mut out = "time_s,pid,command,rss_bytes,pss_bytes,uss_bytes,swap_bytes,minor_faults,major_faults,user_s,system_s,threads\n".to_owned();
    for s in &recording.samples {
        let Some((pid, command)) = commands.get(&s.process) else { continue };
        let _ = writeln!(
            out,
            "{:.3},{pid},{command},{},{},{},{},{},{},{},{},{}",
            seconds(s.time_ns),
            cell(s.rss_bytes),
            cell(s.pss_bytes),
            cell(s.uss_bytes),
            cell(s.swap_bytes),
            cell(s.minor_faults),
            cell(s.major_faults),
            cell(s.user_s),
            cell(s.system_s),
            cell(s.threads)
        );
    }
    out
}

/// Renders one line per category of the tree and census.
#[must_use]
pub fn csv_by_category(recording: &Recording) -> String {
    let mut out = "time_s,category,bytes\n".to_owned();
    for census in &recording.censuses.over_time {
        for (category, bytes) in &census.bytes {
            let _ = writeln!(out, "{:.3},{},{bytes}", census.time_s, plain_or_quoted(category));
        }
    }
    out
}

/// Renders one line per class of objects and look; with `code`, per origin of code.
#[must_use]
pub fn csv_of_rubies(recording: &Recording, code: bool) -> String {
    let (count, moments) = match code {
        true => ("sequences", &recording.rubies.code),
        false => ("objects", &recording.rubies.classes),
    };
    let mut out = format!("time_s,kind,name,version,{count},bytes\n");
    for moment in moments {
        for (label, amount) in &moment.sums {
            let version = label.version.as_ref().map_or_else(String::new, |version| csv::cell(version.raw()));
            let _ = writeln!(
                out,
                "{:.3},{},{},{version},{},{}",
                moment.time_s,
                plain_or_quoted(label.kind.raw()),
                csv::cell(label.name.raw()),
                amount.objects,
                amount.bytes
            );
        }
    }
    out
}

/// Renders psrecord's columns (its `--log-format csv`, version 1.4): CPU in percent of a core, memory in MiB.
/// Its real memory is the sum of RSS, which counts shared pages once per process; virtual memory is not
/// recorded and stays empty.
#[must_use]
pub fn csv_as_psrecord(recording: &Recording) -> String {
    const MIB: f64 = 1024.0 * 1024.0;
    let mut out = "elapsed_time,nproc,cpu,mem_real,mem_virtual\n".to_owned();
    let mut cpu = 0.0;
    for look in recording.looks() {
        cpu = look.cpu_cores.map_or(cpu, |cores| cores * 100.0);
        let real = look.rss_bytes.map_or_else(String::new, |rss| format!("{:.3}", rss as f64 / MIB));
        let _ = writeln!(out, "{:.3},{},{cpu:.3},{real},", look.time_s, look.processes);
    }
    out
}

fn cell<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Quotes a name if necessary. Names of categories are plain words, but a file from elsewhere may contain
/// anything.
fn plain_or_quoted(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain { name.to_owned() } else { csv::cell(name) }
}

/// Renders all data over time, according to `docs/reference/plot.schema.json`.
#[must_use]
pub fn json(recordings: &[Recording]) -> Value {
    json!({"schema": 1, "recordings": recordings.iter().map(one).collect::<Vec<_>>()})
}

fn one(recording: &Recording) -> Value {
    let looks: Vec<Value> = recording
        .looks()
        .iter()
        .map(|look| {
            json!({
                "time_s": look.time_s,
                "processes": look.processes,
                "rss_bytes": look.rss_bytes,
                "pss_bytes": look.pss_bytes,
                "uss_bytes": look.uss_bytes,
                "swap_bytes": look.swap_bytes,
                "cpu_cores": look.cpu_cores,
            })
        })
        .collect();
    let census: Vec<Value> = recording.censuses.over_time.iter().map(composition).collect();
    let counters: Vec<Value> =
        recording.counters.iter().map(|(at, values)| json!({"time_s": at, "values": values})).collect();
    let marks: Vec<Value> = recording
        .marks
        .iter()
        .map(|mark| json!({"time_s": seconds(mark.time_ns), "name": mark.name}))
        .collect();
    let mut document = json!({
        "name": recording.name,
        "started_wall_ns": recording.header.started_wall_ns,
        "duration_s": recording.duration_s(),
        "looks": looks,
        "census": census,
        "counters": counters,
        "marks": marks,
    });
    if !recording.rubies.is_empty() {
        document["rubies"] = json!({
            "with_malloc": recording.rubies.with_malloc,
            "classes": recording.rubies.classes.iter().map(ruby_moment).collect::<Vec<_>>(),
            "code": recording.rubies.code.iter().map(ruby_moment).collect::<Vec<_>>(),
        });
    }
    document
}

fn ruby_moment(moment: &RubyMoment) -> Value {
    let row = |(label, amount): (&unbloat_recording::Label, &unbloat_recording::rubies::Amount)| {
        json!({
            "kind": label.kind,
            "name": label.name,
            "version": label.version,
            "objects": amount.objects,
            "bytes": amount.bytes,
        })
    };
    json!({ "time_s": moment.time_s, "rows": moment.sums.iter().map(row).collect::<Vec<_>>() })
}

fn composition(census: &Composition) -> Value {
    let mut document = json!({"time_s": census.time_s, "bytes": census.bytes});
    if let Some(walked) = census.walked {
        document["walked"] = walked.into();
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_text_is_no_formula_and_no_second_cell() {
        for (text, cell) in [
            ("puma: worker, \"0\"", "\"puma: worker, \"\"0\"\"\""),
            ("=cmd|' /C calc'!A0", "\"'=cmd|' /C calc'!A0\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\t=1", "\"' =1\""),
            ("a\nb", "\"a b\""),
        ] {
            assert_eq!(csv::cell(text), cell);
        }
        assert_eq!(
            (plain_or_quoted("malloc_live"), plain_or_quoted("=1,2")),
            ("malloc_live".into(), "\"'=1,2\"".into())
        );
    }
}
