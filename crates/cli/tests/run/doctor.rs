//! `unbloat doctor`, `version --json` and `generate`.

use crate::home::*;
use std::process::Command;
use unbloat_test_support::assert_follows;

/// The checks of `unbloat doctor --json`, valid by its schema, and its exit status.
fn examined(home: &Home, pid: Option<u32>) -> (serde_json::Value, Option<i32>) {
    let mut command = home.unbloat(&["doctor", "--json"]);
    let output = command.args(pid.map(|pid| pid.to_string())).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_follows(&document, "doctor.schema.json");
    (document, output.status.code())
}

/// The state of a check, and the command that fixes the problem.
fn state<'a>(document: &'a serde_json::Value, check: &str) -> (&'a str, Option<&'a str>) {
    let checks = document["checks"].as_array().unwrap();
    let found = checks.iter().find(|found| found["check"] == check).unwrap();
    (found["state"].as_str().unwrap(), found["fix"].as_str())
}

#[test]
fn a_machine_is_examined_without_a_process() {
    let home = Home::new();
    let (document, _) = examined(&home, None);
    assert_eq!(state(&document, "cache").0, "fine");
    assert!(document["checks"].as_array().unwrap().iter().all(|check| check["place"] != "process"));
}

#[test]
fn a_lean_server_has_nothing_to_mend() {
    let home = Home::new();
    let code = with_helpers("GC.start; puts 'ready'; sleep");
    let (guard, mut out) = Guard::spawn(&mut home.unbloat(&["run", "--", "ruby", "-e", &code]));
    assert_eq!(line(&mut out), "ready");
    let (document, _) = examined(&home, Some(guard.0.id()));
    assert_eq!(
        (state(&document, "policy").0, state(&document, "allocator").0),
        ("fine", "fine"),
        "{document:#}"
    );
}

#[test]
fn an_allocator_that_was_asked_for_and_is_not_there_is_a_problem() {
    let home = Home::new();
    let mut command = Command::new("ruby");
    home.isolate(&mut command);
    command.args(["-e", "$stdout.sync = true; puts 'ready'; sleep"]);
    command.env("LD_PRELOAD", "/usr/lib/nowhere/libjemalloc.so.2");
    let (guard, mut out) = Guard::spawn(&mut command);
    assert_eq!(line(&mut out), "ready");
    let (document, status) = examined(&home, Some(guard.0.id()));
    let (found, fix) = state(&document, "allocator");
    assert_eq!((found, status), ("problem", Some(3)), "{document:#}");
    assert!(fix.unwrap().contains("/usr/lib/nowhere/libjemalloc.so.2"), "{document:#}");
    assert_eq!(state(&document, "policy").0, "advice");
}

#[test]
fn the_version_is_a_document() {
    let home = Home::new();
    let output = home.unbloat(&["version", "--json"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_follows(&document, "version.schema.json");
    assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn every_command_has_a_page_and_completions() {
    let home = Home::new();
    let directory = home.0.path().join("generated");
    assert!(home.unbloat(&["generate", directory.to_str().unwrap()]).status().unwrap().success());
    let read = |file: &str| std::fs::read_to_string(directory.join(file)).unwrap();
    assert!(read("man1/unbloat-bench-cable.1").contains(".TH"));
    assert!(!directory.join("man1/unbloat-help.1").exists());
    assert!(!directory.join("man1/unbloat-keep.1").exists());
    for completion in ["bash/unbloat.bash", "zsh/_unbloat", "fish/unbloat.fish"] {
        assert!(read(completion).contains("inspect"), "{completion}");
    }
}
