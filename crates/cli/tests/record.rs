//! `unbloat record` on real process trees.
#![allow(clippy::unwrap_used)]

mod recording;

use recording::{
    BOTH_WAYS, Guard, Scratch, UNBLOAT, eventually, is_alive, monotonic_ns, pid_in, signal, unbloat,
};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn the_exit_status_is_passed_on_and_the_tree_is_recorded() {
    for way in BOTH_WAYS {
        let scratch = Scratch::new();
        let options = [way, &["--", "sh", "-c", "sleep 1 & wait; exit 7"]].concat();
        assert_eq!(scratch.record(&options).status().unwrap().code(), Some(7));
        assert_eq!(scratch.one::<i64>("SELECT exit_status FROM recording"), 7);
        let count = |of: &str| scratch.one::<i64>(&format!("SELECT count(*) FROM {of}"));
        assert_eq!(count("process WHERE parent IS NULL"), 1);
        assert_eq!(count("process WHERE command LIKE 'sleep%' AND parent = 1"), 1);
        assert_eq!(count("process"), 2);
        assert!(count("sample WHERE pss_bytes IS NOT NULL") > 0);
        assert_eq!(scratch.one::<String>("PRAGMA integrity_check"), "ok");
    }
}

#[test]
fn a_command_that_is_not_there_leaves_no_file() {
    let scratch = Scratch::new();
    let output = scratch.record(&["--", "/no/such/program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("cannot start the command"), "{error}");
    assert_eq!(error.matches("No such file").count(), 1, "{error}");
    assert!(!scratch.file().exists());
}

#[test]
fn a_child_of_five_milliseconds_is_counted() {
    for way in BOTH_WAYS {
        let scratch = Scratch::new();
        let script = "sleep 0.7; sleep 0.005; sleep 0.7; true";
        let options = [way, &["--interval", "500ms", "--", "sh", "-c", script]].concat();
        assert!(scratch.record(&options).status().unwrap().success());
        assert!(scratch.one::<i64>("SELECT max(short_lived) FROM cost") >= 1, "{way:?}");
    }
}

#[test]
fn cpu_of_children_agrees_with_wait4() {
    let script = "import os\n\
        pid = os.fork()\n\
        if pid == 0:\n\
        \x20   while os.times().user + os.times().system < 1.5: sum(range(10000))\n\
        \x20   os._exit(0)\n\
        _, _, used = os.wait4(pid, 0)\n\
        print(pid, used.ru_utime + used.ru_stime)\n";
    for way in BOTH_WAYS {
        let scratch = Scratch::new();
        let options = [way, &["--interval", "300ms", "--", "python3", "-c", script]].concat();
        let output = scratch.record(&options).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (pid, used) = text.trim().split_once(' ').unwrap();
        let used: f64 = used.parse().unwrap();
        let recorded =
            scratch.one::<f64>(&format!("SELECT user_s + system_s FROM process WHERE pid = {pid}"));
        // The kernel counts in clock ticks: one each of user and system time may be missing.
        assert!(
            (recorded - used).abs() <= (0.02 * used).max(0.021),
            "{way:?}: {recorded} s instead of {used} s"
        );
    }
}

#[test]
fn pss_agrees_with_smaps_rollup_read_at_the_same_moment() {
    let script = "import os, time\n\
        block = bytearray(os.urandom(1 << 20)) * 60\n\
        for _ in range(3):\n\
        \x20   if os.fork() == 0: time.sleep(30); os._exit(0)\n\
        print('ready', flush=True)\n\
        time.sleep(30)\n";
    let mut command = Command::new("python3");
    command.args(["-c", script]).stdout(Stdio::piped()).process_group(0);
    let mut target = Guard(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(target.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let root = target.0.id() as i32;
    let scratch = Scratch::new();
    let options = ["--budget", "50%", "--duration", "3s", "--pid", &root.to_string()];
    let mut recorder = Guard(scratch.record(&options).spawn().unwrap());
    eventually("a sample of each", || {
        scratch.file().exists()
            && unbloat(&["show", scratch.file().to_str().unwrap()]).status.success()
            && scratch.pids().len() == 4
    });
    let pids = scratch.pids();
    let kib = |pid: &i32| -> i64 {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
        text.lines().find_map(|l| l.strip_prefix("Pss:")?.trim().strip_suffix(" kB")?.parse().ok()).unwrap()
    };
    let mut read = Vec::new();
    while recorder.0.try_wait().unwrap().is_none() {
        read.push((monotonic_ns(), pids.iter().map(kib).sum::<i64>() * 1024));
        std::thread::sleep(Duration::from_millis(100));
    }
    pids.iter().filter(|&&pid| pid != root).for_each(|&pid| signal("-KILL", pid));
    let started = scratch.one::<i64>("SELECT started_monotonic_ns FROM recording");
    let looks = "FROM sample WHERE pss_bytes IS NOT NULL GROUP BY time_ns ORDER BY";
    // Other programs that share libraries with the target come and go, so only the same moment can be
    // compared.
    let mut off: Vec<f64> = read
        .iter()
        .map(|(at, now)| {
            let near = format!("SELECT sum(pss_bytes) {looks} abs(time_ns - {}) LIMIT 1", at - started);
            (scratch.one::<i64>(&near) - now).unsigned_abs() as f64 / *now as f64
        })
        .collect();
    off.sort_by(f64::total_cmp);
    assert!(off.len() > 10 && off[off.len() / 2] <= 0.01, "{off:?}");
    let sums = scratch
        .one::<i64>(&format!("SELECT sum(rss_bytes) > 2 * sum(pss_bytes) {looks} time_ns DESC LIMIT 1"));
    assert_eq!(sums, 1, "the children share their memory");
}

const DAEMON: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (fork()) { usleep(250000); _exit(0); }
    setsid();
    if (fork()) { usleep(250000); _exit(0); }
    FILE *f = fopen(argv[1], "w");
    fprintf(f, "%d\n", getpid());
    fclose(f);
    sleep(60);
    return 0;
}
"#;

#[test]
fn a_daemon_is_followed_and_ends_with_the_recording() {
    for way in BOTH_WAYS {
        let scratch = Scratch::new();
        let (program, pid_file) = (scratch.compile("daemon", DAEMON, &[]), scratch.path("pid"));
        let words = [program.to_str().unwrap(), pid_file.to_str().unwrap()];
        let options = [way, &["--grace", "2s", "--"], &words].concat();
        let mut recorder = Guard(scratch.record(&options).spawn().unwrap());
        let daemon = pid_in(&pid_file);
        std::thread::sleep(Duration::from_millis(900));
        assert!(is_alive(daemon), "{way:?}: the recording goes on with the daemon");
        signal("-TERM", recorder.0.id() as i32);
        recorder.0.wait().unwrap();
        assert!(!is_alive(daemon), "{way:?}: nothing is left");
        let samples =
            format!("SELECT count(*) FROM sample JOIN process ON process = id WHERE pid = {daemon}");
        assert!(scratch.one::<i64>(&samples) > 3, "{way:?}");
    }
}

#[test]
fn nothing_is_left_when_the_recorder_is_killed() {
    let scratch = Scratch::new();
    let pid_file = scratch.path("pid");
    let script = format!("setsid sh -c 'echo $$ > {0}; exec sleep 60' & sleep 60", pid_file.display());
    let mut recorder = Guard(scratch.record(&["--", "sh", "-c", &script]).spawn().unwrap());
    let orphan = pid_in(&pid_file);
    recorder.0.kill().unwrap();
    recorder.0.wait().unwrap();
    eventually("the end of what was started", || !is_alive(orphan));
}

#[test]
fn detached_commands_stay() {
    let scratch = Scratch::new();
    let pid_file = scratch.path("pid");
    let script = format!("echo $$ > {}; exec sleep 60", pid_file.display());
    let options = ["--detach", "--duration", "700ms", "--", "sh", "-c", &script];
    let status = scratch.record(&options).status().unwrap();
    let pid = pid_in(&pid_file);
    let alive = is_alive(pid);
    signal("-KILL", pid);
    assert!(status.success() && alive);
}

#[test]
fn a_recording_opens_wherever_its_recorder_was_killed() {
    for round in 0..50u64 {
        let scratch = Scratch::new();
        let options = ["--interval", "10ms", "--", "sleep", "60"];
        let mut recorder = Guard(scratch.record(&options).spawn().unwrap());
        eventually("a file", || scratch.file().exists());
        std::thread::sleep(Duration::from_millis(round * 7919 % 1200));
        let killed = monotonic_ns();
        recorder.0.kill().unwrap();
        recorder.0.wait().unwrap();
        let show = Command::new(UNBLOAT).args(["show", "--json"]).arg(scratch.file()).output().unwrap();
        let error = String::from_utf8_lossy(&show.stderr).into_owned();
        // Killed while the file was being created, before anything was recorded; it then says so.
        if error.contains("its creation was cut short") || error.contains("database of another program") {
            continue;
        }
        assert!(show.status.success(), "{error}");
        assert_eq!(scratch.one::<String>("PRAGMA integrity_check"), "ok");
        let started = scratch.one::<i64>("SELECT started_monotonic_ns FROM recording");
        let last = scratch.one::<Option<i64>>("SELECT max(time_ns) FROM sample").unwrap_or(0);
        let lost_ns = killed - started - last;
        assert!(lost_ns < 1_000_000_000, "{lost_ns} ns are lost");
    }
}

#[test]
fn a_bounded_crowd_is_recorded_and_gone_afterwards() {
    for way in BOTH_WAYS {
        let scratch = Scratch::new();
        let script = "i=0; while [ $i -lt 300 ]; do sleep 60 & i=$((i+1)); done; wait";
        let options = [way, &["--duration", "4s", "--grace", "1s", "--", "sh", "-c", script]].concat();
        assert!(scratch.record(&options).status().unwrap().code().is_some());
        let counted = "SELECT count(*) FROM process WHERE command LIKE 'sleep 60%'";
        assert_eq!(scratch.one::<i64>(counted), 300, "{way:?}");
        let left: Vec<i32> = scratch.pids().into_iter().filter(|&pid| is_alive(pid)).collect();
        assert!(left.is_empty(), "{way:?}: {left:?}");
    }
}

#[test]
fn bad_input_is_named() {
    let scratch = Scratch::new();
    let error = |options: &[&str]| {
        let output = scratch.record(options).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error(&["--pid", "2147483646"]).contains("does not exist"));
    assert!(error(&["--name", "^no such name anywhere$"]).contains("no running process matches"));
    assert!(error(&[]).contains("nothing to record"));
    fs::write(scratch.file(), "something else").unwrap();
    assert!(error(&["--", "true"]).contains("exists"));
    let mistyped = scratch.record(&["--pdi", "1"]).output().unwrap();
    assert_eq!(mistyped.status.code(), Some(2), "an option that is none is no command: {mistyped:?}");
    assert_eq!(fs::read_to_string(scratch.file()).unwrap(), "something else");
}

#[test]
fn a_running_recording_can_be_marked_and_is_not_taken_over() {
    let scratch = Scratch::new();
    let options = ["--mark", "version 41", "--", "sleep", "60"];
    let mut recorder = Guard(scratch.record(&options).spawn().unwrap());
    let file = scratch.file().to_str().unwrap().to_owned();
    eventually("samples", || {
        let shown = unbloat(&["show", "--json", &file]);
        let document: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
        document["memory"]["last_bytes"].as_u64().is_some()
    });
    assert!(unbloat(&["mark", &file, "deploy", "42"]).status.success());
    let second = unbloat(&["record", "-o", &file, "--", "true"]);
    assert!(String::from_utf8_lossy(&second.stderr).contains("is being written by process"));
    signal("-TERM", recorder.0.id() as i32);
    assert_eq!(recorder.0.wait().unwrap().code(), Some(143), "the command was ended by SIGTERM");
    assert_eq!(scratch.one::<String>("SELECT group_concat(name) FROM mark"), "version 41,deploy 42");
    assert_eq!(scratch.one::<i64>("SELECT min(time_ns) FROM mark"), 0);
    let late = unbloat(&["mark", &file, "late"]);
    assert!(String::from_utf8_lossy(&late.stderr).contains("is not being recorded any more"));
}

/// Even for a single process the parts are those of its PSS, because it shares its libraries with others.
#[test]
fn the_census_of_one_process_sums_up_to_its_pss() {
    let scratch = Scratch::new();
    let options = ["--duration", "2s", "--budget", "100%", "--census", "100ms", "--", "sleep", "60"];
    assert!(scratch.record(&options).status().unwrap().code().is_some());
    let census = "SELECT sum(proportional_bytes) FROM census GROUP BY time_ns ORDER BY time_ns DESC LIMIT 1";
    let pss = "SELECT pss_bytes FROM sample WHERE pss_bytes IS NOT NULL ORDER BY time_ns DESC LIMIT 1";
    let (parts, pss) = (scratch.one::<i64>(census) as f64, scratch.one::<i64>(pss) as f64);
    // Other processes that map the C library come and go between the two readings.
    assert!((parts - pss).abs() < 0.2 * pss, "{parts} of {pss}");
    let rss = "SELECT sum(bytes) FROM census GROUP BY time_ns ORDER BY time_ns DESC LIMIT 1";
    assert!(parts < 0.8 * scratch.one::<i64>(rss) as f64, "a small program is mostly shared libraries");
    let svg = unbloat(&["plot", "--by", "category", scratch.file().to_str().unwrap()]).stdout;
    assert!(String::from_utf8(svg).unwrap().contains("Composition of memory (PSS)"));
}

/// The parts are those that a purge would return and that are stranded, and no memory is unknown.
#[test]
fn the_census_of_a_jemalloc_has_its_parts() {
    let library = unbloat_test_support::system_library("libjemalloc.so.2").expect("run scripts/deps test");
    let scratch = Scratch::new();
    let options = ["--duration", "3s", "--budget", "100%", "--census", "200ms", "--"];
    let script = "rows = Array.new(60_000) { |i| 'x' * (i % 900) }; \
                  KEPT = rows.each_slice(40).map(&:first); rows = nil; GC.start; sleep";
    let mut command = scratch.record(&options);
    command.arg("env").arg(format!("LD_PRELOAD={}", library.display()));
    command.args(["MALLOC_CONF=dirty_decay_ms:-1", "ruby", "--disable-gems", "-e", script]);
    assert!(command.status().unwrap().code().is_some());
    let last = "SELECT bytes FROM census WHERE time_ns = (SELECT max(time_ns) FROM census) AND category = ";
    for (category, least) in
        [("malloc_live", 1 << 20), ("malloc_trimmable", 1 << 20), ("malloc_stranded", 100 << 10)]
    {
        let bytes = scratch.one::<i64>(&format!("{last}'{category}'"));
        assert!(bytes > least, "{category}: {bytes}");
    }
    // Before the linker has loaded jemalloc there may be a look at `env`, which is glibc's.
    assert_eq!(scratch.one::<i64>("SELECT count(*) FROM census WHERE category = 'allocator_other'"), 0);
}

#[test]
fn the_policy_of_a_process_is_recorded_and_what_of_it_is_not_live() {
    let scratch = Scratch::new();
    let options = ["--duration", "4s", "--budget", "100%", "--census", "100ms", "--"];
    let mut command = scratch.record(&options);
    command.args([UNBLOAT, "run", "--quiet", "--policy", "arenas=2", "--", "sleep", "60"]);
    // glibc gives the tunable precedence.
    command.env("GLIBC_TUNABLES", "glibc.malloc.arena_max=5");
    assert!(command.status().unwrap().code().is_some());
    let runtime = scratch.one::<String>("SELECT runtime FROM process WHERE runtime LIKE '%policy%'");
    let expected = "policy arenas=2 (not all live: glibc's limit of arenas is 5, and should be 2)";
    assert!(runtime.ends_with(expected), "{runtime}");
}

#[test]
fn a_puma_cluster_is_recorded_with_what_it_is_made_of() {
    let scratch = Scratch::new();
    let rackup = scratch.path("config.ru");
    let app = "KEEP = Array.new(20_000) { |i| \"x\" * (i % 300) }\nrun ->(env) { [200, {}, [\"ok\"]] }\n";
    fs::write(&rackup, app).unwrap();
    let socket = format!("unix://{}", scratch.path("puma.sock").display());
    let log = scratch.path("log");
    let mut command = scratch.record(&["--duration", "9s", "--budget", "100%", "--census", "1s", "--log"]);
    command
        .arg(&log)
        .args(["--", "puma", "-w", "2", "-t", "1:2", "-e", "production", "-b", &socket])
        .arg(&rackup);
    let status = command.status().unwrap();
    let log = fs::read_to_string(&log).unwrap();
    assert!(status.code().is_some(), "{log}");
    let workers = "SELECT count(*) FROM process WHERE command LIKE 'puma: cluster worker%'";
    assert!(scratch.one::<i64>(workers) >= 2, "{log}");
    assert!(scratch.one::<i64>("SELECT count(DISTINCT category) FROM census") > 5, "{log}");
    assert!(scratch.one::<i64>("SELECT max(value) FROM counter WHERE name = 'ruby_live_slots'") > 20_000);
    for ending in ["svg", "html", "png", "csv", "json"] {
        let out = scratch.path(&format!("plot.{ending}"));
        let mut plot = Command::new(UNBLOAT);
        plot.arg("plot").arg(scratch.file()).args(["--by", "category", "-o"]).arg(&out);
        assert!(plot.status().unwrap().success(), "{ending}");
        assert!(fs::metadata(&out).unwrap().len() > 500, "{ending}");
    }
}
