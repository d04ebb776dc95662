//! Recordings of an earlier build still yield the same documents, number for number.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Copies a recording, since a reader of SQLite's write-ahead log may leave companion files.
fn copied(directory: &Path, recording: &str) -> String {
    let copy = directory.join(recording);
    std::fs::copy(fixture(recording), &copy).unwrap();
    copy.to_str().unwrap().to_owned()
}

/// Returns the standard output of `unbloat` with these arguments; those that end in `.unbloat` name fixtures.
fn printed(arguments: &[&str]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let arguments = arguments.iter().map(|argument| match argument.ends_with(".unbloat") {
        true => copied(directory.path(), argument),
        false => (*argument).to_owned(),
    });
    let output = Command::new(env!("CARGO_BIN_EXE_unbloat")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Returns the file that `unbloat plot` writes for a fixture.
fn plotted(recording: &str, ending: &str, options: &[&str]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(format!("plot.{ending}"));
    printed(&[&["plot", recording, "-o", file.to_str().unwrap()], options].concat());
    std::fs::read(file).unwrap()
}

/// Compares both as JSON, except for file names, which differ from machine to machine.
fn assert_same(expected: &str, found: &[u8]) {
    let mut expected: Value = serde_json::from_slice(&std::fs::read(fixture(expected)).unwrap()).unwrap();
    let mut found: Value = serde_json::from_slice(found).unwrap();
    for document in [&mut expected, &mut found] {
        without_paths(document);
    }
    assert_eq!(found, expected);
}

fn without_paths(value: &mut Value) {
    match value {
        Value::String(text) if text.ends_with(".unbloat") => *text = "FILE".into(),
        Value::Array(items) => items.iter_mut().for_each(without_paths),
        Value::Object(fields) => fields.values_mut().for_each(without_paths),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn summaries_are_unchanged() {
    for name in ["shop", "leak", "bench"] {
        assert_same(&format!("{name}.show.json"), &printed(&["show", "--json", &format!("{name}.unbloat")]));
    }
}

#[test]
fn judgments_of_growth_are_unchanged() {
    for name in ["shop", "leak", "bench"] {
        assert_same(
            &format!("{name}.growth.json"),
            &printed(&["growth", "--json", &format!("{name}.unbloat")]),
        );
    }
}

#[test]
fn series_of_plots_are_unchanged() {
    assert_same("shop.plot.json", &plotted("shop.unbloat", "json", &[]));
    assert_same("leak.plot.json", &plotted("leak.unbloat", "json", &[]));
    let expected = std::fs::read_to_string(fixture("shop.plot.csv")).unwrap();
    let found = String::from_utf8(plotted("shop.unbloat", "csv", &["--by", "process"])).unwrap();
    assert_eq!(found, expected);
}

#[test]
fn analyses_of_experiments_are_unchanged() {
    let recording = "experiment.unbloat";
    assert_same("experiment.report.json", &printed(&["report", "--json", recording]));
    assert_same("experiment.versus.json", &printed(&["report", "--json", recording, recording]));
}
