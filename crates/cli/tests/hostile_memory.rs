//! Processes that fake their own structures: looking at them costs what they are, not what they claim.
//!
//! Each mode of `hostile.c` is a few megabytes and claims terabytes, or thousands of what there is one of.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use unbloat_test_support::{Compiler, Program, Target, c_program};

/// Of the tool and of each process that it starts, at their largest.
const MOST_MEMORY: u64 = 100 << 20;
/// Processor time of a look at one process, with all that it starts. The processes that made looks endless took seconds to minutes.
const MOST_CPU: Duration = Duration::from_secs(3);
/// Ends a test that hangs; nothing is measured by it.
const HANGS: Duration = Duration::from_secs(120);

/// One test at a time: each look has a limit of time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Modes of the program, with how many of what they fake.
const MODES: [(&str, u32); 18] = [
    ("sparse", 60),
    ("mappings", 65_000),
    ("scattered", 1500),
    ("heaps", 1000),
    ("ring", 1000),
    ("crooked", 10),
    ("libraries", 100_000),
    ("ruby", 1000),
    ("jemalloc", 1000),
    ("chunks", 1000),
    ("relocations", 8),
    ("files", 2000),
    ("fifo", 0),
    ("link", 0),
    ("title", 0),
    ("commandline", 20),
    ("restless", 4),
    ("traced", 0),
];

fn hostile(program: &Program, directory: &Path, mode: &str, count: u32) -> Target {
    let mut command = program.command();
    Target::start_ready(command.arg(mode).arg(count.to_string()).arg(directory))
}

/// A run of the tool: how it ended, what it said, what it took.
struct Run {
    status: i32,
    text: String,
    memory: u64,
    cpu: Duration,
}

fn unbloat(arguments: &[&str]) -> Run {
    run(Command::new(env!("CARGO_BIN_EXE_unbloat")).args(arguments))
}

#[allow(unsafe_code)]
fn run(command: &mut Command) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("output");
    let output = File::create(&path).unwrap();
    command.stdin(Stdio::null()).stderr(output.try_clone().unwrap()).stdout(output);
    #[allow(clippy::zombie_processes)] // waited for below, by wait4, which tells what it used
    let child = command.current_dir(directory.path()).spawn().unwrap();
    let (begun, pid, mut status) = (Instant::now(), child.id() as i32, 0);
    // SAFETY: numbers only, and zeros are a valid value.
    let mut usage: nix::libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: our own child, which nobody else waits for, and places of our own to write to.
        match unsafe { nix::libc::wait4(pid, &raw mut status, nix::libc::WNOHANG, &raw mut usage) } {
            0 if begun.elapsed() < HANGS => std::thread::sleep(Duration::from_millis(2)),
            0 => {
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)
                    .unwrap();
                panic!("{command:?} hangs");
            }
            _ => break,
        }
    }
    assert!(nix::libc::WIFEXITED(status), "{command:?} ended by signal {}", nix::libc::WTERMSIG(status));
    let time = |time: nix::libc::timeval| Duration::new(time.tv_sec as u64, 1000 * time.tv_usec as u32);
    Run {
        status: nix::libc::WEXITSTATUS(status),
        text: String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned(),
        memory: usage.ru_maxrss as u64 * 1024,
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
    }
}

impl Run {
    fn is_bounded(&self, what: &str, looks: u32) {
        assert!([0, 1].contains(&self.status), "{what}: {} {}", self.status, self.text);
        assert!(!self.text.contains("gave up"), "{what}: {}", self.text);
        assert!(self.memory <= MOST_MEMORY, "{what}: {} MiB", self.memory >> 20);
        assert!(self.cpu <= looks * MOST_CPU, "{what}: {:?}", self.cpu);
    }
}

#[test]
fn a_look_costs_what_is_resident_and_not_what_is_claimed() {
    let _alone = alone();
    let program = Program::build(Compiler::System, c_program("hostile"), &[]);
    for (mode, count) in MODES {
        let directory = tempfile::tempdir().unwrap();
        let target = hostile(&program, directory.path(), mode, count);
        let (pid, page) = (target.pid().to_string(), directory.path().join("map.html"));
        let page = page.to_str().unwrap();
        for arguments in [
            &["inspect", &pid][..],
            &["inspect", "--json", &pid],
            &["inspect", "--html", page, &pid],
            &["status", &pid],
            &["trim", "--dry-run", &pid],
        ] {
            let run = unbloat(arguments);
            run.is_bounded(&format!("{mode}: {arguments:?}"), 1);
            if arguments[1] == "--json" {
                let document: serde_json::Value = serde_json::from_str(&run.text).unwrap();
                let process = &document["processes"][0];
                let parts = process["census"].as_array().unwrap().iter();
                let sum: u64 = parts.map(|part| part["bytes"].as_u64().unwrap()).sum();
                let rss = process["rss_bytes"].as_u64().unwrap();
                // What comes and goes during the look is counted where it is seen.
                let moving = if mode == "restless" { 128 << 20 } else { 1 << 20 };
                assert!(sum <= rss + moving, "{mode}: {sum} of {rss}");
            }
        }
    }
}

/// Before Linux 6.7 (`PAGEMAP_SCAN` fails with `ENOTTY` there): the mappings with anything in them are read instead.
#[test]
fn an_older_kernel_tells_enough_to_stay_within_bounds() {
    let _alone = alone();
    let program = Program::build(Compiler::System, c_program("hostile"), &[]);
    for (mode, count) in [("mappings", 5000), ("scattered", 1500), ("heaps", 50), ("ring", 50), ("title", 0)]
    {
        let directory = tempfile::tempdir().unwrap();
        let target = hostile(&program, directory.path(), mode, count);
        let mut command = Command::new("strace");
        command.args([
            "-qq",
            "-f",
            "-o",
            "/dev/null",
            "-e",
            "trace=ioctl",
            "-e",
            "inject=ioctl:error=ENOTTY",
        ]);
        command.arg(env!("CARGO_BIN_EXE_unbloat")).args(["inspect", "--json", &target.pid().to_string()]);
        let run = run(&mut command);
        run.is_bounded(mode, 2);
        assert!(run.text.contains("\"zero-pages\""), "{mode}: {}", run.text);
    }
}

/// All of them together, so that what is shared is looked at, too.
#[test]
fn a_recording_of_hostile_processes_goes_on() {
    let _alone = alone();
    let program = Program::build(Compiler::System, c_program("hostile"), &[]);
    let directory = tempfile::tempdir().unwrap();
    let modes = MODES.iter().filter(|(mode, _)| !["mappings", "files"].contains(mode));
    let targets: Vec<Target> =
        modes.map(|(mode, count)| hostile(&program, directory.path(), mode, *count)).collect();
    let file = directory.path().join("a.unbloat");
    let file = file.to_str().unwrap();
    let pids: Vec<String> = targets.iter().map(|target| target.pid().to_string()).collect();
    let mut arguments = vec!["record", "--duration", "3s", "--census", "1s", "--budget", "50%", "-o", file];
    arguments.extend(pids.iter().flat_map(|pid| ["--pid", pid.as_str()]));
    let run = unbloat(&arguments);
    assert_eq!(run.status, 0, "{}", run.text);
    assert!(run.memory <= MOST_MEMORY, "{} MiB", run.memory >> 20);
    let shown = unbloat(&["show", "--json", file]);
    let document: serde_json::Value = serde_json::from_str(&shown.text).unwrap();
    assert_eq!(document["end_reason"], "the duration was over", "{document}");
    let looked: Vec<&str> = pids.iter().map(String::as_str).collect();
    unbloat(&[&["inspect"], &looked[..]].concat()).is_bounded("all of them", looked.len() as u32);
}

/// Neither waited for, nor read: what lies behind the name of a mapped file by now.
#[test]
fn what_replaces_a_mapped_file_is_never_opened() {
    let _alone = alone();
    let program = Program::build(Compiler::System, c_program("hostile"), &[]);
    let directory = tempfile::tempdir().unwrap();
    let target = hostile(&program, directory.path(), "fifo", 0);
    let pid = target.pid().to_string();
    // A writer that is there makes even an opening without blocking a success: the FIFO would be read.
    let fifo = directory.path().join("libfifo.so");
    let writer = File::options().read(true).write(true).open(fifo).unwrap();
    std::io::Write::write_all(&mut &writer, b"\x7fELF").unwrap();
    for arguments in [&["inspect", &pid][..], &["status", &pid], &["trim", "--dry-run", &pid]] {
        unbloat(arguments).is_bounded(&format!("{arguments:?}"), 1);
    }
    let mut left = [0; 8];
    assert_eq!(std::io::Read::read(&mut &writer, &mut left).unwrap(), 4, "nobody has read from it");
}

/// A real Ruby that has overwritten its own objects: `names` lead into themselves, `lengths` are larger than any memory, `noise` is
/// anything anywhere.
const RUBY: &str = r#"
require "fiddle"
GC.disable
way, seed = ARGV
random = Random.new(seed.to_i)
class First; end
class Second < First; end
class Third < Second; end
KEPT = [Array.new(2_000) { |i| "text #{i} " * 5 }, Array.new(500) { |i| [i] * 40 }, Array.new(500) { |i| { i => i.to_s * 30 } },
        Array.new(500) { Third.new }, Array.new(50) { |i| eval("->(a) { a + #{i} }") }]
OBJECTS = KEPT.flatten(1).map { |object| Fiddle.dlwrap(object) }
CLASSES = [First, Second, Third].map { |one| Fiddle.dlwrap(one) }
NAMES = [First, Second, Third].map { |one| Fiddle.dlwrap(one.name) }
PUT = ->(at, value) { Fiddle::Pointer.new(at, 8)[0, 8] = [value & (1 << 64) - 1].pack("Q") }
case way
when "names"
  CLASSES.each_with_index { |at, i| PUT.(at + 16, CLASSES[(i + 1) % 3]) }
  NAMES.each_with_index { |at, i| PUT.(at + 8, NAMES[(i + 1) % 3]); PUT.(at + 24, NAMES[(i + 2) % 3]) }
  OBJECTS.each_with_index { |at, i| PUT.(at + 8, i.even? ? at : CLASSES[i % 3]) }
when "lengths"
  (OBJECTS + NAMES).each { |at| PUT.(at + 16, 1 << 60); PUT.(at + 24, at & ~0xffff) }
when "noise"
  around = OBJECTS + CLASSES + NAMES
  20_000.times do
    at = around[random.rand(around.size)] + 8 * random.rand(5)
    PUT.(at, [random.rand(1 << 64), around[random.rand(around.size)] + 8 * random.rand(8), random.rand(1 << 12) << random.rand(52)][random.rand(3)])
  end
end
IO.for_fd(1).syswrite("ready\n")
IO.for_fd(0).sysread(1)
"#;

/// Names that lead into themselves, lengths without end, and noise: the closer looks end, too, and say something.
#[test]
fn a_ruby_that_has_overwritten_its_own_objects_is_looked_at_within_bounds() {
    let _alone = alone();
    for (way, seed) in [("names", "0"), ("lengths", "0"), ("noise", "1"), ("noise", "2"), ("noise", "3")] {
        let mut command = Command::new("ruby");
        let mut target = Target::start(command.args(["--disable-gems", "-e", RUBY, way, seed]));
        assert_eq!(target.line(), "ready", "{way} {seed}");
        let pid = target.pid().to_string();
        for arguments in [
            &["inspect", "--json", &pid][..],
            &["objects", &pid],
            &["code", &pid],
            &["holds", &pid],
            &["status", &pid],
            &["trim", "--dry-run", &pid],
        ] {
            unbloat(arguments).is_bounded(&format!("{way} {seed}: {arguments:?}"), 3);
        }
        target.kill();
    }
}
