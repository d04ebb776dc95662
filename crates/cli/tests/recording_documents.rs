//! Documents that `show`, `growth`, `plot` and `import` create from recordings, validated by their schemas.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use unbloat_recording::{CategoryBytes, Counter, Kind, NewProcess, Sample};
use unbloat_store::{Writer, begin};
use unbloat_test_support::assert_follows;

fn unbloat(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unbloat")).args(arguments).output().unwrap()
}

fn document(arguments: &[&str], schema: &str) -> Value {
    let output = unbloat(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_follows(&document, schema);
    document
}

/// Creates an hour of a process whose live memory and bloat, in MiB, follow two functions of time (0 to 1).
fn made_up(directory: &Path, live: fn(f64) -> f64, bloat: fn(f64) -> f64) -> PathBuf {
    let path = directory.join("made-up.unbloat");
    let mut writer = Writer::create(&path, &begin(Kind::Record)).unwrap();
    let mib = |value: f64| (value * 1_048_576.0) as u64;
    writer
        .batch(|batch| {
            batch.provenance(None, "command", "ruby app.rb")?;
            let process = batch.process(&NewProcess {
                pid: 7,
                command: "ruby app.rb".into(),
                ..NewProcess::default()
            })?;
            for i in 0..360i64 {
                let (t, time_ns) = (i as f64 / 360.0, i * 10_000_000_000);
                let tooth = (i % 7) as f64 * 0.4;
                let (live, bloat) = (live(t) + tooth, bloat(t));
                batch.sample(&Sample {
                    time_ns,
                    process,
                    rss_bytes: Some(mib(live + bloat + 20.0)),
                    pss_bytes: Some(mib(live + bloat + 20.0)),
                    user_s: Some(t * 900.0),
                    system_s: Some(t * 90.0),
                    ..Sample::default()
                })?;
                for (category, bytes) in
                    [("malloc_live", live), ("malloc_stranded", bloat), ("libraries_shared", 20.0)]
                {
                    let (category, bytes) = (category.to_owned(), mib(bytes));
                    batch.census(&CategoryBytes {
                        time_ns,
                        process,
                        category,
                        bytes,
                        proportional_bytes: None,
                    })?;
                }
                let value = (live * 1000.0) as u64;
                batch.counter(&Counter { time_ns, process, name: "ruby_live_slots".into(), value })?;
            }
            batch.mark(600_000_000_000, "deploy", None)
        })
        .unwrap();
    writer.finish(3_600_000_000_000, "the last process ended", Some(0)).unwrap();
    path
}

#[test]
fn growth_tells_a_leak_from_fragmentation_and_a_plateau() {
    let directory = tempfile::tempdir().unwrap();
    let judged = |live, bloat| {
        let path = made_up(directory.path(), live, bloat);
        let document = document(&["growth", "--json", path.to_str().unwrap()], "growth.schema.json");
        let check = unbloat(&["growth", "--check", path.to_str().unwrap()]).status.code();
        std::fs::remove_file(path).unwrap();
        (document["conclusion"].as_str().unwrap().to_owned(), check)
    };
    let (leak, check) = judged(|t| 100.0 + 60.0 * t, |_| 30.0);
    assert!(leak.starts_with("A leak is suspected"), "{leak}");
    assert_eq!(check, Some(3));
    let (fragmentation, check) = judged(|_| 100.0, |t| 80.0 * (1.0 - (-t / 0.2).exp()));
    assert!(fragmentation.starts_with("This is fragmentation"), "{fragmentation}");
    assert_eq!(check, Some(0));
    let (plateau, _) = judged(|_| 100.0, |_| 30.0);
    assert!(plateau.starts_with("A plateau"), "{plateau}");
}

/// Makes the process one whose allocator was not walked: its bytes are one category, and a counter says so.
fn never_walked(path: &Path) {
    let db = rusqlite::Connection::open(path).unwrap();
    db.execute_batch(
        "DELETE FROM census WHERE category = 'malloc_stranded';
         UPDATE census SET category = 'allocator_other' WHERE category = 'malloc_live';
         INSERT INTO counter (time_ns, process, name, value)
             SELECT time_ns, process, 'heap_walked', 0 FROM counter WHERE name = 'ruby_live_slots';",
    )
    .unwrap();
}

#[test]
fn bloat_that_nobody_could_tell_is_absent_and_not_0() {
    let directory = tempfile::tempdir().unwrap();
    let path = made_up(directory.path(), |t| 100.0 + 60.0 * t, |_| 30.0);
    never_walked(&path);
    let file = path.to_str().unwrap();
    let growth = document(&["growth", "--json", file], "growth.schema.json");
    let judged: Vec<&String> = growth["quantities"].as_object().unwrap().keys().collect();
    assert_eq!(judged, ["memory", "ruby_live_slots"], "{growth:#}");
    let conclusion = growth["conclusion"].as_str().unwrap();
    assert!(
        conclusion.contains("was not walked") && conclusion.contains("Ruby objects grow"),
        "{conclusion}"
    );
    let text = String::from_utf8(unbloat(&["growth", file]).stdout).unwrap();
    assert!(!text.contains("\nbloat") && !text.contains("\nlive"), "{text}");

    let out = directory.path().join("plot.json");
    assert!(unbloat(&["plot", file, "-o", out.to_str().unwrap()]).status.success());
    let plotted: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_follows(&plotted, "plot.schema.json");
    assert_eq!(plotted["recordings"][0]["census"][0]["walked"], false);
    let svg = String::from_utf8(unbloat(&["plot", "--by", "category", file]).stdout).unwrap();
    assert!(svg.contains("not broken down") && !svg.contains(">stranded<"));
    let out = directory.path().join("plot.csv");
    assert!(unbloat(&["plot", "--by", "category", file, "-o", out.to_str().unwrap()]).status.success());
    assert!(!std::fs::read_to_string(&out).unwrap().contains("malloc_"));
}

#[test]
fn show_and_plot_say_what_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = made_up(directory.path(), |t| 100.0 + 60.0 * t, |_| 30.0);
    let file = path.to_str().unwrap();
    let shown = document(&["show", "--json", file], "show.schema.json");
    assert_eq!(shown["memory"]["counted_as"], "pss");
    assert_eq!(shown["marks"][0]["name"], "deploy");
    let text = String::from_utf8(unbloat(&["show", file]).stdout).unwrap();
    assert!(
        text.contains("made of") && text.contains("stranded 30.0 MiB") && text.contains("deploy"),
        "{text}"
    );

    let out = directory.path().join("plot.json");
    assert!(unbloat(&["plot", file, file, "-o", out.to_str().unwrap()]).status.success());
    let plotted: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_follows(&plotted, "plot.schema.json");
    assert_eq!(plotted["recordings"][1]["looks"].as_array().unwrap().len(), 360);

    let svg = String::from_utf8(unbloat(&["plot", "--by", "category", file]).stdout).unwrap();
    // These censuses are not proportional: their parts sum up to RSS.
    for text in ["ruby app.rb", "stranded", "live", "deploy", "whole tree (RSS)", "CPU (cores)"] {
        assert!(svg.contains(text), "{text} is missing");
    }
    let strange = unbloat(&["plot", file, "-o", "a.pdf"]);
    assert!(String::from_utf8_lossy(&strange.stderr).contains(".svg, .png, .html, .csv or .json"));
}

/// Runs the queries in the guide.
#[test]
fn the_documented_queries_work() {
    let directory = tempfile::tempdir().unwrap();
    let db = rusqlite::Connection::open(made_up(directory.path(), |t| 100.0 + 60.0 * t, |_| 30.0)).unwrap();
    let end = "UPDATE process SET ended_ns = 3600000000000, user_s = 900, system_s = 90, exit_status = 0";
    db.execute_batch(end).unwrap();
    db.execute_batch("UPDATE counter SET name = 'trims'").unwrap();
    let guide = include_str!("../../../docs/guide/record.md");
    let queries: Vec<_> =
        guide.split("```sql\n").skip(1).filter_map(|text| text.split("```").next()).collect();
    assert_eq!(queries.len(), 5);
    let rows: Vec<Vec<Vec<rusqlite::types::Value>>> = queries
        .iter()
        .map(|sql| {
            let mut statement = db.prepare(sql).unwrap();
            let columns = statement.column_count();
            let row = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
            statement.query_map([], row).unwrap().collect::<rusqlite::Result<_>>().unwrap()
        })
        .collect();
    let number = |query: usize, row: usize, column: usize| match rows[query][row][column] {
        rusqlite::types::Value::Real(value) => value,
        rusqlite::types::Value::Integer(value) => value as f64,
        ref other => panic!("query {query} has {other:?}"),
    };
    assert_eq!(rows[0].len(), 360, "a sum a look");
    assert!((number(0, 0, 1) - 150.0).abs() < 1.0);
    assert_eq!(rows[1].len(), 3, "a line a category");
    assert!((number(1, 0, 1) - 60.0).abs() < 3.0, "live has grown most, by 60 MiB");
    assert_eq!((rows[2].len(), number(2, 0, 2)), (1, 990.0));
    assert_eq!(rows[3].len(), 1, "one deploy");
    assert!((number(3, 0, 2) - 172.0).abs() < 3.0, "the peak within ten minutes after it");
    assert!(number(4, 0, 2) > 50_000.0, "what was counted meanwhile");
}

#[test]
fn a_psrecord_log_is_imported_and_written_again() {
    let directory = tempfile::tempdir().unwrap();
    let (log, file) = (directory.path().join("a.log"), directory.path().join("a.unbloat"));
    let header = "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n";
    let lines: String = (0..100)
        .map(|i| {
            format!("{:12.3} {:12.3} {:12.3} {:12.3}\n", f64::from(i), 50.0, 100.0 + f64::from(i), 400.0)
        })
        .collect();
    std::fs::write(&log, format!("{header}{lines}")).unwrap();
    assert!(unbloat(&["import", log.to_str().unwrap()]).status.success());
    let csv = String::from_utf8(unbloat(&["plot", "--psrecord", file.to_str().unwrap()]).stdout).unwrap();
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("elapsed_time,nproc,cpu,mem_real,mem_virtual"));
    assert_eq!(lines.nth(50), Some("50.000,1,50.000,150.000,"));
}
