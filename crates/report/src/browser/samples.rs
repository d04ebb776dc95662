//! The pages under test: one of each kind, with long and hostile titles, and a large map.

mod large_map;

pub(super) use large_map::PAGES as LARGE_MAP_PAGES;

use crate::chart::scale::Unit;
use crate::chart::{self, Chart, Color, Panel, Series, Shape, VerticalMark};
use crate::compare::{Two, fixture::Owned, html as compare, versus_html};
use crate::inspect::{Html, fixture, html as inspect};
use crate::recording::{fixture as recordings, growth, plot};
use crate::segment::Segment;
use unbloat_heap::model::{HeapMap, Inspection};
use unbloat_lab::metric::Metric;
use unbloat_lab::versus::{Change, Shared, Versus};
use unbloat_recording::growth::{Findings, Holding};
use unbloat_recording::rubies::{Amount, RubyMoment};
use unbloat_recording::{
    Censuses, ClassHolder, Header, HeldBy, Kind, Label, PathStep, ProcessId, Recording, Rubies, Sample,
};
use unbloat_stats::unpaired::Unpaired;

/// A title that tries to be markup, a script and a terminal command, and is wider than any window.
pub(super) const HOSTILE: &str = "puma: </script><script>console.error('owned')</script><img src=x onerror=console.error(1)> \u{1b}[2J\
    averyveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryverylongword [shop] and so on and on";

/// Returns every kind of page by its name.
pub(super) fn all() -> Vec<(&'static str, String)> {
    vec![
        ("inspect-one", inspected_one()),
        ("inspect-cluster", inspected_cluster()),
        ("plot-process", chart::page::draw(&by_process())),
        ("plot-category", chart::page::draw(&by_category())),
        ("plot-empty", chart::page::draw(&Chart { panels: vec![], marks: vec![], ..by_process() })),
        ("compare", compared()),
        ("versus", versus()),
        ("growth", grown()),
        ("growth-classes", grown_by_class()),
        ("plot-class", chart::page::draw(&plot::chart(&[by_class()], plot::By::Class))),
    ]
}

fn about() -> Html {
    Html { taken: "2026-11-21 10:00 UTC".into(), host: "web-1".into() }
}

/// Returns one process with a map of four pages: live, mixed, trimmable, not resident.
pub(super) fn inspected_one() -> String {
    let mut process = fixture::worker(2310);
    process.command = HOSTILE.into();
    process.map = Some(HeapMap { regions: vec![fixture::region()] });
    inspect(&Inspection { processes: vec![process], ..Inspection::default() }, &about())
}

fn inspected_cluster() -> String {
    let mut inspection = fixture::cluster();
    inspection.processes[2].command = HOSTILE.into();
    for process in &mut inspection.processes {
        process.map = Some(HeapMap { regions: vec![fixture::region()] });
    }
    inspect(&inspection, &about())
}

/// Returns one process with a map of [`LARGE_MAP_PAGES`].
pub(super) fn inspected_large() -> String {
    let mut process = fixture::worker(2310);
    let (map, allocator) = large_map::map();
    process.map = Some(map);
    process.allocator = Some(allocator);
    inspect(&Inspection { processes: vec![process], ..Inspection::default() }, &about())
}

fn compared() -> String {
    let mut owned = Owned::new(6);
    owned.plan.title = HOSTILE.to_owned();
    owned.variants[1].name = "jemalloc-with-a-name-that-goes-on-and-on".to_owned();
    owned.conclude();
    compare(&owned.experiment(), &owned.about())
}

/// Two experiments of which one took less memory.
fn versus() -> String {
    let change = |ratio: f64, interval| Change {
        first: 3e8,
        second: 3e8 * ratio,
        change: Unpaired { ratio, interval },
    };
    let metrics = [
        (Metric::PssEnd, change(0.6, Some((0.55, 0.66)))),
        (Metric::P95, change(1.4, Some((0.9, 2.1)))),
        (Metric::CpuPerUnit, change(1.0, None)),
    ];
    let shared = Shared { name: HOSTILE.to_owned(), runs: (6, 5), metrics: metrics.into() };
    let versus = Versus {
        shared: vec![shared],
        alone: vec![HOSTILE.to_owned()],
        differences: vec![("server.start".into(), HOSTILE.into(), "puma".into())],
    };
    versus_html(&Two { first: HOSTILE, second: "after.unbloat", versus: &versus })
}

/// A recording without a census, whose memory grows.
fn grown() -> String {
    let sample = |second: i64| Sample {
        time_ns: second * 1_000_000_000,
        process: ProcessId(1),
        rss_bytes: Some(((100 + second) as f64 * MIB) as u64),
        ..Sample::default()
    };
    let recording = Recording {
        name: HOSTILE.to_owned(),
        header: Header {
            kind: Kind::Record,
            tool_version: String::new(),
            started_wall_ns: 0,
            started_monotonic_ns: 0,
            owner: None,
            ended_ns: Some(360_000_000_000),
            end_reason: None,
            exit_status: None,
        },
        provenance: Vec::new(),
        processes: Vec::new(),
        folded: Vec::new(),
        samples: (0..360).map(sample).collect(),
        censuses: Censuses::default(),
        counters: Vec::new(),
        rubies: Rubies::default(),
        marks: Vec::new(),
        latencies: Vec::new(),
        cost: None,
    };
    growth::html(&Findings::of(&recording, |_| Holding::Neither), &recording)
}

/// A recording in which two classes and a gem grow.
fn by_class() -> Recording {
    let label = |kind: &str, name: &str| Label { kind: kind.into(), name: name.into(), version: None };
    let moment = |n: u32, rows: &[(&str, &str, f64)]| RubyMoment {
        time_s: f64::from(n) * 60.0,
        sums: rows
            .iter()
            .map(|&(kind, name, rate)| {
                let bytes = ((5.0 + rate * f64::from(n)) * MIB) as u64 + u64::from(n % 5) * 9000;
                (label(kind, name), Amount { objects: bytes / 80, bytes })
            })
            .collect(),
    };
    let classes =
        [("class", HOSTILE, 0.5), ("class", "Session", 0.2), ("internal", "iseq", 0.0), ("rest", "", 0.0)];
    let path =
        ["class Object", HOSTILE, "Array[9000]"].map(|what| PathStep { by: "@@x".into(), what: what.into() });
    let holder = HeldBy {
        what: "Array[9000]".into(),
        objects: 9000,
        bytes: 1 << 20,
        retained_bytes: 1 << 21,
        retained_objects: 18_000,
        path: path.into(),
    };
    let held = ClassHolder {
        time_ns: 1,
        process: ProcessId(1),
        label: label("class", HOSTILE),
        objects: 9100,
        bytes: 1 << 20,
        holder: Some(holder),
    };
    recordings::of_rubies(Rubies {
        classes: (0..60).map(|n| moment(n, &classes)).collect(),
        code: (0..60).map(|n| moment(n, &[("gem", HOSTILE, 0.3)])).collect(),
        holders: vec![held],
        with_malloc: true,
    })
}

fn grown_by_class() -> String {
    let recording = by_class();
    growth::html(&Findings::of(&recording, |_| Holding::Neither), &recording)
}

fn series(name: &str, shape: Shape, color: Color, value: impl Fn(f64) -> f64) -> Series {
    let points = (0..=600).map(|i| f64::from(i) / 10.0).map(|at| (at, value(at))).collect();
    Series { name: name.to_owned(), shape, color, points }
}

const MIB: f64 = 1_048_576.0;

/// Returns a minute of three processes that grow by 1, 2 and 3 MiB per second.
pub(super) fn by_process() -> Chart {
    let grows = |rate: f64| move |at: f64| (10.0 + rate * at) * MIB;
    let bands = [("1 master", 0, 1.0), ("2 worker", 1, 2.0), (HOSTILE, 2, 3.0)];
    let memory = bands.map(|(name, n, rate)| series(name, Shape::Stacked, Color::Nth(n), grows(rate)));
    let cpu = series("CPU of all processes", Shape::Line, Color::Neutral, |at| 0.5 + 0.4 * (at / 5.0).sin());
    Chart {
        title: HOSTILE.to_owned(),
        subtitle: "2026-11-21 10:00:00 UTC · 0:01:00 · at most 390 MiB PSS".to_owned(),
        x: Unit::Seconds,
        panels: vec![
            Panel {
                title: "Memory by process (PSS)".into(),
                y: Unit::Bytes,
                weight: 3.0,
                series: memory.into(),
            },
            Panel { title: "CPU (cores)".into(), y: Unit::Cores, weight: 1.0, series: vec![cpu] },
        ],
        marks: vec![
            VerticalMark { x: 20.0, name: "load </script> begins".into() },
            VerticalMark { x: 20.5, name: "too close to be written".into() },
        ],
    }
}

/// Returns memory by category, with a total, a band and dots.
fn by_category() -> Chart {
    let parts = Segment::STACKED.map(|segment| {
        series(segment.label(), Shape::Stacked, Color::Memory(segment), |at| (4.0 + at / 10.0) * MIB)
    });
    let total = series("whole tree (PSS)", Shape::Line, Color::Neutral, |at| (32.0 + at) * MIB);
    let edges = (0..=600).map(|i| (f64::from(i) * 0.8, f64::from(i) * 1.2)).collect();
    let band = series("band", Shape::Band(edges), Color::Nth(4), |at| at * 10.0);
    let dots = series("dots", Shape::Dots, Color::Nth(5), |at| (at * 7.0) % 500.0);
    let memory = parts.into_iter().chain([total]).collect();
    Chart {
        title: "bundle exec puma".to_owned(),
        subtitle: String::new(),
        x: Unit::Seconds,
        panels: vec![
            Panel {
                title: "Composition of memory (PSS)".into(),
                y: Unit::Bytes,
                weight: 3.0,
                series: memory,
            },
            Panel {
                title: "Latency (ms)".into(),
                y: Unit::Milliseconds,
                weight: 2.0,
                series: vec![band, dots],
            },
        ],
        marks: vec![],
    }
}
