//! Shared by the tests of `unbloat record`: a directory with a recording, and processes that end with the
//! test.
#![allow(clippy::unwrap_used, dead_code)]

use rusqlite::Connection;
use rusqlite::types::FromSql;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

pub(crate) const UNBLOAT: &str = env!("CARGO_BIN_EXE_unbloat");

/// A directory with a recording.
pub(crate) struct Scratch(pub(crate) tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Scratch(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path("a.unbloat")
    }

    /// Compiles a C program, or with other flags a library.
    pub(crate) fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let (text, program) = (self.path(&format!("{name}.c")), self.path(name));
        fs::write(&text, source).unwrap();
        let mut compiler = Command::new("gcc");
        compiler.args(flags).arg("-o").arg(&program).arg(&text);
        assert!(compiler.status().unwrap().success());
        program
    }

    pub(crate) fn record(&self, options: &[&str]) -> Command {
        let mut command = Command::new(UNBLOAT);
        command.args(["record", "-q", "-o"]).arg(self.file()).args(options);
        command
    }

    pub(crate) fn db(&self) -> Connection {
        Connection::open(self.file()).unwrap()
    }

    pub(crate) fn one<T: FromSql>(&self, sql: &str) -> T {
        self.db().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Returns whether a query finds anything yet, in a recording that may still be in creation.
    pub(crate) fn has(&self, sql: &str) -> bool {
        self.file().exists()
            && self.db().prepare(sql).is_ok_and(|mut query| query.exists([]).unwrap_or(false))
    }

    pub(crate) fn pids(&self) -> Vec<i32> {
        let db = self.db();
        let mut statement = db.prepare("SELECT pid FROM process").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

/// Ends a process started by a test, whatever happens.
pub(crate) struct Guard(pub(crate) Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

pub(crate) fn signal(name: &str, pid: i32) {
    let _ = Command::new("kill").args([name, &pid.to_string()]).status();
}

pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not within 60 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn pid_in(path: &Path) -> i32 {
    eventually("a pid in a file", || fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n')));
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

pub(crate) fn unbloat(arguments: &[&str]) -> Output {
    Command::new(UNBLOAT).args(arguments).output().unwrap()
}

/// With the kernel's process events where available, and without.
pub(crate) const BOTH_WAYS: [&[&str]; 2] = [&[], &["--look-around"]];

pub(crate) fn monotonic_ns() -> i64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() * 1_000_000_000 + now.tv_nsec()
}
