//! Processes that cannot be inspected in full: each report states the reason and everything else.

use crate::{BINARY, bytes, document, script, stderr, stdout, unbloat};
use serde_json::Value;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use unbloat_test_support::{Compiler, Program, Target, c_program};

const NOBODY: u32 = 65_534;

/// Returns the only process of a document.
fn only(output: &Output) -> Value {
    document(stdout(output))["processes"][0].clone()
}

fn notes(process: &Value) -> Vec<&str> {
    process["notes"].as_array().unwrap().iter().map(|note| note["code"].as_str().unwrap()).collect()
}

fn category(process: &Value, name: &str) -> i64 {
    let parts = process["census"].as_array().unwrap().iter();
    parts.filter(|part| part["category"] == name).map(|part| bytes(&part["bytes"])).sum()
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

#[test]
fn a_process_that_has_ended() {
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

/// Whenever the process ends, the answer is either a complete census from before, or that it has ended; never
/// a partial census.
#[test]
fn a_process_that_ends_while_it_is_looked_at() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    for milliseconds in [0, 1, 2, 3, 5, 8, 13, 21] {
        let mut target = Target::start_ready(program.command().args(["3", "5000", "3000", "3", "2"]));
        let pid = target.pid().to_string();
        let looking = std::thread::spawn(move || unbloat(&[&pid, "--json", "--no-children"]));
        std::thread::sleep(Duration::from_millis(milliseconds));
        target.kill();
        let output = looking.join().unwrap();
        let document = document(stdout(&output));
        if output.status.success() {
            let process = &document["processes"][0];
            let rss = bytes(&process["rss_bytes"]);
            assert!(rss > 20 << 20 || notes(process) == ["zombie"], "{rss} of some 30 MB: {process}");
        } else {
            assert_eq!(document["failures"][0]["code"], "gone", "{document}");
        }
    }
}

/// Asserts that the answer about an unreadable process has the reason, and the facts that the kernel shows
/// everybody.
fn assert_refused(output: &Output) {
    assert_eq!(output.status.code(), Some(1));
    let process = only(output);
    let said = process["notes"][0]["text"].as_str().unwrap();
    assert!(said.contains("CAP_SYS_PTRACE") && said.contains("--cap-add SYS_PTRACE"), "{said}");
    assert_eq!(notes(&process)[..2], ["not-permitted", "counters-only"]);
    assert!(bytes(&process["rss_bytes"]) > 1 << 20);
    assert_eq!(category(&process, "not_readable"), bytes(&process["rss_bytes"]));
    assert_eq!(process["unattributed_bytes"], 0);
    assert_eq!(process["verdict"][0]["code"], "not-readable");
    assert!(process["command"].as_str().unwrap().len() > 3);
}

#[test]
fn a_process_of_another_user() {
    // Only root can become another user; anybody else already differs from the owner of process 1.
    let target = script();
    let pid = if is_root() { target.pid() } else { 1 };
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(reachable_copy(directory.path()));
    command.args(["inspect", "--no-children", &pid.to_string()]).current_dir("/");
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let text = command.output().unwrap();
    assert_eq!(text.status.code(), Some(1));
    let said = stdout(&text).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("operation not permitted") && said.contains("anonymous memory"), "{said}");
    assert_refused(&command.arg("--json").output().unwrap());
}

/// Like a container without `SYS_PTRACE`: root, with fewer capabilities than the process has. (With
/// `CAP_PERFMON` newer kernels allow reading mappings, but not memory.)
#[test]
fn a_container_without_the_capability() {
    if !is_root() {
        return;
    }
    let target = script();
    let output = Command::new("setpriv")
        .args(["--bounding-set=-all", "--inh-caps=-all", BINARY, "inspect", "--json"])
        .arg(target.pid().to_string())
        .output()
        .unwrap();
    assert_refused(&output);
}

/// Mappings are readable, memory is not: `CAP_PERFMON` permits that since Linux 6.13 (`may_access_mm`,
/// kernel/fork.c), and Yama for the same user. Both for a single process and for one that shares pages with
/// its children.
#[test]
#[allow(clippy::print_stdout)] // a limit of the system is worth a line
fn a_process_of_which_only_the_mappings_may_be_read() {
    if !is_root() {
        return;
    }
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    let mut forked = Target::start_ready(program.command().args(["3", "5000", "3000", "3", "2"]));
    // The child dies with its parent: it waits for a signal that the kernel sends when its parent ends.
    forked.ask("fork");
    for target in [script(), forked] {
        let mut limited = Command::new("setpriv");
        limited.args(["--bounding-set=-sys_ptrace", "--inh-caps=-all"]);
        let pid = target.pid().to_string();
        let may_read = |file: &str| {
            let mut command = Command::new("setpriv");
            command.args(limited.get_args()).args(["head", "-c1"]).arg(format!("/proc/{pid}/{file}"));
            !command.output().unwrap().stdout.is_empty()
        };
        let mappings = may_read("maps");
        limited.args([BINARY, "inspect", "--no-children", "--json", &pid]);
        let output = limited.output().unwrap();
        if !mappings {
            println!("without CAP_SYS_PTRACE this system does not tell the mappings either");
            assert_refused(&output);
            continue;
        }
        assert_eq!(output.status.code(), Some(1));
        let process = only(&output);
        assert_eq!(notes(&process)[0], "not-permitted", "{process}");
        assert!(!notes(&process).contains(&"counters-only"), "{process}");
        assert_eq!(process["unattributed_bytes"], 0, "{process}");
        assert_eq!(category(&process, "not_readable"), 0, "{process}");
        assert!(category(&process, "libraries_shared") > 1 << 20, "{process}");
        assert!(category(&process, "other_anonymous") > 1 << 20, "{process}");
        assert_eq!((&process["allocator"], &process["ruby"]), (&Value::Null, &Value::Null));
    }
}

/// Copies the binary to where everybody may run it.
fn reachable_copy(directory: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = directory.join("unbloat");
    std::fs::copy(BINARY, &copy).unwrap();
    copy
}

#[test]
fn a_thread_of_the_kernel() {
    // In a container PID 2 may be anything, or absent.
    if !std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        return;
    }
    let output = unbloat(&["2", "--no-children"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("kernel thread"), "{}", stdout(&output));
    let process = only(&unbloat(&["2", "--no-children", "--json"]));
    assert_eq!(process["rss_bytes"], 0);
    assert_eq!(notes(&process), ["kernel-thread"]);
}

/// Compilers for aarch64 make no 32-bit programs.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_32_bit_program() {
    let program = Program::build(Compiler::Bits32, c_program("idle32"), &[]);
    let target = Target::start_ready(&mut program.command());
    let output = unbloat(&[&target.pid().to_string(), "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let process = only(&output);
    assert_eq!(notes(&process), ["program-32-bit"]);
    assert_eq!(process["unattributed_bytes"], 0);
    assert!(category(&process, "libraries_shared") > 0, "{process}");
    assert!(category(&process, "thread_stacks") > 0, "{process}");
}

#[test]
fn another_libc_and_no_shared_libraries() {
    for (compiler, source, allocator) in
        [(Compiler::Musl, "idle", "musl"), (Compiler::Static, "idle", "glibc")]
    {
        let program = Program::build(compiler, c_program(source), &[]);
        let target = Target::start_ready(&mut program.command());
        let process = only(&unbloat(&[&target.pid().to_string(), "--json"]));
        assert_eq!(process["allocator"]["name"], allocator, "{compiler:?}");
        assert_eq!(process["unattributed_bytes"], 0, "{process}");
        assert_eq!(process["ruby"], Value::Null);
    }
}

/// Creates a directory with a program and its libraries, in a private place.
fn small_root(program: &Program) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let needed = Command::new("ldd").arg(program.path()).output().unwrap();
    std::fs::create_dir(root.path().join("elsewhere")).unwrap();
    for library in stdout(&needed).split_whitespace().filter(|word| word.starts_with('/')) {
        let name = Path::new(library).file_name().unwrap();
        std::fs::copy(library, root.path().join("elsewhere").join(name)).unwrap();
    }
    std::fs::copy(program.path(), root.path().join("program")).unwrap();
    root
}

/// Like another container: its paths and its PID mean something else here.
#[test]
fn a_process_in_other_namespaces() {
    if !is_root() {
        return;
    }
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    let root = small_root(&program);
    let target = Target::start_ready(
        Command::new("unshare")
            .args(["--pid", "--mount", "--fork", "--kill-child", "chroot"])
            .arg(root.path())
            .args(["/elsewhere/ld-linux-x86-64.so.2", "--library-path", "/elsewhere", "/program"])
            .args(["3", "5000", "3000", "3", "2"]),
    );
    let output = unbloat(&[&target.pid().to_string(), "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let document = document(stdout(&output));
    let process = &document["processes"][1];
    assert_eq!(process["parent"], target.pid(), "{document}");
    assert_eq!(process["unattributed_bytes"], 0);
    assert_eq!(process["notes"].as_array().unwrap().len(), 0, "{process}");
    assert_eq!(process["allocator"]["name"], "glibc");
    assert!(process["allocator"]["evidence"].as_str().unwrap().contains("/elsewhere/libc.so.6"), "{process}");
    let arenas = process["allocator"]["arenas"].as_array().unwrap();
    assert_eq!(arenas.len(), 4);
    let threads = arenas.iter().map(|arena| arena["threads"].as_array().unwrap().len());
    assert_eq!(threads.sum::<usize>(), 4, "each attached to its arena: {process}");
}

#[test]
#[allow(clippy::print_stdout)] // a limit of the system is worth a line
fn ten_thousand_threads() {
    const WANTED: i64 = 10_001;
    let program = Program::build(Compiler::System, c_program("threads"), &[]);
    let mut target = Target::start(program.command().arg((WANTED - 1).to_string()));
    let threads: i64 = target.line().parse().unwrap();
    if threads < WANTED {
        println!("this system allows {threads} threads, and {WANTED} were wanted");
    }
    let output = unbloat(&[&target.pid().to_string(), "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let process = only(&output);
    assert_eq!(process["threads"], threads);
    assert_eq!(process["unattributed_bytes"], 0);
    assert!(category(&process, "thread_stacks") >= threads * 4096, "{}", process["census"]);
    let arenas = process["allocator"]["arenas"].as_array().unwrap();
    let attached: usize = arenas.iter().map(|arena| arena["threads"].as_array().unwrap().len()).sum();
    assert_eq!(attached as i64, threads);
}

#[test]
fn a_ruby_that_is_not_known() {
    let source = format!("const char ruby_version[] = \"9.8.7\";\n{}", c_program("idle"));
    let program = Program::build(Compiler::System, &source, &["-rdynamic"]);
    let target = Target::start_ready(&mut program.command());
    let output = unbloat(&[&target.pid().to_string(), "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let process = only(&output);
    assert_eq!(process["unattributed_bytes"], 0);
    assert_eq!(process["allocator"]["name"], "glibc");
    let said = process["notes"].to_string();
    assert!(said.contains("Ruby 9.8.7"), "{process}");
}
