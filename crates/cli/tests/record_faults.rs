//! `unbloat record` while system calls on its file fail: the service lives, and the file is intact.
#![allow(clippy::unwrap_used)]

mod recording;

use recording::{Scratch, UNBLOAT};
use std::process::Command;

/// Fails the nth call of one function on a file whose name contains `.unbloat`, and every later one.
const INJECTOR: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
static atomic_long calls;
static int fails(const char *call, int fd) {
    const char *chosen = getenv("FAULT_CALL"), *nth = getenv("FAULT_NTH");
    char link[64], name[4096];
    if (!chosen || !nth || strcmp(chosen, call)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length <= 0) return 0;
    name[length] = 0;
    return strstr(name, ".unbloat") && atomic_fetch_add(&calls, 1) + 1 >= atol(nth);
}
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define INJECT(call, fd, error) do { if (fails(call, fd)) { errno = error; return -1; } } while (0)
ssize_t write(int fd, const void *b, size_t n) { INJECT("write", fd, EIO); return REAL(write)(fd, b, n); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) { INJECT("write", fd, EIO); return REAL(pwrite)(fd, b, n, o); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) { INJECT("write", fd, EIO); return REAL(pwrite64)(fd, b, n, o); }
int ftruncate(int fd, off_t n) { INJECT("ftruncate", fd, ENOSPC); return REAL(ftruncate)(fd, n); }
int ftruncate64(int fd, off64_t n) { INJECT("ftruncate", fd, ENOSPC); return REAL(ftruncate64)(fd, n); }
int fsync(int fd) { INJECT("sync", fd, EIO); return REAL(fsync)(fd); }
int fdatasync(int fd) { INJECT("sync", fd, EIO); return REAL(fdatasync)(fd); }
"#;

/// Records a service of two seconds while the nth call and all later ones fail.
fn record_with_fault(call: &str, nth: u32) {
    let scratch = Scratch::new();
    let done = scratch.path("done");
    let service = format!("unset LD_PRELOAD; sleep 2; echo yes > {}", done.display());
    let output = Command::new(UNBLOAT)
        .args(["record", "--interval", "20ms", "-o"])
        .arg(scratch.file())
        .args(["--", "sh", "-c", &service])
        .env("LD_PRELOAD", scratch.compile("injector.so", INJECTOR, &["-shared", "-fPIC", "-O1"]))
        .env("FAULT_CALL", call)
        .env("FAULT_NTH", nth.to_string())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!told.contains("panicked"), "{call} {nth}: {told}");
    // If the file cannot even be created, no service is started; the error says so, and nothing is left.
    if !done.exists() {
        assert!(output.status.code() == Some(1) && told.contains("a.unbloat"), "{call} {nth}: {told}");
        return;
    }
    // Two seconds cause some ninety writes to the file.
    if call == "write" && nth <= 30 {
        assert!(
            told.contains("the command continues") || output.status.code() == Some(1),
            "{call} {nth}: {told}"
        );
    }
    if scratch.file().exists() {
        assert_eq!(scratch.one::<String>("PRAGMA integrity_check"), "ok", "{call} {nth}: {told}");
    }
}

/// The sweep in its short form; `make faults` runs every n up to 120.
#[test]
fn a_failing_call_on_the_file_never_ends_the_service() {
    let long = std::env::var_os("UNBLOAT_FAULTS_LONG").is_some();
    let sweep: Vec<u32> = if long { (1..=120).collect() } else { vec![1, 8, 30, 90] };
    for call in ["write", "ftruncate", "sync"] {
        for &nth in &sweep {
            record_with_fault(call, nth);
        }
    }
}
