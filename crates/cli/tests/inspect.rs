//! `unbloat inspect` on real processes, as a user runs it.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use unbloat_test_support::{Target, ruby};

const BINARY: &str = env!("CARGO_BIN_EXE_unbloat");
const SCHEMA: &str = include_str!("../../../docs/reference/inspect.schema.json");
const NOBODY: u32 = 65_534;

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

/// Parses a document and holds it against the published schema.
fn document(text: &str) -> Value {
    let document = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e} in {text}"));
    let validator = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let errors: Vec<_> =
        validator.iter_errors(&document).map(|e| format!("{e} at {}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
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
    // Nearly all of 26 MB of strings were freed, and one in forty was kept.
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
fn what_cannot_be_inspected_is_said_in_a_sentence() {
    let mut target = script();
    let gone = target.pid().to_string();
    target.kill();
    let output = unbloat(&[&gone]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains(&format!("process {gone} does not exist")), "{}", stderr(&output));

    let output = unbloat(&[&gone, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let document = document(stdout(&output));
    assert_eq!(document["failures"][0]["code"], "gone");
    assert_eq!(document["processes"].as_array().unwrap().len(), 0);
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
fn a_process_of_another_user_says_what_is_missing() {
    let target = script();
    // Only root can become somebody else; anybody else is already somebody else than the owner of process 1.
    let root = nix::unistd::geteuid().is_root();
    let pid = if root { target.pid() } else { 1 };
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(reachable_copy(directory.path()));
    command.args(["inspect", "--json", "--no-children", &pid.to_string()]).current_dir("/");
    if root {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert!(said.contains("CAP_SYS_PTRACE"), "{said}");
    document(stdout(&output));
}

/// The binary where everybody may run it.
fn reachable_copy(directory: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = directory.join("unbloat");
    std::fs::copy(BINARY, &copy).unwrap();
    copy
}

#[test]
fn a_thread_of_the_kernel_has_no_memory() {
    // In a container number 2 may be anything or nobody.
    if !std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        return;
    }
    let output = unbloat(&["2", "--no-children"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("thread of the kernel"), "{}", stdout(&output));
    let output = unbloat(&["2", "--no-children", "--json"]);
    let document = document(stdout(&output));
    assert_eq!(document["processes"][0]["rss_bytes"], 0);
    assert_eq!(document["processes"][0]["notes"][0]["code"], "kernel-thread");
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

/// A Puma with two workers and its application loaded before they are forked.
struct Puma {
    master: Target,
    workers: Vec<i32>,
    _directory: tempfile::TempDir,
}

impl Puma {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let rackup = file(
            "config.ru",
            "DATA_ROWS = Array.new(50_000) { |i| \"row #{i}\" }\nrun ->(_) { [200, {}, ['ok']] }\n",
        );
        let socket = directory.path().join("puma.sock");
        let config = file(
            "puma.rb",
            &format!("workers 2\nthreads 2, 2\npreload_app!\nbind 'unix://{}'\n", socket.display()),
        );
        let mut master = Target::start(Command::new("puma").arg("--config").arg(config).arg(rackup));
        let mut workers = vec![];
        while workers.len() < 2 {
            // - Worker 0 (PID: 1234) booted in 0.01s, phase: 0
            let line = master.line();
            let number = line.split_once("Worker").and_then(|(_, rest)| rest.split_once("(PID: "));
            workers.extend(number.and_then(|(_, rest)| rest.split_once(')')?.0.parse::<i32>().ok()));
        }
        Puma { master, workers, _directory: directory }
    }
}

impl Drop for Puma {
    fn drop(&mut self) {
        self.master.kill();
        // Workers end when their master has gone: nobody else has to end them, but the next test shall not meet them.
        let patience = Instant::now() + Duration::from_secs(10);
        let running = |worker: &i32| {
            std::fs::read(format!("/proc/{worker}/cmdline")).is_ok_and(|line| line.starts_with(b"puma"))
        };
        while self.workers.iter().any(running) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        for &worker in self.workers.iter().filter(|worker| running(worker)) {
            let worker = nix::unistd::Pid::from_raw(worker);
            let _ = nix::sys::signal::kill(worker, nix::sys::signal::Signal::SIGKILL);
        }
    }
}

#[test]
fn a_puma_brings_its_workers_and_is_summed_by_pss() {
    let puma = Puma::start();
    let pid = puma.master.pid().to_string();
    let output = unbloat(&[&pid, "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let document = document(stdout(&output));
    let processes = document["processes"].as_array().unwrap();
    let pids: Vec<_> = processes.iter().map(|process| process["pid"].as_i64().unwrap() as i32).collect();
    assert_eq!(pids[0], puma.master.pid());
    assert!(puma.workers.iter().all(|worker| pids.contains(worker)), "{pids:?} {:?}", puma.workers);

    let total = &document["total"];
    let pss: i64 = processes.iter().map(|process| bytes(&process["pss_bytes"])).sum();
    assert_eq!(bytes(&total["pss_bytes"]), pss);
    let census: i64 = total["census"].as_array().unwrap().iter().map(|part| bytes(&part["bytes"])).sum();
    assert!((census - pss).abs() * 50 < pss, "census {census}, PSS {pss}");
    assert!(pss < bytes(&total["rss_sum_bytes"]));
    for worker in &processes[1..] {
        assert_eq!(worker["sharing"]["parent"], puma.master.pid());
        let both = bytes(&worker["sharing"]["shared_bytes"]) + bytes(&worker["sharing"]["unshared_bytes"]);
        assert!(both > 1 << 20, "{worker}");
    }
    let codes: Vec<_> = total["verdict"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["code"].as_str().unwrap())
        .collect();
    assert!(codes.contains(&"tree") && codes.contains(&"tree-sharing"), "{codes:?}");

    let alone = unbloat(&[&pid, "--no-children", "--json"]);
    assert_eq!(self::document(stdout(&alone))["processes"].as_array().unwrap().len(), 1);
    let text = unbloat(&[&pid]);
    assert!(stdout(&text).contains("together, by PSS"), "{}", stdout(&text));
}
