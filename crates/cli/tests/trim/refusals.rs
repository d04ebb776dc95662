//! Processes that a trim leaves alone, with the reasons. Nothing is done to any of them.

use super::{assert_outcome, trim, unbloat};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use unbloat_test_support::{Compiler, Program, Target};

/// A heap with something to trim, followed by the behavior named in the argument.
const THEN: &str = r#"
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
static void ready(void) {
    if (write(1, "ready\n", 6) != 6) abort(); // the only calls that strict seccomp allows
}
static void on_signal(int s) {
    (void)s;
    ready();
    pause();
}
static void filter(void) {
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) abort();
}
static void *filtered(void *unused) {
    filter();
    ready();
    for (;;) pause();
    return unused;
}
int main(int argc, char **argv) {
    static char *block[2000];
    const char *then = argc > 1 ? argv[1] : "wait";
    for (int i = 0; i < 2000; i++) memset(block[i] = malloc(9000), 1, 9000);
    for (int i = 0; i < 2000; i++) if (i % 8) free(block[i]);
    signal(SIGUSR1, on_signal);
    if (!strcmp(then, "handler")) raise(SIGUSR1);
    if (!strcmp(then, "filter")) filter();
    if (!strcmp(then, "strict") && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) {
        ready();
        for (char c;;) read(0, &c, 1);
    }
    pthread_t thread;
    if (!strcmp(then, "filtered thread")) {
        pthread_create(&thread, 0, filtered, 0);
        for (;;) pause();
    }
    ready();
    if (!strcmp(then, "spin")) for (volatile long i = 0;; i++) {}
    if (!strcmp(then, "vfork") && vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dprintf(1, "%d\n", getpid());
        for (;;) pause();
    }
    for (;;) pause();
}
"#;

/// Starts the program above and waits until it behaves as `then` says.
fn start(program: &Program, then: &str) -> Target {
    Target::start_ready(program.command().arg(then))
}

fn then() -> Program {
    Program::build(Compiler::System, THEN, &[])
}

/// Trims until the outcome has this reason, because on a busy machine the program may not be waiting yet, and
/// another reason comes first.
fn trim_until(pid: i32, options: &[&str], outcome: &str, why: &str) -> Output {
    let mut last = Value::Null;
    for _ in 0..20 {
        let (output, process) = trim(pid, options);
        if process["outcome"] == outcome && process["reason"].as_str().unwrap_or("").contains(why) {
            assert!(process["returned_bytes"].is_null(), "{process}");
            return output;
        }
        last = process;
    }
    panic!("never {outcome} with the reason {why:?}: {last}");
}

fn assert_refused(pid: i32, options: &[&str], why: &str) {
    let output = trim_until(pid, &[&["--timeout", "0.3"], options].concat(), "refused", why);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(why));
}

fn assert_unsupported(pid: i32, why: &str) {
    assert!(trim_until(pid, &[], "unsupported", why).status.success());
}

#[test]
fn a_thread_that_never_waits_is_waited_for_until_the_timeout() {
    assert_refused(start(&then(), "spin").pid(), &[], "no safe point within");
}

#[test]
fn a_signal_handler_that_waits_is_not_borrowed() {
    assert_refused(start(&then(), "handler").pid(), &[], "inside a signal handler");
}

#[test]
fn a_process_that_is_traced_or_stopped_is_refused() {
    use nix::sys::{ptrace, signal};
    let program = then();
    let traced = start(&program, "wait");
    let pid = nix::unistd::Pid::from_raw(traced.pid());
    ptrace::seize(pid, ptrace::Options::empty()).unwrap();
    assert_refused(traced.pid(), &["--yes"], "it is traced by process");
    let stopped = start(&program, "wait");
    let pid = nix::unistd::Pid::from_raw(stopped.pid());
    signal::kill(pid, signal::Signal::SIGSTOP).unwrap();
    nix::sys::wait::waitpid(pid, Some(nix::sys::wait::WaitPidFlag::WUNTRACED)).unwrap();
    assert_refused(stopped.pid(), &[], "the process is stopped");
}

#[test]
fn a_seccomp_filter_is_trusted_only_when_the_user_says_so() {
    let program = then();
    let filtered = start(&program, "filter");
    assert_refused(filtered.pid(), &[], "a seccomp filter restricts");
    let (_, process) = trim(filtered.pid(), &["--yes"]);
    assert_outcome(&process, "trimmed");
    let one_thread = start(&program, "filtered thread");
    assert_refused(one_thread.pid(), &[], "a seccomp filter restricts");
}

#[test]
fn strict_seccomp_is_refused_whatever_the_user_says() {
    let mut strict = start(&then(), "strict");
    assert_refused(strict.pid(), &["--yes"], "strict mode");
    strict.tell("it still reads");
    assert_refused(strict.pid(), &[], "strict mode");
}

#[test]
fn a_child_of_vfork_is_refused_while_it_has_its_parents_memory() {
    let mut parent = start(&then(), "vfork");
    let child = parent.line().parse().unwrap();
    assert_refused(child, &["--yes"], "shares its memory with its parent");
    // The parent waits in vfork, which is not on the list.
    assert_refused(parent.pid(), &[], "no safe point within");
}

#[test]
fn unbloat_refuses_itself() {
    let output = Command::new("sh")
        .args(["-c", r#"exec "$0" trim --json $$"#, env!("CARGO_BIN_EXE_unbloat")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_outcome(&document["processes"][0], "refused");
    assert!(String::from_utf8_lossy(&output.stderr).contains("this is Unbloat itself"));
}

#[test]
fn init_of_the_host_is_refused() {
    // The inode of the initial PID namespace, include/linux/proc_ns.h.
    if std::fs::read_link("/proc/self/ns/pid").unwrap() != Path::new("pid:[4026531836]") {
        return eprintln!("left out: not in the host's PID namespace");
    }
    assert_refused(1, &["--dry-run"], "PID 1 of the host is left alone");
}

#[test]
fn init_of_a_container_is_a_process_like_any_other() {
    if !nix::unistd::geteuid().is_root() || std::env::var_os("UNBLOAT_TEST_ROOT").is_some() {
        return eprintln!(
            "left out: needs root, for a PID namespace, and Unbloat and the program in one root"
        );
    }
    let program = then();
    let directory = tempfile::tempdir().unwrap();
    let answer = directory.path().join("answer");
    // Unbloat inside the namespace; the shell becomes the program, as PID 1.
    let script = r#"(until [ -e "$1.go" ]; do sleep 0.05; done; "$0" trim --json --no-children 1 > "$1.new"; mv "$1.new" "$1") & exec "$2" wait"#;
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]);
    command.args([Path::new(env!("CARGO_BIN_EXE_unbloat")), &answer, program.path()]);
    let _container = Target::start_ready(&mut command);
    std::fs::write(directory.path().join("answer.go"), "").unwrap();
    let text = loop {
        match std::fs::read(&answer) {
            Ok(text) => break text,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let document: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(document["processes"][0]["pid"], 1);
    assert_outcome(&document["processes"][0], "trimmed");
}

/// A control group of ours with a freezer, of either version; thawed and removed when dropped.
struct Freezer {
    group: PathBuf,
    thaw: (&'static str, &'static str),
}

impl Freezer {
    fn with(pid: i32) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let (at, old) = mounts.lines().find_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            [_, at, "cgroup2", ..] => Some((at, false)),
            [_, at, "cgroup", options, ..] if options.split(',').any(|o| o == "freezer") => Some((at, true)),
            _ => None,
        })?;
        let group = Path::new(at).join(format!("unbloat-test-{pid}"));
        std::fs::create_dir(&group).ok()?;
        let thaw = if old { ("freezer.state", "THAWED") } else { ("cgroup.freeze", "0") };
        let freezer = Freezer { group, thaw };
        std::fs::write(freezer.group.join("cgroup.procs"), pid.to_string()).ok()?;
        std::fs::write(freezer.group.join(thaw.0), if old { "FROZEN" } else { "1" }).ok()?;
        let (state, frozen) = if old { ("freezer.state", "FROZEN") } else { ("cgroup.events", "frozen 1") };
        while !std::fs::read_to_string(freezer.group.join(state)).ok()?.contains(frozen) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(freezer)
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = std::fs::write(self.group.join(self.thaw.0), self.thaw.1);
        // The process moves out, since a group can only be removed when it is empty.
        for pid in std::fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = std::fs::write(self.group.with_file_name("cgroup.procs"), pid);
        }
        let _ = std::fs::remove_dir(&self.group);
    }
}

#[test]
fn a_frozen_control_group_is_refused() {
    let target = start(&then(), "wait");
    let Some(freezer) = Freezer::with(target.pid()) else {
        return eprintln!("left out: no control group with a freezer can be made here");
    };
    assert_refused(target.pid(), &["--yes"], "its control group is frozen");
    drop(freezer);
    let (_, process) = trim(target.pid(), &[]);
    assert_outcome(&process, "trimmed");
}

#[test]
fn an_allocator_in_the_program_itself_another_libc_and_32_bits_are_left_alone_and_said_so() {
    let pauses = "#include <unistd.h>\nint main() { for (;;) pause(); }";
    let idle = |compiler, source, flags: &[&str]| {
        let program = Program::build(compiler, source, flags);
        (Target::start(&mut program.command()), program)
    };
    if std::env::var_os("UNBLOAT_TEST_ROOT").is_none() {
        assert_unsupported(idle(Compiler::Musl, pauses, &[]).0.pid(), "musl");
    }
    let fixed = Program::build(Compiler::Static, THEN, &[]);
    assert_unsupported(start(&fixed, "wait").pid(), "linked into the program itself");
    // No 32-bit libc is needed for this one. Compilers for aarch64 make no 32-bit programs.
    if cfg!(target_arch = "x86_64") {
        let bare = r#"void _start(void) { for (;;) __asm__ volatile("int $0x80" ::"a"(29)); }"#;
        let flags = ["-nostdlib", "-static", "-ffreestanding"];
        assert_unsupported(idle(Compiler::Bits32, bare, &flags).0.pid(), "32-bit");
    }
}

#[test]
fn a_process_that_does_not_exist_is_an_error() {
    let output = unbloat(i32::MAX, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("does not exist"));
}
