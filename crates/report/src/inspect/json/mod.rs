//! An inspection for scripts. `docs/reference/inspect.schema.json` documents the names, which do not change
//! within a schema number.

mod allocator;
mod ownership;
mod ruby;

use crate::inspect::advice;
use allocator::AllocatorFound;
use ownership::Owners;
use ruby::Ruby;
use serde::Serialize;
use unbloat_heap::model::{Census, Failure, Finding, Inspection, Note, ProcessReport, Runtime, Sharing};
use unbloat_untrusted::Untrusted;

/// Renders an inspection as one JSON document, over several lines if `pretty`.
#[must_use]
pub fn json(inspection: &Inspection, pretty: bool) -> String {
    let document = Document::of(inspection);
    if pretty { crate::json::pretty(&document) } else { crate::json::line(&document) }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    processes: Vec<Process<'a>>,
    failures: Vec<Failed<'a>>,
    total: Total<'a>,
}

impl<'a> Document<'a> {
    fn of(inspection: &'a Inspection) -> Self {
        Document {
            schema: 1,
            processes: inspection.processes.iter().map(Process::of).collect(),
            failures: inspection.failures.iter().map(Failed::of).collect(),
            total: Total::of(inspection),
        }
    }
}

#[derive(Serialize)]
struct Process<'a> {
    pid: i32,
    parent: Option<i32>,
    command: &'a Untrusted,
    threads: u64,
    rss_bytes: u64,
    pss_bytes: Option<u64>,
    uss_bytes: Option<u64>,
    swap_bytes: Option<u64>,
    census: Vec<Part>,
    unattributed_bytes: i64,
    live_bytes: u64,
    bloat_bytes: Option<u64>,
    trimmable_bytes: Option<u64>,
    stranded_bytes: Option<u64>,
    holes_bytes: Option<u64>,
    cached_bytes: Option<u64>,
    floor_bytes: Option<u64>,
    sharing: Option<SharedWith>,
    allocator: Option<AllocatorFound<'a>>,
    ruby: Option<Ruby<'a>>,
    runtime: Option<Under<'a>>,
    ownership: Option<Owners<'a>>,
    verdict: Vec<Sentence<'a>>,
    notes: Vec<Limit<'a>>,
    stopped_s: f64,
    elapsed_s: f64,
}

impl<'a> Process<'a> {
    fn of(report: &'a ProcessReport) -> Self {
        let census = &report.census;
        Process {
            pid: report.pid.0,
            parent: report.parent.map(|parent| parent.0),
            command: &report.command,
            threads: report.threads,
            rss_bytes: report.rss_bytes,
            pss_bytes: report.pss_bytes,
            uss_bytes: report.uss_bytes,
            swap_bytes: report.swap_bytes,
            census: parts(census),
            unattributed_bytes: report.unattributed_bytes(),
            live_bytes: census.live(),
            bloat_bytes: report.bloat_bytes(),
            trimmable_bytes: report.trimmable_bytes(),
            stranded_bytes: census.stranded(),
            holes_bytes: census.holes(),
            cached_bytes: census.cached(),
            floor_bytes: report.floor_bytes(),
            sharing: report.sharing.as_ref().map(SharedWith::of),
            allocator: report.allocator.as_ref().map(AllocatorFound::of),
            ruby: report.ruby.as_ref().map(Ruby::of),
            runtime: report.runtime.as_ref().map(Under::of),
            ownership: report.ownership.as_ref().map(|ownership| Owners::of(report, ownership)),
            verdict: report.verdict.iter().map(Sentence::of).collect(),
            notes: report.notes.iter().map(Limit::of).collect(),
            stopped_s: report.stopped.as_secs_f64(),
            elapsed_s: report.elapsed.as_secs_f64(),
        }
    }
}

/// The work of `unbloat run` in a process.
#[derive(Serialize)]
struct Under<'a> {
    policy: &'a Untrusted,
    trims: u64,
    trim_returned_bytes: u64,
    problem: Option<&'a Untrusted>,
}

impl<'a> Under<'a> {
    fn of(runtime: &'a Runtime) -> Self {
        let Runtime { policy, trims, returned_bytes, problem } = runtime;
        Under { policy, trims: *trims, trim_returned_bytes: *returned_bytes, problem: problem.as_ref() }
    }
}

/// All processes together, in proportional bytes, because a sum of resident bytes counts shared pages more
/// than once.
#[derive(Serialize)]
struct Total<'a> {
    processes: usize,
    rss_sum_bytes: u64,
    pss_bytes: Option<u64>,
    uss_bytes: Option<u64>,
    census: Option<Vec<Part>>,
    live_bytes: Option<u64>,
    bloat_bytes: Option<u64>,
    trimmable_bytes: Option<u64>,
    stranded_bytes: Option<u64>,
    holes_bytes: Option<u64>,
    cached_bytes: Option<u64>,
    floor_bytes: Option<u64>,
    verdict: Vec<Sentence<'a>>,
}

impl<'a> Total<'a> {
    fn of(inspection: &'a Inspection) -> Self {
        let census = inspection.proportional();
        let part = |part: fn(&Census) -> Option<u64>| census.as_ref().and_then(part);
        Total {
            processes: inspection.processes.len(),
            rss_sum_bytes: inspection.rss_sum_bytes(),
            pss_bytes: inspection.pss_bytes(),
            uss_bytes: inspection.uss_bytes(),
            live_bytes: census.as_ref().map(Census::live),
            bloat_bytes: inspection.bloat_bytes(),
            trimmable_bytes: part(Census::trimmable),
            stranded_bytes: part(Census::stranded),
            holes_bytes: part(Census::holes),
            cached_bytes: part(Census::cached),
            floor_bytes: inspection.floor_bytes(),
            census: census.as_ref().map(parts),
            verdict: inspection.verdict.iter().map(Sentence::of).collect(),
        }
    }
}

#[derive(Serialize)]
struct Part {
    category: String,
    bytes: u64,
}

fn parts(census: &Census) -> Vec<Part> {
    census.iter().map(|(category, bytes)| Part { category: category.name(), bytes }).collect()
}

#[derive(Serialize)]
struct Failed<'a> {
    pid: i32,
    command: Option<&'a Untrusted>,
    code: &'static str,
    text: &'a str,
}

impl<'a> Failed<'a> {
    fn of(failure: &'a Failure) -> Self {
        let Note { code, text } = &failure.note;
        Failed { pid: failure.pid.0, command: failure.command.as_ref(), code: code.name(), text }
    }
}

#[derive(Serialize)]
struct SharedWith {
    parent: i32,
    shared_bytes: u64,
    unshared_bytes: u64,
}

impl SharedWith {
    fn of(sharing: &Sharing) -> Self {
        let Sharing { parent, shared_bytes, unshared_bytes } = *sharing;
        SharedWith { parent: parent.0, shared_bytes, unshared_bytes }
    }
}

#[derive(Serialize)]
struct Sentence<'a> {
    code: &'a str,
    text: &'a str,
    actions: Vec<Line>,
    gain_bytes: Option<u64>,
}

impl<'a> Sentence<'a> {
    fn of(finding: &'a Finding) -> Self {
        let lines = advice::lines(&finding.actions).into_iter();
        let actions = lines.map(|advice::Line { place, line }| Line { place, line }).collect();
        Sentence { code: finding.code.name(), text: &finding.text, actions, gain_bytes: finding.gain_bytes }
    }
}

#[derive(Serialize)]
struct Line {
    place: &'static str,
    line: String,
}

#[derive(Serialize)]
struct Limit<'a> {
    code: &'static str,
    text: &'a str,
}

impl<'a> Limit<'a> {
    fn of(note: &'a Note) -> Self {
        Limit { code: note.code.name(), text: &note.text }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::fixture;
    use super::*;
    use serde_json::Value;

    fn document(inspection: &Inspection) -> Value {
        serde_json::from_str(&json(inspection, false)).unwrap()
    }

    #[test]
    fn the_document_follows_its_schema() {
        let mut bare = fixture::worker(1);
        (bare.pss_bytes, bare.proportional, bare.allocator, bare.ruby) = (None, None, None, None);
        let bare = Inspection { processes: vec![bare], ..Inspection::default() };
        for inspection in [fixture::cluster(), bare, Inspection::default()] {
            unbloat_test_support::assert_follows(&document(&inspection), "inspect.schema.json");
        }
    }

    #[test]
    fn the_census_sums_to_the_resident_size() {
        let document = document(&fixture::cluster());
        for process in document["processes"].as_array().unwrap() {
            let sum: i64 =
                process["census"].as_array().unwrap().iter().map(|p| p["bytes"].as_i64().unwrap()).sum();
            let missing = process["unattributed_bytes"].as_i64().unwrap();
            assert_eq!(sum + missing, process["rss_bytes"].as_i64().unwrap());
        }
    }

    #[test]
    fn names_are_fixed() {
        insta::assert_json_snapshot!(document(&fixture::cluster())["processes"][1]);
        insta::assert_json_snapshot!(document(&fixture::cluster())["total"]);
    }
}
