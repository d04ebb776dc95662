//! `unbloat compare` in trouble: servers that do not start, die, ignore SIGTERM or leave something behind,
//! loads that fail, libraries that are missing. A run that cannot count is kept with its reason, and the next
//! one is not disturbed.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A directory with a plan of two equal variants and one block.
struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    /// Creates the plan. `server` are lines of its table of that name, `load` of the other.
    fn new(server: &str, load: &str) -> Self {
        Self::with(server, load, "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n")
    }

    fn with(server: &str, load: &str, variants: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let plan = format!(
            "title = \"trouble\"\n[server]\nstop-within = \"500ms\"\n{server}\n[load]\n{load}\n[design]\nblocks = 1\nmax-other-cpu = 1\n\
             idle-tail = \"0s\"\n[rule]\nnot-worse = []\n{variants}"
        );
        std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
        Bench { directory }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unbloat"));
        command.args(["compare", "plan.toml", "--json", "--quiet"]).current_dir(self.directory.path());
        command
    }

    /// Asserts that the command fails, and returns its message.
    fn refusal(&self) -> String {
        let Output { status, stderr, .. } = self.command().output().unwrap();
        let text = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(1), "{text}");
        self.assert_nothing_runs();
        text
    }

    fn document(&self) -> Value {
        let output = self.command().output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.assert_nothing_runs();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn running(&self) -> Vec<PathBuf> {
        let directory = self.directory.path().canonicalize().unwrap();
        let entries = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        entries
            .filter(|process| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == directory))
            .collect()
    }

    /// Asserts that nothing started by this test is running; everything runs in its directory.
    fn assert_nothing_runs(&self) {
        assert_eq!(self.running(), Vec::<PathBuf>::new());
    }
}

/// Returns a server that is a shell script.
fn shell(script: &str) -> String {
    format!(
        "start = [\"sh\", \"-c\", '''{script}''']\nready = {{ line = \"ready\" }}\nready-within = \"10s\""
    )
}

const OWN: &str = "driver = \"own\"";
const WORKS: &str = "echo ready; echo done units=1 throughput=1; exec sleep 60";

#[test]
fn a_program_that_is_not_there_is_named() {
    let text = Bench::new("start = [\"./nonesuch\"]\nready = { line = \"ready\" }", OWN).refusal();
    assert!(text.contains("cannot start ./nonesuch: No such file"), "{text}");
}

#[test]
fn a_server_that_ends_early_is_quoted() {
    let text = Bench::new(&shell("echo no such gem >&2; exit 7"), OWN).refusal();
    assert!(text.contains("no such gem") && text.contains("status 7"), "{text}");
}

#[test]
fn a_server_that_never_gets_ready_is_ended() {
    let server = shell("echo hello; exec sleep 60").replace("10s", "200ms");
    let text = Bench::new(&server, OWN).refusal();
    assert!(text.contains("hello") && text.contains("line \"ready\""), "{text}");
    let server = server.replace("{ line = \"ready\" }", "{ port = \"{port}\" }");
    let text = Bench::new(&server, OWN).refusal();
    assert!(text.contains("(server.ready-within), waiting for port"), "{text}");
}

#[test]
fn a_server_that_dies_under_load_does_not_keep_the_load_waiting() {
    let load = "driver = \"command\"\ncommand = [\"sleep\", \"3000\"]";
    let begun = Instant::now();
    let text = Bench::new(&shell("echo ready; sleep 0.3; echo out of luck; exit 9"), load).refusal();
    assert!(text.contains("ended during the run") && text.contains("out of luck"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(1500), "it waited for the load");
}

#[test]
fn what_ignores_sigterm_is_named_killed_and_left_out() {
    let text =
        Bench::new(&shell("trap '' TERM; echo ready; echo done; while :; do sleep 1; done"), OWN).refusal();
    assert!(text.contains("left something behind") && text.contains("500ms after SIGTERM"), "{text}");
}

/// A process in its own session that keeps the port, like a daemon.
#[test]
fn what_leaves_its_session_and_keeps_the_port_is_found() {
    let leak = r#"require "socket"; trap("TERM", "IGNORE"); TCPServer.new("127.0.0.1", ARGV[0].to_i); $stdout.puts "ready\ndone"; $stdout.flush; sleep"#;
    let server = format!(
        "start = [\"sh\", \"-c\", '''setsid ruby -e '\\''{leak}'\\'' {{port}} & trap \"exit 0\" TERM; wait''']\nready = {{ line = \"ready\" }}"
    );
    let server = server.replace("'\\''", "\"$0\"").replace(&format!("\"$0\"{leak}\"$0\""), "\"$0\"");
    let server = server.replace("''']", &format!("''', '''{leak}''']"));
    let text = Bench::new(&server, OWN).refusal();
    assert!(text.contains("left something behind") && text.contains("TCPServer"), "{text}");
}

#[test]
fn a_load_that_fails_or_never_ends_is_a_reason() {
    let load = "driver = \"command\"\ncommand = [\"sh\", \"-c\", \"echo broken script >&2; exit 1\"]";
    let text = Bench::new(&shell(WORKS), load).refusal();
    assert!(text.contains("the load failed") && text.contains("broken script"), "{text}");
    let text = Bench::new(&shell(WORKS), "driver = \"command\"\ncommand = [\"./k6\"]").refusal();
    assert!(text.contains("cannot start ./k6"), "{text}");
    let endless = Bench::new(&shell(WORKS), "driver = \"command\"\ncommand = [\"sleep\", \"60\"]");
    let plan = endless.directory.path().join("plan.toml");
    let text =
        std::fs::read_to_string(&plan).unwrap().replace("[design]", "[design]\nload-within = \"200ms\"");
    std::fs::write(&plan, text).unwrap();
    let text = endless.refusal();
    assert!(text.contains("still ran after 200ms"), "{text}");
}

#[test]
fn a_dirty_load_is_kept_and_left_out() {
    let load = "driver = \"command\"\ncommand = [\"sh\", \"-c\", \"echo 3 lost >&2; exit 3\"]";
    let text = Bench::new(&shell(WORKS), load).refusal();
    assert!(text.contains("not clean: 3 lost"), "{text}");
}

#[test]
fn a_library_that_is_missing_costs_its_variant_and_nothing_else() {
    let variants = "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\npreload = \"libnonesuch.so\"\npackage = \"libnonesuch1\"\n";
    let document = Bench::with(&shell(WORKS), OWN, variants).document();
    assert_eq!((&document["variants"][0]["runs"], &document["variants"][1]["runs"]), (&2.into(), &0.into()));
    let why = document["excluded"][0]["why"].as_str().unwrap();
    assert!(why.contains("libnonesuch.so is not mapped") && why.contains("libnonesuch1"), "{why}");
}

#[test]
fn a_load_of_any_command_brings_its_figures() {
    let load = r#"driver = "command"
command = ["sh", "-c", "echo working on {port}; echo '{\"p95_s\": 0.25, \"throughput\": 40}'"]"#;
    let document = Bench::new(&shell(WORKS), load).document();
    assert_eq!(document["variants"][0]["metrics"]["p95"]["median"], 0.25);
    assert_eq!(document["variants"][1]["metrics"]["throughput"]["median"], 40.0);
}

#[test]
fn killed_by_sigkill_it_leaves_neither_server_nor_load() {
    let daemon = "setsid sleep 61 & echo ready; exec sleep 62";
    let bench =
        Bench::new(&shell(daemon), "driver = \"command\"\ncommand = [\"sh\", \"-c\", \"sleep 63; :\"]");
    let temporary = bench.directory.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let mut harness = bench.command().env("TMPDIR", &temporary).stdout(Stdio::null()).spawn().unwrap();
    let runs = |seconds: &str| {
        bench.running().iter().any(|process| {
            std::fs::read_to_string(process.join("cmdline"))
                .is_ok_and(|command| command == format!("sleep\0{seconds}\0"))
        })
    };
    let all_run = (0..1500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        runs("61") && runs("62") && runs("63")
    });
    harness.kill().unwrap();
    harness.wait().unwrap();
    assert!(all_run, "the run has not begun within 30 s");
    let gone = (0..1500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        bench.running().is_empty()
    });
    assert!(gone, "{:?}", bench.running());
    let scratch = (0..1500).find(|_| {
        std::thread::sleep(Duration::from_millis(20));
        std::fs::read_dir(&temporary).unwrap().next().is_none()
    });
    assert!(scratch.is_some(), "the run's directory is left");
}

#[test]
fn a_file_of_another_plan_is_refused_and_kept() {
    let bench = Bench::new(&shell(WORKS), OWN);
    bench.document();
    let before = std::fs::read(bench.directory.path().join("plan.unbloat")).unwrap();
    let plan = bench.directory.path().join("plan.toml");
    let text = std::fs::read_to_string(&plan).unwrap().replace("trouble", "another");
    std::fs::write(&plan, text).unwrap();
    let text = bench.refusal();
    assert!(
        text.contains("contains another plan") && text.contains("another") && text.contains("-o"),
        "{text}"
    );
    assert_eq!(std::fs::read(bench.directory.path().join("plan.unbloat")).unwrap(), before);
}

/// The applications that come with Unbloat: each is recognized, and gets a valid plan.
#[test]
fn init_knows_the_applications() {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
    let found = [
        ("cable", "cable"),
        ("anycable", "cable"),
        ("web", "http"),
        ("jobs", "jobs"),
        ("fragment", "command"),
    ];
    for (name, driver) in found {
        let directory = tempfile::tempdir().unwrap();
        let unbloat = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_unbloat"));
            command.current_dir(directory.path()).arg("compare");
            command
        };
        let output = unbloat().arg("init").arg(apps.join(name)).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let plan = std::fs::read_to_string(directory.path().join("unbloat.toml")).unwrap();
        assert!(plan.contains(&format!("driver = \"{driver}\"")), "{name}: {plan}");
        let dry = unbloat().args(["unbloat.toml", "--dry-run"]).output().unwrap();
        assert!(dry.status.success(), "{name}: {}", String::from_utf8_lossy(&dry.stderr));
    }
}

/// Replaces text in the plan.
fn change(bench: &Bench, from: &str, to: &str) {
    let plan = bench.directory.path().join("plan.toml");
    let text = std::fs::read_to_string(&plan).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(&plan, text.replace(from, to)).unwrap();
}

/// Adds lines to the plan's table `[design]`.
fn design(bench: &Bench, lines: &str) {
    change(bench, "[design]", &format!("[design]\n{lines}"));
}

#[test]
fn what_others_take_of_the_machine_is_known_and_a_plan_may_forbid_it() {
    // Neither server nor load: an orphan outside the server's tree.
    let busy = "(sh -c 'while :; do :; done' &); echo ready; exec sleep 60";
    let load = "driver = \"command\"\ncommand = [\"sleep\", \"1\"]";
    let bench = Bench::new(&shell(busy), load);
    change(&bench, "max-other-cpu = 1", "max-other-cpu = 0.001");
    let document = bench.document();
    assert_eq!(document["variants"][0]["runs"], 0);
    let why = document["excluded"][0]["why"].as_str().unwrap();
    assert!(why.contains("disturbed: other programs took") && why.contains("design.max-other-cpu"), "{why}");
}

#[test]
fn a_server_is_warmed_up_with_its_load() {
    let load = r#"driver = "command"
command = ["sh", "-c", "echo run >>runs; echo '{\"p95_s\": 0.25}'"]"#;
    let bench = Bench::new(&shell(WORKS), load);
    // Longer than the load takes; the progress in less time depends on the machine.
    design(&bench, "warm-up = \"60s\"");
    let document = bench.document();
    assert_eq!(document["variants"][0]["metrics"]["p95"]["values"].as_array().map(Vec::len), Some(2));
    let runs = std::fs::read_to_string(bench.directory.path().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 2 * 3, "each of the three runs has its load twice");
}

#[test]
fn a_server_is_stopped_as_the_plan_says() {
    let stubborn = |signal: &str| {
        shell(&format!(
            "trap '' TERM; trap 'exit 0' {signal}; echo ready; echo done; while :; do sleep 0.05; done"
        ))
    };
    for (stop, signal) in [("\"INT\"", "INT"), ("[\"sh\", \"-c\", \"kill -QUIT {pid}\"]", "QUIT")] {
        let bench = Bench::new(&format!("stop = {stop}\n{}", stubborn(signal)), OWN);
        // Gives the shell time to run its trap.
        change(&bench, "stop-within = \"500ms\"", "stop-within = \"30s\"");
        bench.document();
    }
    let text = Bench::new(&format!("stop = [\"false\"]\n{}", stubborn("QUIT")), OWN).refusal();
    assert!(text.contains("after `false`, which ended with status 1 (server.stop-within)"), "{text}");
}

#[test]
fn work_of_its_own_that_does_not_end_is_told_from_a_server_that_does() {
    let text =
        Bench::new(&shell("echo ready; exec sleep 60"), "driver = \"own\"\nwithin = \"200ms\"").refusal();
    assert!(text.contains("the load failed") && text.contains("load.within"), "{text}");
}

#[test]
fn begun_again_an_experiment_without_a_run_that_counts_says_how_to_begin_anew() {
    let bench = Bench::new(&shell("exit 7"), OWN);
    for _ in 0..2 {
        let text = bench.refusal();
        assert!(text.contains("status 7") && text.contains("remove plan.unbloat"), "{text}");
    }
}

#[test]
fn ctrl_c_is_heard_while_a_server_gets_ready_and_while_it_does_its_own_work() {
    for script in ["exec sleep 60", "echo ready; exec sleep 60"] {
        let bench = Bench::new(&shell(script).replace("10s", "60s"), OWN);
        let mut harness = bench.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let sleeps = |process: &PathBuf| {
            std::fs::read_to_string(process.join("cmdline"))
                .is_ok_and(|command| command.split('\0').eq(["sleep", "60", ""]))
        };
        let runs = (0..1500).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            bench.running().iter().any(sleeps)
        });
        let pid = nix::unistd::Pid::from_raw(harness.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
        assert_eq!(harness.wait().unwrap().code(), Some(130), "{script}");
        assert!(runs, "{script}: the run has not begun within 30 s");
        bench.assert_nothing_runs();
    }
}

/// Nothing can be written under /proc, and the kernel says so: the message comes before any server is
/// started.
#[test]
fn too_little_disk_is_said_before_anything_is_started() {
    let bench = Bench::new(&shell(WORKS), OWN);
    let output = bench.command().args(["-o", "/proc/x.unbloat"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && text.contains("0 MiB are free") && text.contains("-o"),
        "{text}"
    );
}
