//! `unbloat tune` on a real server: from a plan to the proof.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// A server that works by itself: five units of 20 ms. It holds as many megabytes as its environment says.
const PLAN: &str = r#"
title = "sleeper"
[server]
start = ["ruby", "-e", '''
  $stdout.sync = true
  trap("TERM") { exit!(0) }
  puts "ready pid=#{Process.pid}"
  held = "x" * (ENV["HOLD_MB"] || "60").to_i * 1_048_576
  times = Array.new(5) { t = Process.clock_gettime(1); sleep 0.02; Process.clock_gettime(1) - t }.sort
  puts "done units=5 throughput=#{5 / times.sum} p50_s=#{times[2]} p95_s=#{times[4]}"
  sleep
''']
ready = { line = "ready pid=" }
[load]
driver = "own"
[design]
max-other-cpu = 1
idle-tail = "0s"
run-takes = "1s"
[rule]
not-worse = []
[[variant]]
name = "as it is"
[[variant]]
name = "small"
environment = { HOLD_MB = "5" }
"#;

fn unbloat(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unbloat")).args(arguments).current_dir(directory).output().unwrap()
}

#[test]
fn a_search_ends_with_a_proof_on_fresh_runs() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("shop.toml"), PLAN).unwrap();
    let tune = ["tune", "shop.toml", "--within", "20s", "--json", "--quiet"];
    let output = unbloat(directory.path(), &tune);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    unbloat_test_support::assert_follows(&document, "tune.schema.json");
    let tried = document["tried"].as_array().unwrap();
    let fate =
        |name: &str| tried.iter().find(|tried| tried["name"] == name).map(|tried| tried["fate"].clone());
    assert_eq!(fate("small"), Some("final".into()), "a twelfth of what the others hold: {document:#}");
    assert!(fate("lean").is_some() && tried.len() > 2, "{document:#}");
    let finals = document["final"]["variants"].as_array().unwrap();
    assert_eq!(finals.len(), 3, "the control and two: {document:#}");
    assert_eq!(document["final"]["control"], "as it is");

    // The same command goes on with what is there; the report needs the recording alone.
    let again: Value = serde_json::from_slice(&unbloat(directory.path(), &tune).stdout).unwrap();
    assert_eq!(again["tried"], document["tried"]);
    let page = std::fs::read_to_string(directory.path().join("shop.tune/final.html")).unwrap();
    assert!(page.contains("<h2>What was tried</h2>") && page.contains("small"), "{page}");
    let report = unbloat(directory.path(), &["report", "shop.tune/final.unbloat"]);
    assert!(report.status.success() && String::from_utf8_lossy(&report.stdout).contains("small"));
}

#[test]
fn a_dry_run_lists_the_set_ups_and_makes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("shop.toml"), PLAN).unwrap();
    let output = unbloat(directory.path(), &["tune", "shop.toml", "--dry-run"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names[..2], ["small", "lean"], "the plan's own comes first: {text}");
    assert!(text.contains("gc-early") && text.contains("not refork"), "{text}");
    assert!(!directory.path().join("shop.tune").exists());
}
