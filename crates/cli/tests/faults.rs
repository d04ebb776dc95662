//! Every system call of `run`, `trim` and `record` fails in turn, and every allocation: the service lives, what is said is true, and the
//! recording is whole.
//!
//! strace(1) lets the nth call of one kind fail and says that it did. `cargo test` takes an even sample; `make faults` takes more of them.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod recording;

use recording::{Scratch, UNBLOAT};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

/// Calls that end a program, or that have no such errors: glibc takes any result of brk that is high enough for a success, and half
/// of the calls of fcntl give up locks, which always succeeds. futex fails with nothing that is injected here.
const NEVER: [&str; 7] = ["exit", "exit_group", "rt_sigreturn", "execve", "brk", "fcntl", "futex"];

/// A fault: the nth call of one kind.
#[derive(Debug, Clone)]
struct Fault {
    call: String,
    nth: usize,
}

/// Name of the call in a [`Fault`] that is an allocation.
const ALLOCATION: &str = "malloc";

/// Fails the nth allocation of a process called unbloat, and leaves a mark.
const ALLOCATOR: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char *program_invocation_short_name;
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static atomic_long count;
static long nth;
__attribute__((constructor)) static void begin(void) {
    const char *chosen = getenv("FAULT_NTH");
    if (chosen && !strcmp(program_invocation_short_name, "unbloat")) nth = atol(chosen);
}
static int fails(void) {
    if (!nth || atomic_fetch_add(&count, 1) + 1 != nth) return 0;
    close(open(getenv("FAULT_MARK"), O_CREAT | O_WRONLY, 0600));
    errno = ENOMEM;
    return 1;
}
void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void *calloc(size_t m, size_t n) { return fails() ? NULL : __libc_calloc(m, n); }
void *realloc(void *b, size_t n) { return fails() ? NULL : __libc_realloc(b, n); }
"#;

impl Fault {
    /// The error that such a call ends with when the machine is out of something.
    fn error(&self) -> &'static str {
        match self.call.as_str() {
            // Rust's own start takes other errors of poll for the end.
            "poll" | "ppoll" | "recvfrom" | "recvmsg" | "mmap" | "mremap" | "mprotect" | "munmap" => "ENOMEM",
            "clone" | "clone3" | "fork" | "vfork" => "EAGAIN",
            "openat" | "openat2" | "pipe2" | "socket" | "socketpair" | "epoll_create1" => "EMFILE",
            "write" | "writev" | "pwrite64" | "fallocate" | "ftruncate" => "ENOSPC",
            _ => "EIO",
        }
    }
}

/// A command of unbloat under strace, in a scratch directory.
struct Subject<'a> {
    scratch: &'a Scratch,
    arguments: Vec<String>,
}

impl<'a> Subject<'a> {
    fn new(scratch: &'a Scratch, arguments: &[&str]) -> Self {
        Subject { scratch, arguments: arguments.iter().map(ToString::to_string).collect() }
    }

    fn command(&self, fault: Option<&Fault>, log: &Path) -> Command {
        let directory = self.scratch.path("");
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "60"]);
        match fault {
            Some(Fault { call, nth }) if call == ALLOCATION => {
                command.env("LD_PRELOAD", self.scratch.path("allocator.so"));
                command.env("FAULT_NTH", nth.to_string()).env("FAULT_MARK", log);
            }
            fault => {
                command.args(["strace", "-qq", "-s", "8", "-o"]).arg(log);
                let inject = |fault: &Fault| {
                    format!("inject={}:error={}:when={}", fault.call, fault.error(), fault.nth)
                };
                command.args(fault.map(|fault| ["-e".to_owned(), inject(fault)]).into_iter().flatten());
            }
        }
        command.arg(UNBLOAT).args(&self.arguments).current_dir(&directory);
        command.env("XDG_CACHE_HOME", directory.join("cache")).env("XDG_RUNTIME_DIR", &directory);
        command.stdin(Stdio::null());
        command
    }

    /// The faults there can be: one for each call that it makes when nothing fails, until it becomes another program.
    fn faults(&self) -> Vec<Fault> {
        let log = self.scratch.path("strace.log");
        let output = self.command(None, &log).output().expect("run scripts/deps test");
        assert!(output.status.success(), "{output:?}");
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let text = fs::read_to_string(&log).unwrap();
        let calls = text.lines().skip(1).take_while(|line| !line.starts_with("execve("));
        let names = calls.filter_map(|line| line.split_once('(')).map(|(name, _)| name);
        for name in names.filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
        {
            *counts.entry(name).or_default() += 1;
        }
        counts.retain(|name, _| !NEVER.contains(name));
        let faults =
            counts.into_iter().flat_map(|(call, count)| (1..=count).map(move |nth| (call.to_owned(), nth)));
        faults.map(|(call, nth)| Fault { call, nth }).collect()
    }

    /// Runs it with a fault; `None` if that did not come to pass, as may be where calls depend on time.
    fn with(&self, fault: &Fault) -> Option<Output> {
        let log = self.scratch.path(&format!("{}-{}.log", fault.call, fault.nth));
        let output = self.command(Some(fault), &log).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!told.contains("panicked"), "{fault:?}: {told}");
        assert_ne!(output.status.code(), Some(124), "{fault:?}: still running after a minute: {told}");
        let fired = match fs::read_to_string(&log) {
            Ok(text) => fault.call == ALLOCATION || text.contains("(INJECTED)"),
            Err(_) => false,
        };
        let _ = fs::remove_file(&log);
        fired.then_some(output)
    }

    /// Runs a sample of the faults, in the long form a larger one, and hands each outcome on. Says how many came to pass.
    fn sweep(&self, short: usize, prepare: impl Fn(), check: impl Fn(&Fault, &Output)) {
        let long = std::env::var("UNBLOAT_FAULTS_LONG").ok();
        let all = self.faults();
        let wanted = if long.is_some() { short * 25 } else { short };
        let step = all.len().div_ceil(wanted).max(1);
        let mut sample: Vec<Fault> = all.iter().skip(step / 2).step_by(step).cloned().collect();
        // Allocations 1, 2, 3, 5, 8, …, or more of them, up to where there are none any more.
        self.scratch.compile("allocator.so", ALLOCATOR, &["-shared", "-fPIC", "-O1"]);
        let growth = if long.is_some() { 1.05 } else { 2.0 };
        let numbers = std::iter::successors(Some(1.0_f64), |n| Some((n * growth).max(n + 1.0)));
        let numbers = numbers.take_while(|&n| n < 100_000.0);
        sample.extend(numbers.map(|n| Fault { call: ALLOCATION.to_owned(), nth: n as usize }));
        let mut fired = 0;
        for fault in &sample {
            prepare();
            if let Some(output) = self.with(fault) {
                fired += 1;
                check(fault, &output);
            }
        }
        eprintln!(
            "{}: {fired} of {} faults came to pass, of {} calls",
            self.arguments[0],
            sample.len(),
            all.len()
        );
        assert!(fired * 2 > sample.len(), "{fired} of {}", sample.len());
    }
}

/// The fault has hit the dynamic loader, before the program's own first instruction.
fn never_began(output: &Output) -> bool {
    let told = String::from_utf8_lossy(&output.stderr);
    output.status.code() == Some(127) && told.contains("error while loading shared libraries")
}

/// A Ruby that answers each line with what it has in memory.
struct Service {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Service {
    fn start() -> Self {
        let code = "$stdout.sync = true
                    kept = Array.new(40_000) { |i| 'x' * (i % 900) }.each_slice(9).map(&:first); GC.start
                    while gets; kept << 'y' * 70_000; puts kept.sum(&:size) - kept.size; kept.pop; end";
        let mut command = Command::new("ruby");
        command.args(["-e", code]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("run scripts/deps test");
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Service { process, input, output: BufReader::new(output) }
    }

    fn ask(&mut self) -> String {
        writeln!(self.input).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the service has ended");
        line
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Either the command has run, or it is said why not.
#[test]
fn run_starts_the_command_or_says_why_not() {
    let scratch = Scratch::new();
    let subject = Subject::new(&scratch, &["run", "--", "echo", "started"]);
    subject.sweep(
        24,
        || (),
        |fault, output| {
            let started = output.stdout == b"started\n";
            assert_eq!(started, output.status.success(), "{fault:?}: {output:?}");
            assert!(started || !output.stderr.is_empty(), "{fault:?}: {output:?}");
        },
    );
}

#[test]
fn the_target_of_a_trim_is_never_harmed() {
    let scratch = Scratch::new();
    let service = std::cell::RefCell::new(Service::start());
    let before = service.borrow_mut().ask();
    let pid = service.borrow().process.id().to_string();
    let subject = Subject::new(&scratch, &["trim", &pid]);
    subject.sweep(
        24,
        || (),
        |fault, output| {
            assert_eq!(service.borrow_mut().ask(), before, "{fault:?}");
            // Without memory, the program aborts.
            let ended = output.status.code().is_some_and(|code| code <= 1)
                || fault.call == ALLOCATION
                || never_began(output);
            assert!(ended, "{fault:?}: {output:?}");
            let told = !output.stdout.is_empty() || !output.stderr.is_empty();
            assert!(told || fault.call == "write", "{fault:?}: {output:?}");
        },
    );
}

/// The service lives to its own end if it was started, and what was recorded is whole.
#[test]
fn a_recorded_service_never_notices() {
    let scratch = Scratch::new();
    let (file, done) = (scratch.file(), scratch.path("done"));
    let service = "sleep 0.7; echo yes > done";
    let arguments = ["record", "--interval", "20ms", "-o", "a.unbloat", "--", "sh", "-c", service];
    let subject = Subject::new(&scratch, &arguments);
    let clean = || {
        for name in ["a.unbloat", "a.unbloat-wal", "a.unbloat-shm", "done"] {
            let _ = fs::remove_file(scratch.path(name));
        }
    };
    let check = |fault: &Fault, output: &Output| {
        let told = String::from_utf8_lossy(&output.stderr);
        // A recorder that has failed ends before its service.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let started = !told.contains("cannot start") && told.contains("recording sh");
        while started && !done.exists() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(done.exists() || !started && !output.status.success(), "{fault:?}: {output:?}");
        assert!(!told.is_empty() || fault.call == "write", "{fault:?}: {output:?}");
        if file.exists() && fs::metadata(&file).unwrap().len() > 0 {
            assert_eq!(scratch.one::<String>("PRAGMA integrity_check"), "ok", "{fault:?}: {told}");
        }
    };
    subject.sweep(24, clean, check);
}
