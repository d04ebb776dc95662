//! `unbloat inspect` on real processes, from a user's perspective.
#![allow(clippy::unwrap_used)]

mod export;
mod jemalloc;
mod limits;
mod puma;
mod top;

use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};
use unbloat_test_support::{Target, assert_follows, ruby, system_library};

const BINARY: &str = env!("CARGO_BIN_EXE_unbloat");

/// Holds some strings, has freed many between them, and waits.
const SCRIPT: &str = "rows = Array.new(60_000) { |i| 'x' * (i % 900) }; \
                      KEPT = rows.each_slice(40).map(&:first); rows = nil; GC.start; \
                      $stdout.sync = true; puts 'ready'; $stdin.read";

fn unbloat(arguments: &[&str]) -> Output {
    Command::new(BINARY).arg("inspect").args(arguments).output().unwrap()
}

fn script() -> Target {
    Target::start_ready(&mut ruby(&[], SCRIPT))
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// Parses a document and validates it by the published schema.
fn document(text: &str) -> Value {
    let document: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e} in {text}"));
    assert_follows(&document, "inspect.schema.json");
    document
}

fn bytes(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number of bytes"))
}

#[test]
fn a_ruby_script_is_accounted_for_to_the_byte() {
    let target = script();
    let pid = target.pid().to_string();
    let output = unbloat(&[&pid, "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let document = document(stdout(&output));
    let process = &document["processes"][0];
    assert_eq!(process["pid"], target.pid());
    let sum: i64 = process["census"].as_array().unwrap().iter().map(|part| bytes(&part["bytes"])).sum();
    assert_eq!(process["unattributed_bytes"], 0, "{process}");
    assert_eq!(sum, bytes(&process["rss_bytes"]));
    let parts = ["cached_bytes", "trimmable_bytes", "stranded_bytes"].map(|name| bytes(&process[name]));
    assert_eq!(parts.iter().sum::<i64>(), bytes(&process["bloat_bytes"]));
    assert_eq!(bytes(&process["floor_bytes"]), bytes(&process["rss_bytes"]) - bytes(&process["bloat_bytes"]));
    // Nearly all of 26 MB of strings were freed; one in forty was kept.
    assert!(bytes(&process["bloat_bytes"]) > 4 << 20, "{process}");
    assert_eq!(process["allocator"]["name"], "glibc");
    assert!(process["ruby"]["live_slots"].as_u64() > Some(1500));
    assert_eq!(process["verdict"][0]["code"], "bloat");
    assert_eq!(process["stopped_s"], 0.0);
}

#[test]
fn text_begins_with_the_answer_and_has_no_colors_in_a_pipe() {
    let target = script();
    let output = unbloat(&[&target.pid().to_string()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stdout(&output).contains('\x1b'));
    assert_eq!(stderr(&output), "");
    let place = |what: &str| stdout(&output).find(what).unwrap_or_else(|| panic!("no {what}"));
    assert!(place("VERDICT") < place("WHERE EVERY BYTE IS"));
    assert!(place("ALLOCATOR") < place("RUBY HEAP"));
    let widest = stdout(&output).lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}");
}

#[test]
fn a_page_is_written_and_needs_nothing_from_elsewhere() {
    let target = script();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("page.html");
    let output = unbloat(&[&target.pid().to_string(), "--html", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("page.html written"));
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.contains("<canvas"), "no map");
    assert!(page.contains("Main arena") && page.contains("Ruby heap, slots of"), "no groups");
    assert!(!page.contains("http:") && !page.contains("https:"));
    let nowhere = directory.path().join("missing/page.html");
    let output = unbloat(&[&target.pid().to_string(), "--html", nowhere.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot write"), "{}", stderr(&output));
}

#[test]
fn watching_gives_a_document_a_line_until_the_process_ends() {
    let mut target = script();
    let mut watcher = Command::new(BINARY)
        .args(["inspect", "--json", "--watch", "0.2", &target.pid().to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(watcher.stdout.take().unwrap()).lines();
    let mut seen = 0;
    for line in lines {
        assert_eq!(document(&line.unwrap())["processes"][0]["pid"], target.pid());
        seen += 1;
        if seen == 3 {
            target.kill();
        }
    }
    assert!(seen >= 3);
    assert!(watcher.wait().unwrap().success());
}

#[test]
fn watching_as_text_shows_the_change() {
    let mut target = script();
    let mut watcher = Command::new(BINARY)
        .args(["inspect", "--watch", "0.2", &target.pid().to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut seen = String::new();
    for line in BufReader::new(watcher.stdout.take().unwrap()).lines() {
        seen.push_str(&line.unwrap());
        seen.push('\n');
        if seen.matches("last look").count() == 3 {
            target.kill();
        }
    }
    assert!(seen.contains("malloc live") && seen.contains("every 0.2 s"), "{seen}");
    assert!(watcher.wait().unwrap().success());
}

#[test]
fn watching_on_a_terminal_draws_over_what_stood_there() {
    const BEGINS: &str = "\x1b[?2026h";
    let mut target = script();
    let command = format!("{BINARY} inspect --quiet --watch 0.1 {}", target.pid());
    let mut terminal = Command::new("script")
        .args(["-qfec", &command, "/dev/null"])
        // Stays open, because `script` would press Ctrl-D at its end.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = String::new();
    for line in BufReader::new(terminal.stdout.take().unwrap()).lines() {
        seen.push_str(&line.unwrap());
        seen.push('\n');
        if seen.matches(BEGINS).count() == 3 {
            target.kill();
        }
    }
    assert!(terminal.wait().unwrap().success(), "{seen:?}");
    let frames: Vec<&str> = seen.split(BEGINS).skip(1).collect();
    assert!(frames.len() >= 3, "{seen:?}");
    for pair in frames.windows(2) {
        let rows = pair[0].matches('\n').count();
        assert!(pair[1].starts_with(&format!("\x1b[{rows}A\r")), "{seen:?}");
    }
    assert!(!seen.contains("\x1b[2J"), "the screen is never cleared: {seen:?}");
}

#[test]
fn one_that_fails_does_not_hide_the_others() {
    let target = script();
    let mut gone = script();
    gone.kill();
    let (here, gone) = (target.pid().to_string(), gone.pid().to_string());
    let output = unbloat(&[&gone, &here, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let document = document(stdout(&output));
    assert_eq!(document["processes"][0]["pid"], target.pid());
    assert_eq!(document["failures"][0]["code"], "gone");
    let text = unbloat(&[&gone, &here]);
    assert!(stdout(&text).contains("WHERE EVERY BYTE IS") && stdout(&text).contains("does not exist"));
}

#[test]
fn a_wrong_command_line_is_a_matter_of_usage() {
    let wrong: [&[&str]; 6] =
        [&[], &["0"], &["x"], &["--watch", "0", "1"], &["--name", "(", "1"], &["1", "--nonsense"]];
    for arguments in wrong {
        assert_eq!(unbloat(arguments).status.code(), Some(2), "{arguments:?}");
    }
    let output = unbloat(&["--name", "no process has this in its command line 7f3a"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no running process matches"), "{}", stderr(&output));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let target = script();
    let mut child = Command::new(BINARY)
        .args(["inspect", &target.pid().to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
}

/// Ruby under each allocator that Debian packages for preloading.
#[test]
fn a_ruby_with_another_allocator_is_accounted_for_to_the_byte() {
    for (name, files) in [
        ("jemalloc", &["libjemalloc.so.2"][..]),
        ("mimalloc", &["libmimalloc.so.3", "libmimalloc.so.2.0"]),
        ("tcmalloc", &["libtcmalloc_minimal.so.4"]),
    ] {
        let Some(library) = files.iter().find_map(|file| system_library(file)) else {
            assert_eq!(name, "mimalloc", "only Debian 11 has none; run scripts/deps test");
            continue;
        };
        let target = Target::start_ready(ruby(&[], SCRIPT).env("LD_PRELOAD", library));
        let output = unbloat(&[&target.pid().to_string(), "--json"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let process = &document(stdout(&output))["processes"][0];
        assert_eq!(process["allocator"]["name"], name);
        assert_eq!(process["unattributed_bytes"], 0, "{name}: {process}");
        assert!(process["ruby"]["live_slots"].as_u64() > Some(1500), "{name}");
        if name == "jemalloc" {
            assert!(process["bloat_bytes"].as_u64().is_some(), "{process}");
            assert!(!process["allocator"]["bins"].as_array().unwrap().is_empty(), "{process}");
            // The owners of the blocks.
            let owned = process["ruby"]["malloc_owned"].as_array().unwrap();
            let strings =
                owned.iter().find(|owner| owner["type"] == "String").map(|owner| bytes(&owner["bytes"]));
            assert!(strings > Some(100_000), "{owned:?}");
        } else {
            assert!(process["bloat_bytes"].is_null(), "{process}");
        }
    }
}

/// Continuously allocating threads change the heap while it is read. That is not damage, and every byte of
/// the census is still compared with the kernel's figures of that moment.
#[test]
fn a_busy_ruby_is_not_called_damaged() {
    const BUSY: &str = "KEPT = Array.new(20_000) { |i| 'x' * (i % 700) }; $stdout.sync = true; \
                        4.times { |n| Thread.new { loop { Array.new(300) { |i| 'x' * (rand(40 << n) * 9) } } } }; \
                        puts 'ready'; $stdin.read";
    let target = Target::start_ready(&mut ruby(&[], BUSY));
    for _ in 0..25 {
        let output = unbloat(&[&target.pid().to_string(), "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let process = &document(stdout(&output))["processes"][0];
        let sum: i64 = process["census"].as_array().unwrap().iter().map(|part| bytes(&part["bytes"])).sum();
        assert_eq!(sum + bytes(&process["unattributed_bytes"]), bytes(&process["rss_bytes"]));
        assert!(!process["notes"].to_string().contains("heap-damaged"), "{process}");
    }
}

/// Covers both the Ruby heap and malloc's: a target that is busy with them is consistent while stopped.
#[test]
fn a_stopped_ruby_is_consistent_and_goes_on() {
    const BUSY: &str = "$stdout.sync = true; Thread.new { loop { Array.new(200) { |i| 'x' * (i * 9) } } }; \
                        puts 'ready'; while gets; puts 'here'; end";
    let mut target = Target::start_ready(&mut ruby(&[], BUSY));
    let pid = target.pid().to_string();
    let output = unbloat(&[&pid, "--stop", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let process = &document(stdout(&output))["processes"][0];
    let (stopped, elapsed) = (process["stopped_s"].as_f64().unwrap(), process["elapsed_s"].as_f64().unwrap());
    assert!(stopped > 0.0 && stopped <= elapsed, "{stopped} of {elapsed}");
    let ruby = &process["ruby"];
    let slots = |name: &str| ruby[name].as_u64().unwrap();
    assert_eq!(slots("live_slots") + slots("free_slots"), slots("slots"));
    assert!(!process["notes"].to_string().contains("heap-damaged"), "{process}");
    let text = unbloat(&[&pid, "--stop"]);
    assert!(stdout(&text).contains("the process was stopped for"), "{}", stdout(&text));
    assert_eq!(target.ask("still there?"), "here");
}
