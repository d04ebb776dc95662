//! `unbloat trim` on real processes: what it returns, that they notice nothing, that a kill does no harm, and what it
//! refuses.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use unbloat_test_support::{Compiler, Program, Target, c_program, ruby, system_library};

fn unbloat(pid: i32, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unbloat"));
    command.args(["trim", "--no-children", "--json"]).arg(pid.to_string()).args(options);
    command
}

/// Runs a trim, checks the document against its schema, and gives the one process of it.
fn trim(pid: i32, options: &[&str]) -> (Output, Value) {
    let output = unbloat(pid, options).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let schema = include_str!("../../../docs/reference/trim.schema.json");
    jsonschema::validate(&serde_json::from_str(schema).unwrap(), &document).unwrap();
    let process = document["processes"][0].clone();
    assert_eq!(process["pid"], pid);
    (output, process)
}

fn assert_outcome(process: &Value, outcome: &str) {
    assert_eq!(process["outcome"], outcome, "{process}");
}

fn assert_prediction_within_one_percent(process: &Value) {
    assert_outcome(process, "trimmed");
    let bytes = |field: &str| process[field].as_f64().unwrap();
    let (predicted, returned) = (bytes("predicted_bytes"), bytes("returned_bytes"));
    assert!(returned > 4e6, "{process}");
    // A few pages of its own stack and tables come and go.
    assert!((predicted - returned).abs() <= returned * 0.01 + 32768.0, "{process}");
}

#[test]
fn a_single_threaded_program_gives_back_and_notices_nothing() {
    let program = Program::build(Compiler::System, c_program("waits"), &[]);
    let mut target = Target::start_ready(Command::new(program.path()).args(["read", "heap"]));
    std::thread::sleep(Duration::from_millis(100));
    let (output, process) = trim(target.pid(), &[]);
    assert!(output.status.success());
    assert_prediction_within_one_percent(&process);
    assert_eq!(process["borrowed_from"], "read");
    assert!(target.line().contains("result=1 errno=77"));
}

#[test]
fn twenty_threads_give_back_what_was_predicted_and_keep_their_data() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    let arguments = ["20", "2000", "9000", "3", "2"];
    let mut target = Target::start_ready(Command::new(program.path()).args(arguments));
    let live = target.ask("live");
    let (_, dry) = trim(target.pid(), &["--dry-run"]);
    assert_eq!(dry["outcome"], Value::Null);
    assert!(dry["returned_bytes"].is_null() && dry["predicted_bytes"].as_u64().unwrap() > 4 << 20, "{dry}");
    let (_, process) = trim(target.pid(), &[]);
    assert_prediction_within_one_percent(&process);
    assert_eq!(process["predicted_bytes"], dry["predicted_bytes"], "a dry run changes nothing");
    assert_eq!(target.ask("live"), live);
    let (output, again) = trim(target.pid(), &[]);
    assert_outcome(&again, "nothing_to_trim");
    assert!(output.status.success());
}

#[test]
fn ruby_threads_in_every_kind_of_wait_go_on() {
    let script = r#"
        $stdout.sync = true
        bloat = Array.new(60_000) { |i| "x" * (100 + i % 3000) }
        bloat = bloat.each_slice(7).map(&:first)
        GC.start
        reader, writer = IO.pipe
        other, answer = IO.pipe
        queue = Queue.new
        threads = [
          Thread.new { t = Process.clock_gettime(1); sleep 1.5; Process.clock_gettime(1) - t >= 1.5 },
          Thread.new { reader.read(5) == "hello" },
          Thread.new { IO.select([other], nil, nil, 30) == [[other], [], []] },
          Thread.new { queue.pop == 42 },
        ]
        sleep 0.2
        puts "ready"
        gets
        writer << "hello"
        answer << "!"
        queue << 42
        puts threads.map(&:value).inspect
        puts bloat.all? { |s| s == "x" * s.size }
    "#;
    let mut target = Target::start_ready(&mut ruby(&[], script));
    let (_, process) = trim(target.pid(), &[]);
    assert_outcome(&process, "trimmed");
    assert!(process["returned_bytes"].as_u64().unwrap() > 1 << 20, "{process}");
    trim(target.pid(), &[]);
    assert_eq!(target.ask("go"), "[true, true, true, true]");
    assert_eq!(target.line(), "true");
}

#[test]
fn other_allocators_are_asked_in_their_own_way() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    for (libraries, name) in [
        (["libjemalloc.so.2"].as_slice(), "jemalloc"),
        (&["libmimalloc.so.3", "libmimalloc.so.2"], "mimalloc"),
        (&["libtcmalloc_minimal.so.4"], "tcmalloc"),
    ] {
        let Some(library) = libraries.iter().find_map(|library| system_library(library)) else {
            // Not every Debian has it; scripts/deps installs what there is.
            assert_eq!(name, "mimalloc", "run scripts/deps test");
            continue;
        };
        let mut command = Command::new(program.path());
        command.args(["4", "4000", "9000", "3", "0"]).env("LD_PRELOAD", library);
        // By itself jemalloc returns unused pages after some seconds.
        command.env("MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1");
        let mut target = Target::start_ready(&mut command);
        let live = target.ask("live");
        let (_, process) = trim(target.pid(), &[]);
        assert_outcome(&process, "trimmed");
        assert_eq!(process["allocator"], name);
        assert!(process["predicted_bytes"].is_null());
        if name == "jemalloc" {
            assert!(process["returned_bytes"].as_u64().unwrap() > 4 << 20, "{process}");
        }
        assert_eq!(target.ask("live"), live);
    }
}

#[test]
fn musl_is_left_alone_and_said_so() {
    let pauses = "#include <unistd.h>\nint main() { for (;;) pause(); }";
    let program = Program::build(Compiler::Musl, pauses, &[]);
    let target = Target::start(&mut Command::new(program.path()));
    std::thread::sleep(Duration::from_millis(100));
    let (output, process) = trim(target.pid(), &[]);
    assert_outcome(&process, "unsupported");
    assert!(process["reason"].as_str().unwrap().contains("musl"), "{process}");
    assert!(output.status.success());
}

/// A heap with something to trim, and then what the argument says.
const THEN: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void on_signal(int s) { (void)s; pause(); }
int main(int argc, char **argv) {
    static char *block[2000];
    for (int i = 0; i < 2000; i++) memset(block[i] = malloc(9000), 1, 9000);
    for (int i = 0; i < 2000; i++) if (i % 8) free(block[i]);
    signal(SIGUSR1, on_signal);
    puts("ready");
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "spin")) for (volatile long i = 0;; i++) {}
    if (argc > 1 && !strcmp(argv[1], "handler")) raise(SIGUSR1);
    for (;;) pause();
}
"#;

fn assert_refused(pid: i32, why: &str) {
    let (output, process) = trim(pid, &["--timeout", "0.3"]);
    assert_outcome(&process, "refused");
    assert!(process["reason"].as_str().unwrap().contains(why), "{process}");
    assert!(process["returned_bytes"].is_null());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(why));
}

#[test]
fn what_is_not_safe_is_refused_with_a_sentence() {
    use nix::sys::{ptrace, signal};
    let program = Program::build(Compiler::System, THEN, &[]);
    let start = |how: &str| {
        let target = Target::start_ready(Command::new(program.path()).arg(how));
        std::thread::sleep(Duration::from_millis(50));
        target
    };
    let spinning = start("spin");
    assert_refused(spinning.pid(), "no safe point within 0.");
    drop(spinning);
    let handling = start("handler");
    assert_refused(handling.pid(), "inside of a signal handler");
    let traced = start("wait");
    let pid = nix::unistd::Pid::from_raw(traced.pid());
    ptrace::seize(pid, ptrace::Options::empty()).unwrap();
    assert_refused(traced.pid(), "it is traced by process");
    let stopped = start("wait");
    signal::kill(nix::unistd::Pid::from_raw(stopped.pid()), signal::Signal::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_refused(stopped.pid(), "the process is stopped");
    let waiting = start("wait");
    let (_, fine) = trim(waiting.pid(), &[]);
    assert_outcome(&fine, "trimmed");
}

#[test]
fn a_process_that_does_not_exist_is_an_error() {
    let output = unbloat(i32::MAX, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("does not exist"));
}

/// Trims in a soak: few in `make test`, 1,000 in `make soak`.
fn trims() -> u32 {
    std::env::var("UNBLOAT_SOAK").map_or(30, |n| n.parse().unwrap())
}

/// What became of the trims of a soak.
#[derive(Debug, Default)]
struct Tally {
    killed: u32,
    trimmed: u32,
    refused: u32,
}

/// Trims again and again. Every second Unbloat is killed after a random part of the time that a whole one takes.
fn soak(pid: i32) -> Tally {
    let start = Instant::now();
    trim(pid, &[]);
    let whole = start.elapsed();
    let mut tally = Tally::default();
    let mut random = 0x9e37_79b9_u64;
    for round in 0..trims() {
        let mut child = unbloat(pid, &[]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        if round % 2 == 0 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            std::thread::sleep(whole.mul_f64((random % 1000) as f64 / 1000.0));
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        if output.status.signal() == Some(9) {
            tally.killed += 1;
            continue;
        }
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        match document["processes"][0]["outcome"].as_str() {
            Some("trimmed") => tally.trimmed += 1,
            Some("refused") => tally.refused += 1,
            _ => {}
        }
    }
    tally
}

#[test]
fn soak_a_program_that_is_in_malloc_all_the_time() {
    let program = Program::build(Compiler::System, c_program("saturated"), &[]);
    let mut target = Target::start_ready(Command::new(program.path()).arg("4"));
    let tally = soak(target.pid());
    assert!(tally.killed > 0 && tally.trimmed > 0, "{tally:?}");
    target.ask("");
    // Every thread still makes its rounds.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let line = target.ask("");
        eprintln!("{tally:?} {line}");
        if !line.contains("fewest=0 ") {
            break;
        }
        assert!(Instant::now() < deadline, "a thread hangs: {line}");
    }
}

const RACKUP: &str = r#"
run lambda { |env|
  n = env["QUERY_STRING"].to_i
  junk = Array.new(200) { |i| "x" * (1000 + (i * n) % 9000) }
  [200, { "content-type" => "text/plain" }, [junk.sum(&:size).to_s]]
}
"#;

#[test]
fn soak_a_loaded_puma() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.ru");
    std::fs::write(&config, RACKUP).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("puma");
    command.args(["--quiet", "--threads", "5:5", "--environment", "production", "--bind"]);
    command.arg(format!("tcp://127.0.0.1:{port}")).arg(&config).stderr(Stdio::null());
    let puma = Target::start(&mut command);
    let deadline = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "puma does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (stop, answered) = (&stop, &answered);
            scope.spawn(move || {
                let mut connection = BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
                for request in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let n = (client * 31 + request) % 97;
                    let expected: u64 = (0..200).map(|i| 1000 + (i * n) % 9000).sum();
                    assert_eq!(get(&mut connection, n), expected.to_string());
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(1));
        let tally = soak(puma.pid());
        let before = answered.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
        let after = answered.load(Ordering::Relaxed);
        eprintln!("{tally:?}, {after} requests answered");
        assert!(after > before, "puma has stopped answering");
        assert!(tally.killed > 0 && tally.trimmed > 0, "{tally:?}");
    });
}

/// One request over a connection that stays open; the body of the answer.
fn get(connection: &mut BufReader<TcpStream>, n: u64) -> String {
    write!(connection.get_mut(), "GET /?{n} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut length = 0;
    loop {
        let mut line = String::new();
        assert!(connection.read_line(&mut line).unwrap() > 0, "puma closed the connection");
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None if line.trim_end().is_empty() => break,
            None => assert!(line.contains("200"), "{line}"),
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}
