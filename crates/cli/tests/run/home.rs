//! A private home for each test, and the processes it starts.

use std::fs;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A private home for a test: cache and status pages lie in it and are removed with it.
pub(crate) struct Home(pub(crate) tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir(home.runtime_directory()).unwrap();
        fs::set_permissions(home.runtime_directory(), fs::Permissions::from_mode(0o700)).unwrap();
        home
    }

    pub(crate) fn runtime_directory(&self) -> PathBuf {
        self.0.path().join("run")
    }

    pub(crate) fn pages(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.runtime_directory().join("unbloat")) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Returns the unbloat binary in this home, without any of the tester's own settings.
    pub(crate) fn unbloat(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unbloat"));
        command.args(arguments);
        self.isolate(&mut command);
        command
    }

    pub(crate) fn isolate(&self, command: &mut Command) {
        for name in [
            "LD_PRELOAD",
            "RUBYOPT",
            "MALLOC_CONF",
            "MALLOC_ARENA_MAX",
            "GLIBC_TUNABLES",
            "UNBLOAT",
            "UNBLOAT_LIBRARY_DIR",
            "UNBLOAT_POLICY",
            "UNBLOAT_RUN_POLICY",
        ] {
            command.env_remove(name);
        }
        command
            .env("XDG_CACHE_HOME", self.0.path().join("cache"))
            .env("XDG_RUNTIME_DIR", self.runtime_directory());
    }

    /// Runs a piece of Ruby under a policy to its end.
    pub(crate) fn ruby(&self, policy: &str, code: &str) -> Output {
        self.unbloat(&["run", "--policy", policy, "--", "ruby", "-e", &with_helpers(code)]).output().unwrap()
    }
}

/// Adds Ruby helpers: waiting for a condition, and resident bytes.
pub(crate) fn with_helpers(code: &str) -> String {
    let helpers = "
        $stdout.sync = true
        def resident = File.read('/proc/self/statm').split[1].to_i * 4096
        def wait_until(seconds = 20)
          (seconds * 50).to_i.times { (found = yield) ? (return found) : sleep(0.02) }
          abort \"waited in vain: #{Unbloat.status}\"
        end
        def burst
          strings = Array.new(100_000) { |i| 'x' * (24 + i % 1500) }
          $kept = strings.each_slice(30).map(&:first)
          nil
        end
    ";
    format!("{helpers}\n{code}")
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A process that ends with the test.
pub(crate) struct Guard(pub(crate) Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guard {
    pub(crate) fn spawn(command: &mut Command) -> (Self, BufReader<std::process::ChildStdout>) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (Self(child), out)
    }
}

pub(crate) fn line(out: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line.trim().to_owned()
}
