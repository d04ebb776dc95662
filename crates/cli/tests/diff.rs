//! `unbloat diff`: two looks at a real Ruby, and two moments of a recording.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use unbloat_recording::{ClassBytes, CodeBytes, Kind, Label, NewProcess};
use unbloat_store::{Writer, begin};
use unbloat_test_support::{Target, assert_follows, ruby};

fn unbloat(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unbloat")).args(arguments).output().unwrap()
}

fn difference(arguments: &[&str]) -> Value {
    let output = unbloat(&[&["diff", "--json"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_follows(&document, "diff.schema.json");
    document
}

fn row<'a>(document: &'a Value, name: &str) -> &'a Value {
    let rows = document["rows"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {document:#}"))
}

const GROWS: &str = r#"
$stdout.sync = true
class Leak; def initialize; @text = "leaked " * 20; end; end
class Gone; end
class Same; end
LEAKS = Array.new(100) { Leak.new }
SAME = Array.new(50) { Same.new }
gone = Array.new(70) { Gone.new }
GC.start
puts "ready"
while $stdin.gets
  LEAKS.concat(Array.new(900) { Leak.new })
  gone.clear
  4.times { GC.start }
  puts "grown"
end
"#;

#[test]
fn two_looks_at_a_ruby_differ_by_what_was_born_and_died() {
    let directory = tempfile::tempdir().unwrap();
    let mut target = Target::start_ready(&mut ruby(&[], GROWS));
    let pid = target.pid().to_string();
    let look = |name: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, unbloat(&["objects", "--json", &pid]).stdout).unwrap();
        path.display().to_string()
    };
    let before = look("before.json");
    assert_eq!(target.ask("grow"), "grown");
    let after = look("after.json");
    let found = difference(&[&before, &after]);
    let leak = row(&found, "Leak");
    assert_eq!((&leak["before"]["objects"], &leak["after"]["objects"]), (&100.into(), &1000.into()));
    assert_eq!(
        (&leak["change"], &leak["born_at_least"], &leak["stayed_at_most"]),
        (&"grew".into(), &900.into(), &100.into())
    );
    assert!(leak["bytes"].as_i64().unwrap() >= 900 * 40);
    assert_eq!(row(&found, "Same")["change"], "stayed");
    // A stale word of a stack may keep one.
    assert!(row(&found, "Gone")["died_at_least"].as_u64().unwrap() >= 69, "{found:#}");
    assert_eq!(found["before"]["complete"], true);
    let text = String::from_utf8(unbloat(&["diff", &before, &after]).stdout).unwrap();
    assert!(text.contains("Leak") && text.contains("900"), "{text}");
    let reversed = difference(&[&after, &before]);
    assert_eq!(row(&reversed, "Leak")["change"], "shrank");
}

/// Three looks, a minute apart, at a process whose class has 100, 200, 300 objects.
fn recording(path: &Path) {
    let mut writer = Writer::create(path, &begin(Kind::Record)).unwrap();
    writer
        .batch(|batch| {
            let process = batch.process(&NewProcess { pid: 7, ..NewProcess::default() })?;
            for n in 1..=3u64 {
                let time_ns = n as i64 * 60_000_000_000;
                let row = |kind: &str, name: &str, objects| ClassBytes {
                    time_ns,
                    process,
                    label: Label { kind: kind.into(), name: name.into(), version: None },
                    objects,
                    slot_bytes: objects * 40,
                    malloc_bytes: Some(objects * 60),
                };
                batch.class_bytes(&row("class", "Leak", n * 100))?;
                batch.class_bytes(&row("rest", "", 5))?;
                if n == 3 {
                    batch.class_bytes(&row("class", "Late\u{1b}[2J", 9))?;
                }
                batch.code_bytes(&CodeBytes {
                    time_ns,
                    process,
                    label: Label { kind: "gem".into(), name: "rack".into(), version: Some("2.2.4".into()) },
                    sequences: n,
                    slot_bytes: 40,
                    malloc_bytes: Some(1000 * n),
                })?;
            }
            Ok(())
        })
        .unwrap();
    writer.finish(200_000_000_000, "test", None).unwrap();
}

#[test]
fn two_moments_of_a_recording_differ_as_far_as_they_are_known() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a@b.unbloat");
    recording(&path);
    let file = path.to_str().unwrap();
    let found = difference(&[&format!("{file}@1s"), file]);
    assert_eq!((&found["before"]["time_s"], &found["after"]["time_s"]), (&60.0.into(), &180.0.into()));
    assert_eq!(row(&found, "Leak")["born_at_least"], 200);
    assert_eq!(row(&found, "Leak")["bytes"], 20_000);
    // It may have been among the rest.
    let late = row(&found, "Late\u{1b}[2J");
    assert_eq!((&late["change"], &late["before"]), (&"unknown".into(), &Value::Null));
    let gem = difference(&[&format!("{file}@2m"), file, "--by", "gem"]);
    assert_eq!((&row(&gem, "rack")["bytes"], &row(&gem, "rack")["version"]), (&1000.into(), &"2.2.4".into()));
    let text = unbloat(&["diff", &format!("{file}@1m"), file]).stdout;
    assert!(!text.contains(&0x1b), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn what_is_no_look_is_refused_with_the_next_step() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.unbloat");
    recording(&path);
    let (file, json) = (path.to_str().unwrap(), directory.path().join("a.json"));
    std::fs::write(&json, "{\"schema\": 1, \"processes\": [{\"ruby\": {}}]}").unwrap();
    let json = json.to_str().unwrap();
    for (arguments, expected) in [
        (vec!["/nowhere", file], "is no file"),
        (vec![file, "/dev/zero"], "is no file"),
        (vec![json, file], "unbloat objects --json"),
        (vec![&format!("{json}@1m") as &str, file], "has only one moment"),
        (vec![&format!("{file}@noon") as &str, file], "is not a time"),
    ] {
        let output = unbloat(&[&["diff"], &arguments[..]].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(expected), "{arguments:?}: {error}");
    }
}
