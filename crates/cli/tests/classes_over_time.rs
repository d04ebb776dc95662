//! Classes over time: planted leaks are named by `growth` with the paths to them, within one recording of a real Ruby.
#![allow(clippy::unwrap_used)]

mod recording;

use recording::{Guard, Scratch, UNBLOAT, signal, unbloat};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};
use unbloat_test_support::assert_follows;

/// Looks that a recording should have: those that an analysis needs, and some.
const LOOKS: i64 = 27;

/// Records a command until it has enough looks over more than a minute.
fn recorded(script: &str) -> Scratch {
    let scratch = Scratch::new();
    let options = [
        "--budget",
        "100%",
        "--interval",
        "1s",
        "--census",
        "5s",
        "--classes",
        "2s",
        "--",
        "ruby",
        "--disable-gems",
        "-e",
    ];
    let mut command = scratch.record(&options);
    let mut recorder = Guard(command.arg(script).spawn().unwrap());
    let begun = Instant::now();
    let enough = format!("SELECT 1 FROM (SELECT DISTINCT time_ns FROM class_census) LIMIT 1 OFFSET {LOOKS}");
    while begun.elapsed() < Duration::from_secs(70) || !scratch.has(&enough) {
        assert!(begun.elapsed() < Duration::from_secs(1200), "too few looks");
        assert!(recorder.0.try_wait().unwrap().is_none(), "the recording has ended");
        std::thread::sleep(Duration::from_millis(200));
    }
    signal("-INT", recorder.0.id() as i32);
    recorder.0.wait().unwrap();
    scratch
}

/// References are known of these versions.
fn paths_are_known() -> bool {
    let output = Command::new("ruby").arg("-v").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.starts_with("ruby 3.1.") || text.starts_with("ruby 3.3.")
}

fn path(class: &Value) -> String {
    let steps = class["held"]["holder"]["path"].as_array().cloned().unwrap_or_default();
    let step = |step: &Value| format!("{} {}", step["by"].as_str().unwrap(), step["what"].as_str().unwrap());
    steps.iter().map(step).collect::<Vec<_>>().join(" → ")
}

#[test]
fn growth_names_the_leaks_with_their_paths_and_nothing_else() {
    let scratch = recorded(include_str!("recording/leaks.rb"));
    let file = scratch.file().display().to_string();
    let output = unbloat(&["growth", "--json", &file]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_follows(&document, "growth.schema.json");
    let classes = document["rubies"]["classes"].as_array().unwrap();
    let named: BTreeMap<&str, &Value> =
        classes.iter().map(|class| (class["name"].as_str().unwrap(), class)).collect();
    for class in ["InClassVariable", "InThreadLocal", "InClosure"] {
        let found = named.get(class).unwrap_or_else(|| panic!("no {class}: {document:#}"));
        assert!(found["last"]["objects"].as_u64() > found["first"]["objects"].as_u64());
    }
    assert!(!named.contains_key("Churn") && !named.contains_key("Steady"), "{document:#}");
    if paths_are_known() {
        for (class, by) in [
            ("InClassVariable", "class Shop → @@journal Array["),
            ("InThreadLocal", "thread"),
            ("InClosure", "::COUNT Proc"),
        ] {
            assert!(path(named[class]).contains(by), "{class}: {}", path(named[class]));
            let (all, held) = (&named[class]["held"]["objects"], &named[class]["held"]["holder"]["objects"]);
            assert!(held.as_u64().unwrap() * 10 >= all.as_u64().unwrap() * 9, "{class}: {held} of {all}");
        }
    }
    let text = String::from_utf8(unbloat(&["growth", &file]).stdout).unwrap();
    assert!(text.contains("class that grows steadily") && text.contains("InClosure"), "{text}");

    for by in ["class", "gem"] {
        let out = scratch.path(&format!("{by}.html"));
        let status =
            Command::new(UNBLOAT).args(["plot", &file, "--by", by, "-o"]).arg(&out).status().unwrap();
        assert!(status.success() && std::fs::metadata(&out).unwrap().len() > 5000, "{by}");
    }
    let csv = scratch.path("class.csv");
    assert!(
        Command::new(UNBLOAT)
            .args(["plot", &file, "--by", "class", "-o"])
            .arg(&csv)
            .status()
            .unwrap()
            .success()
    );
    assert!(std::fs::read_to_string(csv).unwrap().contains("InClassVariable"));
    let json = scratch.path("plot.json");
    assert!(Command::new(UNBLOAT).args(["plot", &file, "-o"]).arg(&json).status().unwrap().success());
    assert_follows(&serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap(), "plot.schema.json");
}

#[test]
fn a_recording_without_looks_says_so() {
    let scratch = Scratch::new();
    let options = ["--budget", "100%", "--census", "200ms", "--no-classes", "--duration", "3s", "--"];
    scratch.record(&options).args(["ruby", "--disable-gems", "-e", "sleep"]).status().unwrap();
    assert_eq!(scratch.one::<i64>("SELECT count(*) FROM class_census"), 0);
    let output = unbloat(&["plot", scratch.file().to_str().unwrap(), "--by", "class"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("contains no look at a Ruby"));
}
