//! jemalloc in all the ways in which it comes, and does not come, into a Ruby server.

use crate::puma::Puma;
use crate::{SCRIPT, bytes, document, ruby, stderr, stdout, unbloat};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use unbloat_test_support::{
    Compiler, Program, Target, TargetDirectory, c_program, ruby_executable, system_library, target_command,
};

fn library() -> PathBuf {
    system_library("libjemalloc.so.2").expect("libjemalloc.so.2 is missing: run scripts/deps test")
}

fn look(pid: i32) -> Value {
    let output = unbloat(&[&pid.to_string(), "--json", "--no-children"]);
    assert!(output.status.success(), "{}", stderr(&output));
    document(stdout(&output))["processes"][0].take()
}

fn codes(process: &Value) -> Vec<&str> {
    process["verdict"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

/// The finding with this code; the test ends without one.
fn finding<'a>(process: &'a Value, code: &str) -> &'a str {
    let all = process["verdict"].as_array().unwrap();
    let found = all.iter().find(|finding| finding["code"] == code);
    found.unwrap_or_else(|| panic!("no {code}: {all:#?}"))["text"].as_str().unwrap()
}

#[test]
fn a_jemalloc_that_is_not_there_is_named() {
    let mut command = ruby(&[], SCRIPT);
    let target = Target::start_ready(command.env("LD_PRELOAD", "/nowhere/lib/libjemalloc.so.2"));
    let process = look(target.pid());
    assert_eq!(process["allocator"]["name"], "glibc");
    let text = finding(&process, "jemalloc-not-loaded");
    assert!(
        text.contains("LD_PRELOAD asks for a jemalloc") && text.contains("the file is not there"),
        "{text}"
    );
}

/// As on Alpine: musl takes no library of glibc's, and none that is not there.
#[test]
fn a_jemalloc_that_musl_does_not_load_is_named() {
    let program = Program::build(Compiler::Musl, c_program("idle"), &[]);
    let mut command = program.command();
    let target = Target::start_ready(command.env("LD_PRELOAD", "/nowhere/lib/libjemalloc.so.2"));
    let process = look(target.pid());
    assert_eq!(process["allocator"]["name"], "musl");
    assert!(finding(&process, "jemalloc-not-loaded").contains("linked with musl (Alpine)"), "{process}");
}

/// ld.so ignores a library with a path where the program has more rights than its user. Only root can look at such a process.
#[test]
fn a_jemalloc_that_a_setuid_program_does_not_load_is_named() {
    let directory = TargetDirectory::new();
    if !nix::unistd::geteuid().is_root() || std::env::var_os("UNBLOAT_TEST_ROOT").is_some() {
        return;
    }
    let program = Program::build(Compiler::System, c_program("idle"), &[]);
    let setuid = directory.outside().join("setuid");
    std::fs::copy(program.path(), &setuid).unwrap();
    for (path, mode) in [(directory.outside(), 0o755), (&setuid, 0o4755)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups", "env"]);
    command.arg(format!("LD_PRELOAD={}", library().display())).arg(&setuid);
    let target = Target::start_ready(&mut command);
    let process = look(target.pid());
    assert_eq!(process["allocator"]["name"], "glibc");
    assert!(finding(&process, "jemalloc-not-loaded").contains("setuid"), "{process}");
}

/// The program `ruby`, linked with jemalloc as `./configure --with-jemalloc` links it.
const RUBY_MAIN: &str = "
    void ruby_sysinit(int *, char ***); void ruby_init_stack(void *); void ruby_init(void);
    void *ruby_options(int, char **); int ruby_run_node(void *);
    int main(int count, char **words) {
        void *here;
        ruby_sysinit(&count, &words);
        ruby_init_stack(&here);
        ruby_init();
        return ruby_run_node(ruby_options(count, words));
    }";

#[test]
fn a_ruby_that_is_linked_with_jemalloc_is_accounted_for() {
    let mut asked = target_command(ruby_executable());
    let named = asked.args(["-rrbconfig", "-e", "print RbConfig::CONFIG['LIBRUBY_SO']"]).output().unwrap();
    let libruby = system_library(stdout(&named)).expect("this Ruby has a shared library of its own");
    let libruby = format!("-l:{}", libruby.file_name().unwrap().to_str().unwrap());
    let program =
        Program::build(Compiler::System, RUBY_MAIN, &["-Wl,--no-as-needed", "-l:libjemalloc.so.2", &libruby]);
    let mut command = program.command();
    let target = Target::start_ready(command.args(["--disable-gems", "-e", SCRIPT]));
    let process = look(target.pid());
    assert_eq!(process["allocator"]["name"], "jemalloc");
    assert_eq!(process["unattributed_bytes"], 0, "{process}");
    assert!(process["ruby"]["live_slots"].as_u64() > Some(1500), "{process}");
    assert!(bytes(&process["bloat_bytes"]) > 1 << 20, "{process}");
    assert!(codes(&process).contains(&"jemalloc-defaults"), "{process}");
}

#[test]
fn a_stopped_jemalloc_is_exact_however_busy() {
    let program = Program::build(Compiler::System, c_program("jemalloc"), &["-ldl"]);
    let mut target = Target::start_ready(program.command().env("LD_PRELOAD", library()).args(["4", "8"]));
    target.ask("busy");
    let pid = target.pid().to_string();
    for _ in 0..5 {
        let output = unbloat(&[&pid, "--stop", "--json"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let process = &document(stdout(&output))["processes"][0];
        let census = process["census"].as_array().unwrap();
        let unsettled = census.iter().find(|part| part["category"] == "unsettled");
        assert!(unsettled.is_none_or(|part| part["bytes"] == 0), "{process}");
        assert!(
            process["stopped_s"].as_f64() > Some(0.0) && process["bloat_bytes"].as_u64().is_some(),
            "{process}"
        );
    }
    target.ask("quiet");
    assert_eq!(target.ask("live"), "intact");
}

/// Threads of the master that hold something in their caches when workers are forked.
const THREADS_OF_THE_MASTER: &str = "
    READY = Queue.new
    16.times { Thread.new { 30.times { Array.new(500) { |i| 'x' * (i * 2 % 900) } }; GC.start; READY << 1; sleep } }
    16.times { READY.pop }";

#[test]
fn workers_of_a_cluster_say_what_the_fork_has_left_behind() {
    let library = library();
    let environment =
        [("LD_PRELOAD", library.to_str().unwrap()), ("MALLOC_CONF", "background_thread:true,narenas:2")];
    let puma = Puma::of(THREADS_OF_THE_MASTER, &environment);
    let master = look(puma.master.pid());
    assert_eq!(master["allocator"]["name"], "jemalloc");
    assert!(!codes(&master).contains(&"jemalloc-background-thread"), "{master}");
    for &worker in &puma.workers {
        let process = look(worker);
        assert_eq!(process["unattributed_bytes"], 0, "{process}");
        // Its thread is the master's: nobody purges here.
        let text = finding(&process, "jemalloc-background-thread");
        assert!(text.contains("a fork leaves it behind"), "{text}");
        let notes = process["notes"].as_array().unwrap();
        let lost = notes.iter().find(|note| note["code"] == "caches-forgotten");
        let text = lost.unwrap_or_else(|| panic!("{notes:#?}"))["text"].as_str().unwrap();
        assert!(text.contains("stay allocated forever") && text.contains("threads of the parent"), "{text}");
    }
}
