//! The status page and `unbloat status`.

use crate::home::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use unbloat_test_support::assert_follows;

const WAITING: &str = "GC.start; wait_until { Unbloat.status[:trims] > 0 }; puts 'ready'; sleep";

/// Returns the JSON of `unbloat status` for a process, validated by its schema.
fn status_of(home: &Home, pid: u32) -> serde_json::Value {
    let output = home.unbloat(&["status", "--json", &pid.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_follows(&document, "status.schema.json");
    document["processes"][0].clone()
}

#[test]
fn status_shows_a_running_process_and_proves_it_by_its_mappings() {
    let home = Home::new();
    let code = with_helpers(WAITING);
    let mut command =
        home.unbloat(&["run", "--policy", "allocator=jemalloc,trim=every", "--", "ruby", "-e", &code]);
    let (guard, mut out) = Guard::spawn(&mut command);
    assert_eq!(line(&mut out), "ready");
    let status = status_of(&home, guard.0.id());
    assert_eq!(status["policy"], "allocator=jemalloc,trim=every");
    assert_eq!(status["allocator"], "jemalloc 5.3.1");
    assert_eq!(status["problems"], serde_json::json!([]));
    assert!(status["trims"].as_u64().unwrap() >= 1 && status["gc_count"].as_u64().unwrap() >= 1);
    let text = home.unbloat(&["status"]).output().unwrap();
    assert!(stdout(&text).contains(&guard.0.id().to_string()), "{}", stdout(&text));
}

/// A logout removes its user's files in the directories of pages, and a chroot's paths do not exist here.
#[test]
fn a_page_whose_file_is_gone_is_read_where_it_is_mapped() {
    let home = Home::new();
    let code = with_helpers(&format!(
        "File.unlink(File.foreach('/proc/self/maps').grep(/[.]status$/).first.split.last); {WAITING}"
    ));
    let (guard, mut out) =
        Guard::spawn(&mut home.unbloat(&["run", "--policy", "trim=every", "--", "ruby", "-e", &code]));
    assert_eq!(line(&mut out), "ready");
    let status = status_of(&home, guard.0.id());
    assert_eq!((&status["policy"], &status["problems"]), (&"trim=every".into(), &serde_json::json!([])));
    assert!(status["trims"].as_u64().unwrap() >= 1, "{status}");
}

/// Threads have stranded memory in arenas of their own, for which the advice would otherwise be `unbloat
/// run`.
#[test]
fn inspect_tells_what_the_runtime_did_and_does_not_advise_to_use_it() {
    let home = Home::new();
    let code = with_helpers(
        "$kept = Array.new(4) { Thread.new { Array.new(60_000) { |i| 'x' * (100 + i % 900) }.each_slice(12).map(&:first) } }
           .map(&:value)
         wait_until { GC.start; Unbloat.status[:trim_returned_bytes] > 4 << 20 }; puts 'ready'; sleep",
    );
    let mut command = home.unbloat(&["run", "--policy", "trim=every", "--", "ruby", "-e", &code]);
    let (guard, mut out) = Guard::spawn(&mut command);
    assert_eq!(line(&mut out), "ready");
    let output = home.unbloat(&["inspect", "--json", &guard.0.id().to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let process = &document["processes"][0];
    let runtime = &process["runtime"];
    assert_eq!((&runtime["policy"], &runtime["problem"]), (&"trim=every".into(), &serde_json::Value::Null));
    assert!(runtime["trims"].as_u64() >= Some(1), "{runtime}");
    assert!(runtime["trim_returned_bytes"].as_u64() > Some(4 << 20), "{runtime}");
    let codes: Vec<_> =
        process["verdict"].as_array().unwrap().iter().map(|f| f["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"runtime") && codes.contains(&"stranded"), "{process}");
    let mut lines =
        process["verdict"].as_array().unwrap().iter().flat_map(|f| f["actions"].as_array().unwrap());
    assert!(
        lines.all(|action| !action["line"].as_str().unwrap().starts_with("unbloat run -- ")),
        "{}",
        process["verdict"]
    );
    let text = home.unbloat(&["inspect", &guard.0.id().to_string()]).output().unwrap();
    assert!(stdout(&text).contains("UNBLOAT RUN  trim=every"), "{}", stdout(&text));
}

#[test]
fn a_claim_that_the_mappings_do_not_bear_out_is_a_problem() {
    let home = Home::new();
    let directory = home.0.path().join("lib");
    assert!(home.unbloat(&["install", directory.to_str().unwrap()]).status().unwrap().success());
    let mut command = Command::new("ruby");
    home.isolate(&mut command);
    command.args(["-e", &with_helpers(WAITING)]).env("UNBLOAT_POLICY", "lean").env("UNBLOAT_TRIM", "every");
    command.env("RUBYOPT", format!("-r{}", directory.join("libunbloat.so").display()));
    let (guard, mut out) = Guard::spawn(&mut command);
    assert_eq!(line(&mut out), "ready");
    let status = status_of(&home, guard.0.id());
    assert!(
        status["problems"][0].as_str().unwrap().contains("libunbloat-jemalloc.so is not mapped"),
        "{status}"
    );
}

#[test]
fn a_policy_without_a_runtime_is_proved_all_the_same() {
    let home = Home::new();
    for (policy, tunables, proof, problem) in [
        ("allocator=jemalloc", "", "libunbloat-jemalloc.so", None),
        ("arenas=2", "", "libc", None),
        // glibc gives the tunable precedence, so the requested limit is not live.
        (
            "arenas=2",
            "glibc.malloc.arena_max=5",
            "libc",
            Some("glibc's limit of arenas is 5, and should be 2"),
        ),
        ("off", "", "libc", None),
    ] {
        let mut command = home.unbloat(&["run", "--quiet", "--policy", policy, "--", "ruby", "-e"]);
        command.arg("$stdout.sync = true; puts 'ready'; sleep").env("GLIBC_TUNABLES", tunables);
        let (guard, mut out) = Guard::spawn(&mut command);
        assert_eq!(line(&mut out), "ready");
        let output = home.unbloat(&["status", "--json", &guard.0.id().to_string()]).output().unwrap();
        assert!(output.status.success(), "{policy}: {}", stderr(&output));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_follows(&document, "status.schema.json");
        let process = &document["without_runtime"];
        assert_eq!(process["policy"], policy);
        assert!(process["allocator"].as_str().unwrap().contains(proof), "{process}");
        assert_eq!(process["problems"], serde_json::json!(Vec::from_iter(problem)), "{process}");
    }
}

#[test]
fn a_library_that_is_mapped_and_does_not_serve_malloc_is_a_problem() {
    let home = Home::new();
    let theirs = unbloat_test_support::system_library("libjemalloc.so.2").expect("run scripts/deps test");
    let directory = home.0.path().join("lib");
    assert!(home.unbloat(&["install", directory.to_str().unwrap()]).status().unwrap().success());
    let ours = directory.join("libunbloat-jemalloc.so");
    let mut command = Command::new("ruby");
    home.isolate(&mut command);
    command
        .args(["-e", "$stdout.sync = true; puts 'ready'; sleep"])
        .env("UNBLOAT_POLICY", "allocator=jemalloc");
    command.env("LD_PRELOAD", format!("{}:{}", theirs.display(), ours.display()));
    let (guard, mut out) = Guard::spawn(&mut command);
    assert_eq!(line(&mut out), "ready");
    let output = home.unbloat(&["status", &guard.0.id().to_string()]).output().unwrap();
    let said = stdout(&output);
    assert!(said.contains("libunbloat-jemalloc.so is mapped and does not serve malloc"), "{output:?}");
    assert!(said.contains("libjemalloc.so.2"), "{said}");
}

#[test]
fn glibcs_thresholds_are_pinned_in_the_process() {
    let home = Home::new();
    for (threshold, dynamic) in [(None, false), (Some("off"), true)] {
        let mut command = home.unbloat(&["run", "--policy", "trim=adaptive", "--", "ruby", "-e"]);
        command.arg("$stdout.sync = true; puts 'ready'; sleep");
        command.envs(threshold.map(|value| ("UNBLOAT_TRIM_THRESHOLD", value)));
        let (guard, mut out) = Guard::spawn(&mut command);
        assert_eq!(line(&mut out), "ready");
        let output = home.unbloat(&["inspect", "--json", &guard.0.id().to_string()]).output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let settings = &document["processes"][0]["allocator"]["settings"];
        assert_eq!(settings["dynamic_thresholds"], dynamic, "{settings}");
        if !dynamic {
            let pinned = (&settings["trim_threshold_bytes"], &settings["mmap_threshold_bytes"]);
            assert_eq!(pinned, (&(1 << 20).into(), &(1 << 20).into()), "{settings}");
        }
    }
}

#[test]
fn status_says_why_a_process_has_no_page() {
    let home = Home::new();
    let (guard, _out) = Guard::spawn(Command::new("sleep").arg("60"));
    let output = home.unbloat(&["status", &guard.0.id().to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("unbloat run"), "{}", stderr(&output));
}

#[test]
fn pages_go_with_their_process_and_stale_ones_with_the_next() {
    let home = Home::new();
    assert!(home.ruby("lean", "").status.success());
    assert!(home.pages().is_empty(), "{:?}", home.pages());
    let code = with_helpers("puts 'ready'; sleep");
    let (guard, mut out) = Guard::spawn(&mut home.unbloat(&["run", "--", "ruby", "-e", &code]));
    assert_eq!(line(&mut out), "ready");
    assert_eq!(home.pages().len(), 1);
    assert_eq!(fs::metadata(&home.pages()[0]).unwrap().permissions().mode() & 0o777, 0o600);
    drop(guard); // SIGKILL
    assert_eq!(home.pages().len(), 1, "nobody could remove it");
    assert!(home.ruby("lean", "").status.success());
    assert!(home.pages().is_empty(), "{:?}", home.pages());
}

#[test]
fn a_directory_that_is_not_ours_alone_gets_no_page() {
    let home = Home::new();
    let pages = home.runtime_directory().join("unbloat");
    let elsewhere = home.0.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).unwrap();
    let look = |what: &str| {
        let output = home.ruby(
            "trim=every",
            "GC.start; wait_until { Unbloat.status[:trims] > 0 }
             p Dir.children(File.join(ENV['XDG_RUNTIME_DIR'], 'unbloat'))",
        );
        assert_eq!(stdout(&output), "[]\n", "{what}: {}", stderr(&output));
    };
    std::os::unix::fs::symlink(&elsewhere, &pages).unwrap();
    look("a link");
    fs::remove_file(&pages).unwrap();
    fs::create_dir(&pages).unwrap();
    fs::set_permissions(&pages, fs::Permissions::from_mode(0o777)).unwrap();
    look("open to all");
    fs::set_permissions(&pages, fs::Permissions::from_mode(0o700)).unwrap();
    if std::os::unix::fs::chown(&pages, Some(65_534), None).is_ok() {
        look("somebody else's");
    }
}

#[test]
fn without_a_directory_for_the_page_everything_else_works() {
    let home = Home::new();
    let mut command = home.unbloat(&["run", "--policy", "trim=every", "--", "ruby", "-e"]);
    command.arg(with_helpers(
        "GC.start; wait_until { Unbloat.status[:trims] > 0 }; puts Unbloat.status[:gc_count] > 0",
    ));
    // A path too long to be used. /dev/shm would only be unavailable to a nonexistent user, so this tests
    // only that the long path is skipped without harm.
    let output = command.env("XDG_RUNTIME_DIR", format!("/{}", "x".repeat(400))).output().unwrap();
    assert_eq!(stdout(&output), "true\n", "{}", stderr(&output));
}

#[test]
fn a_crash_elsewhere_leaves_only_a_page_that_the_next_start_removes() {
    let home = Home::new();
    let output = home.ruby(
        "trim=every",
        "child = fork do
           GC.start; wait_until { Unbloat.status[:trims] > 0 }
           Process.setrlimit(:CORE, 0)
           $stderr.reopen(File::NULL)
           Process.kill(:SEGV, Process.pid)
           sleep
         end
         Process.wait(child)
         GC.start; wait_until { Unbloat.status[:trims] > 0 }
         puts $?.signaled?, Unbloat.status[:pid] == Process.pid",
    );
    assert_eq!(stdout(&output), "true\ntrue\n", "{}", stderr(&output));
    assert_eq!(home.pages().len(), 1, "the crashed child could not remove its page: {:?}", home.pages());
    assert!(home.ruby("lean", "").status.success());
    assert!(home.pages().is_empty(), "{:?}", home.pages());
}
