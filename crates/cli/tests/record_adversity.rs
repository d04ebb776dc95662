//! `unbloat record` under adverse conditions: a full disk, unreadable processes, very many of them.
#![allow(clippy::unwrap_used)]

mod recording;

use recording::{Guard, Scratch, UNBLOAT, eventually, is_alive, pid_in};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};
use std::time::Duration;

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Asserts that the command ran to its end, the error describes the problem, and everything up to then is
/// readable.
fn assert_ended_by_full_disk(scratch: &Scratch, output: &Output) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("no space left") && error.contains("the command continues"), "{error}");
    assert_eq!(fs::read_to_string(scratch.path("done")).unwrap(), "yes\n", "the command ran to its end");
    assert_eq!(scratch.one::<String>("PRAGMA integrity_check"), "ok");
    assert!(scratch.one::<i64>("SELECT count(*) FROM sample") > 100);
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_command() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let (disk, done) = (scratch.path("disk"), scratch.path("done"));
    fs::create_dir(&disk).unwrap();
    // The disk disappears with the mount namespace, so its contents are fetched before.
    let script = format!(
        "mount -t tmpfs -o size=400k none {disk} || exit 77; \
         {UNBLOAT} record -o {disk}/a.unbloat --interval 2ms -- sh -c 'sleep 8; echo yes > {done}'; \
         status=$?; cp {disk}/a.unbloat* {here}; exit $status",
        disk = disk.display(),
        done = done.display(),
        here = scratch.0.path().display(),
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    if output.status.code() == Some(77) {
        // In a container that forbids mounting.
        return;
    }
    assert_ended_by_full_disk(&scratch, &output);
}

#[test]
fn a_limit_of_file_sizes_ends_it_like_a_full_disk() {
    let scratch = Scratch::new();
    let line = format!(
        "ulimit -S -f 200; exec {UNBLOAT} record -o {} --interval 2ms -- sh -c 'sleep 8; echo yes > {}'",
        scratch.file().display(),
        scratch.path("done").display()
    );
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_ended_by_full_disk(&scratch, &output);
}

#[test]
fn of_a_process_that_may_not_be_read_what_may_is_recorded() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    fs::set_permissions(scratch.0.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // Another user may not have access to the location of the sources.
    let program = scratch.path("unbloat");
    fs::copy(UNBLOAT, &program).unwrap();
    let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let pid_file = scratch.path("pid");
    let script = format!("setpriv {} sleep 60 & echo $! > {}; wait", as_nobody.join(" "), pid_file.display());
    let mut root = Guard(Command::new("sh").args(["-c", &script]).spawn().unwrap());
    let theirs = pid_in(&pid_file);
    eventually("another program", || {
        fs::read_to_string(format!("/proc/{theirs}/comm")).is_ok_and(|name| name == "sleep\n")
    });
    let pid = root.0.id().to_string();
    let recorded = Command::new("setpriv")
        .args(as_nobody)
        .arg(&program)
        .args([
            "record",
            "-q",
            "--budget",
            "50%",
            "--census",
            "500ms",
            "--duration",
            "2s",
            "--pid",
            &pid,
            "-o",
        ])
        .arg(scratch.file())
        .status()
        .unwrap();
    recording::signal("-KILL", theirs);
    root.0.wait().unwrap();
    assert!(recorded.success());
    let count = |of: &str, pid: &str| {
        let sql = format!("SELECT count({of}) FROM sample JOIN process ON process = id WHERE pid = {pid}");
        scratch.one::<i64>(&sql)
    };
    let theirs = theirs.to_string();
    assert!(count("rss_bytes", &pid) > 3 && count("threads", &pid) > 3);
    assert_eq!(count("pss_bytes", &pid) + count("uss_bytes", &pid), 0, "absent and not 0");
    assert!(count("pss_bytes", &theirs) > 3, "the one that may be read has everything");
    let note = scratch.one::<String>(&format!("SELECT note FROM process WHERE pid = {pid}"));
    assert!(note.contains("not permitted") || note.contains("denied"), "{note}");
    assert_eq!(scratch.one::<i64>("SELECT count(*) FROM process WHERE note IS NULL"), 1);
}

const THOUSAND: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    for (int i = 0; i < 1000; i++) if (fork() == 0) { pause(); _exit(0); }
    FILE *f = fopen(argv[1], "w");
    fprintf(f, "%d\n", getpid());
    fclose(f);
    pause();
    return 0;
}
"#;

#[test]
fn a_thousand_processes_are_recorded_and_gone_afterwards() {
    let scratch = Scratch::new();
    let (program, ready) = (scratch.compile("thousand", THOUSAND, &[]), scratch.path("ready"));
    let mut command = scratch.record(&["--grace", "1s", "--"]);
    let mut recorder = Guard(command.args([&program, &ready]).spawn().unwrap());
    pid_in(&ready);
    std::thread::sleep(Duration::from_secs(2));
    recording::signal("-TERM", recorder.0.id() as i32);
    recorder.0.wait().unwrap();
    assert_eq!(scratch.one::<i64>("SELECT count(*) FROM process"), 1001);
    let looks = "SELECT count(rss_bytes) AS seen FROM sample GROUP BY time_ns";
    assert_eq!(scratch.one::<i64>(&format!("SELECT max(seen) FROM ({looks})")), 1001, "all in one look");
    let left: Vec<i32> = scratch.pids().into_iter().filter(|&pid| is_alive(pid)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Puts the wall clock an hour ahead as soon as a file exists.
const STEPPED_CLOCK: &str = r#"
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME && access(getenv("STEP"), F_OK) == 0) now->tv_sec += 3600;
    return failed;
}
"#;

#[test]
fn a_step_of_the_wall_clock_moves_no_sample_and_is_written_down() {
    let scratch = Scratch::new();
    let library = scratch.compile("stepped.so", STEPPED_CLOCK, &["-shared", "-fPIC"]);
    let step = scratch.path("step");
    let mut command = scratch.record(&["--grace", "1s", "--", "sleep", "60"]);
    let mut recorder = Guard(command.env("LD_PRELOAD", library).env("STEP", &step).spawn().unwrap());
    eventually("a sample", || scratch.has("SELECT 1 FROM sample"));
    fs::write(&step, "").unwrap();
    // The error of the anchor at the start from then on.
    let off = "SELECT sample.time_ns FROM clock, recording, sample WHERE sample.time_ns > clock.time_ns \
               AND clock.wall_ns - clock.time_ns - started_wall_ns BETWEEN 3540e9 AND 3660e9";
    eventually("the step, and a sample after it", || scratch.has(off));
    recording::signal("-TERM", recorder.0.id() as i32);
    recorder.0.wait().unwrap();
    let after = scratch.one::<i64>(off);
    let half_an_hour = 1_800_000_000_000;
    assert!((1..half_an_hour).contains(&after), "{after}");
    let moved = format!("SELECT count(*) FROM sample WHERE time_ns NOT BETWEEN 0 AND {half_an_hour}");
    assert_eq!(scratch.one::<i64>(&moved), 0);
    let ended = scratch.one::<i64>("SELECT ended_ns FROM recording");
    assert!(ended >= after && ended < half_an_hour, "{ended}");
}

#[test]
fn the_runtime_library_tells_its_counters() {
    let scratch = Scratch::new();
    let ruby = "80.times { Array.new(20_000) { 'x' * 700 }; GC.start; sleep 0.05 }";
    let mut command = scratch.record(&["--budget", "100%", "--census", "500ms", "--", UNBLOAT, "run"]);
    for name in ["LD_PRELOAD", "RUBYOPT", "MALLOC_ARENA_MAX", "UNBLOAT", "UNBLOAT_LIBRARY_DIR"] {
        command.env_remove(name);
    }
    let runtime = scratch.path("run");
    fs::create_dir(&runtime).unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    command
        .args(["--policy", "trim=every", "--", "ruby", "-e", ruby])
        .env("XDG_CACHE_HOME", scratch.path("cache"));
    assert!(command.env("XDG_RUNTIME_DIR", &runtime).status().unwrap().success());
    let most = |name: &str| {
        scratch.one::<i64>(&format!("SELECT coalesce(max(value), 0) FROM counter WHERE name = '{name}'"))
    };
    assert!(most("gc_count") > 5 && most("trims") > 0, "{} {}", most("gc_count"), most("trims"));
}

/// The file's write lock, held by a reader for longer than any writer would wait for it.
#[test]
fn a_lock_that_somebody_holds_delays_the_file_and_loses_nothing() {
    let scratch = Scratch::new();
    let mut recorder = Guard(
        Command::new(UNBLOAT)
            .args(["record", "-q", "--interval", "100ms", "-o"])
            .arg(scratch.file())
            .args(["--", "sleep", "14"])
            .spawn()
            .unwrap(),
    );
    eventually("the recording has begun", || fs::metadata(scratch.file()).is_ok_and(|file| file.len() > 0));
    std::thread::sleep(Duration::from_secs(1));
    let other = rusqlite::Connection::open(scratch.file()).unwrap();
    other.busy_timeout(Duration::from_secs(5)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::sleep(Duration::from_secs(11));
    other.execute_batch("ROLLBACK").unwrap();
    drop(other);
    assert_eq!(recorder.0.wait().unwrap().code(), Some(0));
    let longest_gap_s = "SELECT max(gap) / 1e9 FROM (SELECT time_ns - lag(time_ns) OVER (ORDER BY time_ns) AS gap FROM sample)";
    assert!(scratch.one::<f64>(longest_gap_s) < 3.0, "samples of the time of the lock are missing");
    assert!(scratch.one::<i64>("SELECT count(DISTINCT time_ns) FROM sample") > 80);
    assert_eq!(scratch.one::<String>("SELECT end_reason FROM recording"), "the last process ended");
}
