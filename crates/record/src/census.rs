//! The census of recordings and experiments: the composition of each process's memory, and the figures of its
//! runtime library.

use crate::evidence;
use crate::ops::Op;
use crate::reading::{Reading, Request};
use crate::steps::Steps;
use std::collections::BTreeMap;
use unbloat_contract::{Snapshot, Word};
use unbloat_heap::inspect;
use unbloat_heap::model::{Allocator, Category, NoteCode, ProcessReport};
use unbloat_process::{Error, Pid, status_page};
use unbloat_recording::recording::HEAP_WALKED;
use unbloat_recording::{CategoryBytes, Counter, ProcessId};
use unbloat_store::clock::monotonic_ns;

/// The figures of a status page that are kept, by their names in the recording.
const STATUS: [(&str, Word); 9] = [
    ("gc_count", Word::GcCount),
    ("gc_major_count", Word::GcMajorCount),
    ("trims", Word::Trims),
    ("trim_returned_bytes", Word::TrimReturnedBytes),
    ("trim_ns", Word::TrimNs),
    ("trim_max_ns", Word::TrimMaxNs),
    ("refaults", Word::Refaults),
    ("idle_trims", Word::IdleTrims),
    ("requested_trims", Word::RequestedTrims),
];

/// Takes the census of all processes, and marks the steps that the gem has taken in them since the last one.
/// Nothing is stopped and nothing runs in them. `started_ns` is the recording's start (`CLOCK_MONOTONIC`).
pub(crate) fn take(request: &Request, steps: &mut Steps, started_ns: i64, reading: &mut Reading) {
    steps.keep_only(&request.processes);
    let (mut rows, mut counters) = (Vec::new(), Vec::new());
    // Even for a single process: it shares its libraries with others, and the curve above the census is PSS.
    let options = inspect::Options { proportional: true, ..inspect::Options::default() };
    for &(id, pid) in &request.processes {
        let report = match inspect::inspect(pid, &options) {
            Ok(report) => report,
            Err(Error::Gone { .. }) => continue,
            Err(error) => {
                reading.ops.push(Op::Note(id, error.to_string()));
                continue;
            }
        };
        // Denied access is recorded as such, with the reason.
        let refusals = report.notes.iter().filter(|note| note.code == NoteCode::NotPermitted);
        reading.ops.extend(refusals.map(|note| Op::Note(id, note.text.clone())));
        reading.inspected += 1;
        reading.rubies.extend(report.ruby.is_some().then_some(id));
        let of_process = self::rows(id, reading.time_ns, &report);
        add(&mut reading.census, &of_process);
        rows.extend(of_process);
        counters.extend(walked(id, reading.time_ns, &report));
        counters.extend(ruby(id, reading.time_ns, &report));
        if let Some(page) = status_page::read(pid).ok().flatten() {
            counters.extend(runtime(id, reading.time_ns, &page));
            reading.ops.extend(steps.new_marks((id, pid), &page, started_ns, monotonic_ns()));
        }
        reading.ops.extend(runs(pid, &report).map(|text| Op::Runtime(id, text)));
    }
    reading.ops.push(Op::Census(rows));
    reading.ops.push(Op::Counters(counters));
}

/// Creates the rows of one process.
#[must_use]
pub fn rows(process: ProcessId, time_ns: i64, report: &ProcessReport) -> Vec<CategoryBytes> {
    let proportional = report.proportional.as_ref();
    let row = |(category, bytes): (Category, u64)| CategoryBytes {
        time_ns,
        process,
        category: category.name(),
        bytes,
        proportional_bytes: proportional.map(|census| census.bytes(category)),
    };
    report.census.iter().map(row).collect()
}

fn add(sums: &mut BTreeMap<String, u64>, rows: &[CategoryBytes]) {
    for row in rows {
        let sum = sums.entry(row.category.clone()).or_default();
        *sum = sum.saturating_add(row.proportional_bytes.unwrap_or(row.bytes));
    }
}

/// Records whether the census tells freed memory from live, for a process that has memory.
fn walked(process: ProcessId, time_ns: i64, report: &ProcessReport) -> Option<Counter> {
    let value = u64::from(report.census.is_walked());
    (report.rss_bytes > 0).then(|| Counter { time_ns, process, name: HEAP_WALKED.to_owned(), value })
}

fn ruby(process: ProcessId, time_ns: i64, report: &ProcessReport) -> Vec<Counter> {
    let Some(ruby) = &report.ruby else { return Vec::new() };
    let values = [
        ("ruby_pages", ruby.pages()),
        ("ruby_slots", ruby.slots()),
        ("ruby_live_slots", ruby.live_slots()),
        ("ruby_compactable_pages", ruby.compactable_pages),
    ];
    values.map(|(name, value)| Counter { time_ns, process, name: name.to_owned(), value }).into()
}

fn runtime(process: ProcessId, time_ns: i64, page: &Snapshot) -> impl Iterator<Item = Counter> {
    STATUS.iter().map(move |(name, word)| Counter {
        time_ns,
        process,
        name: (*name).to_owned(),
        value: page.word(*word),
    })
}

/// Describes the software in a process: `ruby 3.3.0, glibc 2.36, 8 arenas, policy trim=adaptive`.
fn runs(pid: Pid, report: &ProcessReport) -> Option<String> {
    let ruby = report.ruby.as_ref().map(|ruby| format!("ruby {}", ruby.version));
    let allocator = report.allocator.as_ref().map(allocator);
    let parts: Vec<String> =
        ruby.into_iter().chain(allocator).chain(evidence::in_words(pid, report)).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn allocator(allocator: &Allocator) -> String {
    let mut text = allocator.kind.name().to_owned();
    if let Some(version) = &allocator.version {
        text = format!("{text} {version}");
    }
    match allocator.arenas.len() {
        0 => text,
        1 => format!("{text}, one arena"),
        n => format!("{text}, {n} arenas"),
    }
}
