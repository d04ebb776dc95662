//! `unbloat trim` on real processes: the returned memory, unnoticeable to them, harmless when killed, and the
//! refusals.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod refusals;
mod soak;

use serde_json::Value;
use std::process::{Command, Output};
use unbloat_test_support::{Compiler, Program, Target, assert_follows, c_program, ruby, system_library};

fn unbloat(pid: i32, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unbloat"));
    command.args(["trim", "--no-children", "--json"]).arg(pid.to_string()).args(options);
    command
}

/// Runs a trim, repeating it if requested by the message: the target was still becoming the intended program
/// (in another root, through `chroot`).
fn trimmed(pid: i32, options: &[&str]) -> Output {
    let looks = (0..20).map(|_| unbloat(pid, options).output().unwrap());
    let mut looks = looks.skip_while(|output| {
        String::from_utf8_lossy(&output.stderr).contains("became another program (exec)")
    });
    looks.next().expect("it becomes another program over and over")
}

/// Runs a trim, validates the document by its schema, and returns its only process.
fn trim(pid: i32, options: &[&str]) -> (Output, Value) {
    let output = trimmed(pid, options);
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_follows(&document, "trim.schema.json");
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
    // Its wait lasts 1.5 s, which may be over on a very busy machine before unbloat has examined it.
    for _ in 0..10 {
        let mut target = Target::start_ready(program.command().args(["read", "heap"]));
        if let Some(process) = trimmed_in_time(target.pid()) {
            assert_prediction_within_one_percent(&process);
            assert_eq!(process["borrowed_from"], "read");
            assert!(target.line().contains("result=1 errno=77"));
            return;
        }
    }
    panic!("its wait was over each time");
}

/// Trims a process that may end before it is examined.
fn trimmed_in_time(pid: i32) -> Option<Value> {
    let output = unbloat(pid, &[]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["processes"].get(0).filter(|process| process["outcome"] == "trimmed").cloned()
}

#[test]
fn twenty_threads_give_back_what_was_predicted_and_keep_their_data() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    let arguments = ["20", "2000", "9000", "3", "2"];
    let mut target = Target::start_ready(program.command().args(arguments));
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
            // Not every Debian has it; scripts/deps installs it where available.
            assert_eq!(name, "mimalloc", "run scripts/deps test");
            continue;
        };
        let mut command = program.command();
        command.args(["4", "4000", "9000", "3", "0"]).env("LD_PRELOAD", library);
        // By itself jemalloc returns unused pages after some seconds.
        command.env("MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1");
        let mut target = Target::start_ready(&mut command);
        let live = target.ask("live");
        let (_, process) = trim(target.pid(), &[]);
        assert_outcome(&process, "trimmed");
        assert_eq!(process["allocator"], name);
        if name == "jemalloc" {
            let (predicted, returned) =
                (process["predicted_bytes"].as_u64().unwrap(), process["returned_bytes"].as_u64().unwrap());
            assert!(returned > 4 << 20, "{process}");
            // The purge's own code becomes resident, 64 KiB around each page at its first use.
            assert!(predicted.abs_diff(returned) <= (returned / 100).max(512 << 10), "{process}");
            assert!(process["reason"].is_null(), "{process}");
        } else {
            assert!(process["predicted_bytes"].is_null());
            let left = if name == "mimalloc" { "the heaps of other threads" } else { "thread caches" };
            assert!(process["reason"].as_str().unwrap().contains(left), "{process}");
        }
        assert_eq!(target.ask("live"), live);
    }
}

/// Ruby's threads retain leftovers of the calls at their start, including jemalloc's code, in the frames
/// below their VM stacks.
#[test]
fn a_ruby_with_threads_gives_back_under_a_preloaded_jemalloc() {
    let Some(library) = system_library("libjemalloc.so.2") else { panic!("run scripts/deps test") };
    let script = r#"
        $stdout.sync = true
        threads = 4.times.map { Thread.new { rows = Array.new(20_000) { "x" * 900 }; rows = nil; GC.start; sleep } }
        sleep 0.5
        puts "ready"
        gets
        puts threads.count(&:alive?)
    "#;
    let mut command = ruby(&[], script);
    command.env("LD_PRELOAD", library).env("MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1");
    let mut target = Target::start_ready(&mut command);
    let (_, process) = trim(target.pid(), &[]);
    assert_outcome(&process, "trimmed");
    assert!(process["returned_bytes"].as_u64().unwrap() > 4 << 20, "{process}");
    assert_eq!(target.ask("go"), "4");
}
