//! Programs that are not an ordinary Ruby, and places that cannot be written to.

use crate::home::*;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn the_library_is_harmless_in_a_process_that_is_no_ruby() {
    let home = Home::new();
    let directory = home.0.path().join("lib");
    assert!(home.unbloat(&["install", directory.to_str().unwrap()]).status().unwrap().success());
    for library in ["libunbloat.so", "libunbloat-jemalloc.so"] {
        let mut shell = Command::new("sh");
        home.isolate(&mut shell);
        let output = shell
            .args(["-c", "echo fine | cat"])
            .env("LD_PRELOAD", directory.join(library))
            .output()
            .unwrap();
        assert_eq!((stdout(&output), stderr(&output)), ("fine\n", ""), "{library}");
    }
}

/// Prints a greeting and becomes the program named by its arguments.
const HELLO: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
    puts("hello");
    fflush(stdout);
    if (count > 1) execvp(words[1], words + 1);
    return 0;
}
"#;

fn compile(compiler: &str, program: &Path, text: &str, arguments: &[&str]) {
    let source = program.with_extension("c");
    fs::write(&source, text).unwrap();
    let built = Command::new(compiler).arg("-o").arg(program).arg(&source).args(arguments).status().unwrap();
    assert!(built.success(), "{compiler} is missing or failed: run scripts/deps test");
}

#[test]
fn a_static_program_is_named_and_a_ruby_below_it_has_the_rest_of_the_policy() {
    let home = Home::new();
    let program = home.0.path().join("hello");
    compile("gcc", &program, HELLO, &["-static"]);
    let output = home
        .unbloat(&["run", "--", program.to_str().unwrap(), "ruby", "-e"])
        .arg("puts Unbloat.status[:policy], Unbloat.status[:allocator][/\\w+/]")
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "hello\ntrim=adaptive\nglibc\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("hello is statically linked"), "{}", stderr(&output));
}

#[test]
fn a_musl_program_is_named_and_nothing_is_loaded_below_it() {
    let home = Home::new();
    let program = home.0.path().join("hello");
    compile("musl-gcc", &program, HELLO, &[]);
    let output = home
        .unbloat(&["run", "--policy", "lean,arenas=2", "--", program.to_str().unwrap(), "ruby", "-e"])
        .arg("p defined?(Unbloat), ENV['LD_PRELOAD'], ENV['MALLOC_ARENA_MAX']")
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "hello\nnil\nnil\n\"2\"\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("hello runs on musl"), "{}", stderr(&output));
}

/// A program that prints the allocator that serves it, and whether one of our libraries is mapped.
const WHO_SERVES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
int main(void) {
    const char *version = "none";
    size_t size = sizeof version;
    if (mallctl) mallctl("version", &version, &size, NULL, 0);
    char line[512];
    int ours = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) ours |= strstr(line, "libunbloat") != NULL;
    free(malloc(100000));
    printf("%.5s %s\n", version, ours ? "with us" : "without us");
    return 0;
}
"#;

/// Builds [`WHO_SERVES`], with additional compiler arguments.
fn who_serves(home: &Home, arguments: &[&str]) -> PathBuf {
    let program = home.0.path().join("who");
    compile("gcc", &program, WHO_SERVES, arguments);
    program
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_setuid_program_is_named_and_runs_without_us() {
    if !is_root() {
        eprintln!("left out: only root can make a program that is setuid for another user");
        return;
    }
    const NOBODY: u32 = 65_534;
    let home = Home::new();
    let program = who_serves(&home, &[]);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    fs::set_permissions(home.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let unbloat = home.0.path().join("unbloat");
    fs::copy(env!("CARGO_BIN_EXE_unbloat"), &unbloat).unwrap();
    let cache = home.0.path().join("nobody");
    fs::create_dir(&cache).unwrap();
    std::os::unix::fs::chown(&cache, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new(&unbloat);
    home.isolate(&mut command);
    command.args(["run", "--"]).arg(&program).env("XDG_CACHE_HOME", &cache).env_remove("XDG_RUNTIME_DIR");
    let output = command.uid(NOBODY).gid(NOBODY).current_dir("/").output().unwrap();
    assert_eq!(stdout(&output), "none without us\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("setuid"), "{}", stderr(&output));
}

#[test]
fn a_program_with_a_jemalloc_of_its_own_is_named_and_served_by_ours() {
    let home = Home::new();
    let theirs = unbloat_test_support::system_library("libjemalloc.so.2").expect("run scripts/deps test");
    let program = who_serves(&home, &[theirs.to_str().unwrap()]);
    let plain = Command::new(&program).output().unwrap();
    assert_eq!(stdout(&plain), "5.3.0 without us\n");
    let output = home.unbloat(&["run", "--"]).arg(&program).output().unwrap();
    assert_eq!(stdout(&output), "5.3.1 with us\n");
    assert!(stderr(&output).contains("jemalloc of its own"), "{}", stderr(&output));
}

/// The structure of `ruby` itself: a `main` on top of libruby (main.c of CRuby).
const RUBY: &str = r#"
extern void ruby_sysinit(int *, char ***);
extern void ruby_init_stack(void *);
extern void ruby_init(void);
extern void *ruby_options(int, char **);
extern int ruby_run_node(void *);
int main(int count, char **words) {
    void *stack;
    ruby_sysinit(&count, &words);
    ruby_init_stack(&stack);
    ruby_init();
    return ruby_run_node(ruby_options(count, words));
}
"#;

#[test]
fn a_ruby_with_a_jemalloc_of_its_own_is_named_and_trimmed_through_it() {
    let home = Home::new();
    let libraries = Command::new("sh").args(["-c", "ldd \"$(command -v ruby)\""]).output().unwrap();
    let libruby =
        stdout(&libraries).split_whitespace().find(|word| word.starts_with("/") && word.contains("libruby"));
    let theirs = unbloat_test_support::system_library("libjemalloc.so.2").expect("run scripts/deps test");
    let program = home.0.path().join("ruby");
    compile("gcc", &program, RUBY, &[libruby.unwrap(), "-Wl,--no-as-needed", theirs.to_str().unwrap()]);
    for (policy, served) in [("lean", "jemalloc 5.3.1"), ("trim=every", "jemalloc 5.3.0")] {
        let output = home
            .unbloat(&["run", "--policy", policy, "--", program.to_str().unwrap(), "-e"])
            .arg(with_helpers("GC.start; Unbloat.trim; puts Unbloat.status.values_at(:policy, :allocator)"))
            .output()
            .unwrap();
        assert_eq!(stdout(&output), format!("{policy}\n{served}\n"), "{}", stderr(&output));
        assert!(stderr(&output).contains("jemalloc of its own"), "{}", stderr(&output));
    }
}

#[test]
fn the_runtime_works_above_an_allocator_that_the_user_preloads() {
    let home = Home::new();
    let theirs =
        unbloat_test_support::system_library("libtcmalloc_minimal.so.4").expect("run scripts/deps test");
    let output = home
        .unbloat(&["run", "--policy", "trim=every", "--", "ruby", "-e"])
        .arg("100_000.times { 'x' * 100 }; GC.start; Unbloat.trim; puts Unbloat.status[:gc_count] > 0, Unbloat.status[:allocator]")
        .env("LD_PRELOAD", &theirs)
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "true\nunknown (libtcmalloc_minimal.so.4)\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("libtcmalloc_minimal.so.4"), "{}", stderr(&output));
}

/// Root's umask is that of a hardened machine, and its home is closed to others as usual.
#[test]
fn what_root_starts_may_give_up_root_and_start_another_ruby() {
    if !is_root() {
        eprintln!("left out: only root can become another user");
        return;
    }
    let home = Home::new();
    let mut shell = Command::new("unshare");
    home.isolate(&mut shell);
    let output = shell
        .env_remove("XDG_CACHE_HOME")
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg("mount -t tmpfs -o mode=755 tmpfs /var/cache && mount -t tmpfs tmpfs /dev/shm && umask 077 && exec \"$@\"")
        .args(["sh", env!("CARGO_BIN_EXE_unbloat"), "run", "--", "ruby", "-e"])
        .arg("puts IO.popen(['ruby', '-e', 'print Process.uid, Unbloat.status[:policy]'], uid: 65_534, &:read)")
        .output()
        .unwrap();
    assert_eq!((stdout(&output), stderr(&output)), ("65534lean\n", ""));
}

#[test]
fn a_cache_that_is_full_or_cannot_be_used_names_the_alternatives() {
    if !is_root() {
        eprintln!("left out: only root can mount a file system to be filled");
        return;
    }
    for (options, cause) in
        [("size=64k", "No space left"), ("ro", "Read-only file system"), ("noexec", "mounted noexec")]
    {
        let home = Home::new();
        let cache = home.0.path().join("cache");
        fs::create_dir(&cache).unwrap();
        let mut shell = Command::new("unshare");
        home.isolate(&mut shell);
        let script = r#"mount -t tmpfs -o "$1" tmpfs "$2" && { "$3" run -- true; echo "$?"; find "$2" -name "*jemalloc*"; }"#;
        let output = shell
            .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh", options])
            .arg(&cache)
            .arg(env!("CARGO_BIN_EXE_unbloat"))
            .output()
            .unwrap();
        // The small library still fits; no partial copy of the large one is left behind.
        assert_eq!(stdout(&output), "1\n", "{}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains(cause) && said.contains("unbloat install DIR"), "{said}");
    }
}
