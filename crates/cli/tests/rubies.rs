//! One build of the libraries in every Ruby: the machine's own, another (`UNBLOAT_TEST_RUBY`), or one in
//! another Debian (`UNBLOAT_TEST_ROOT`, see `scripts/matrix`) with its own glibc.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use unbloat_test_support::{ruby_executable, target_command};

/// Our libraries in a directory visible to targets, whose path for them is `inside`.
struct Libraries {
    _directory: tempfile::TempDir,
    inside: PathBuf,
}

impl Libraries {
    fn install() -> Self {
        let root = std::env::var_os("UNBLOAT_TEST_ROOT").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let directory = tempfile::tempdir_in(root.join("tmp")).unwrap();
        let installed = Command::new(env!("CARGO_BIN_EXE_unbloat"))
            .arg("install")
            .arg(directory.path())
            .output()
            .unwrap();
        assert!(installed.status.success(), "{}", text(&installed.stderr));
        let inside = Path::new("/").join(directory.path().strip_prefix(&root).unwrap());
        Self { _directory: directory, inside }
    }

    /// Runs a piece of Ruby under a policy, with only the libraries and the lines of `unbloat env`.
    fn ruby(&self, policy: &str, code: &str) -> Output {
        let lines = Command::new(env!("CARGO_BIN_EXE_unbloat"))
            .args(["env", "--policy", policy, "--libraries"])
            .arg(&self.inside)
            .env_remove("LD_PRELOAD")
            .env_remove("RUBYOPT")
            .output()
            .unwrap();
        assert!(lines.status.success(), "{}", text(&lines.stderr));
        let script = format!("{}\nexec \"$1\" -e \"$2\"", text(&lines.stdout));
        let helpers =
            "def wait_until; 1000.times { return if yield; sleep 0.02 }; abort Unbloat.status.inspect; end";
        let mut shell = target_command("sh");
        shell.args(["-c", &script, "sh"]).arg(ruby_executable()).arg(format!("{helpers}\n{code}"));
        shell.output().unwrap()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn every_policy_hears_the_collector_trims_and_lives_through_a_fork() {
    let libraries = Libraries::install();
    for (policy, allocator) in [
        ("trim=every", "glibc 2."),
        ("trim=major", "glibc 2."),
        ("allocator=jemalloc,trim=every", "jemalloc 5.3.1"),
        ("lean", "jemalloc 5.3.1"),
    ] {
        let output = libraries.ruby(
            policy,
            "work = lambda do
               Thread.new { Array.new(50_000) { |i| 'x' * (24 + i % 1500) }; nil }.join
               before = Unbloat.status
               GC.start
               wait_until { Unbloat.status[:gc_major_count] > before[:gc_major_count] }
               wait_until { Unbloat.status[:trims] > before[:trims] } unless before[:policy] == 'lean'
               Unbloat.trim
             end
             work.call
             Process.wait(fork { work.call; exit!(Unbloat.status[:fork_generation] == 1) })
             puts $?.success?, Unbloat.status.values_at(:notice, :policy, :allocator), Unbloat.status[:requested_trims]",
        );
        let out = text(&output.stdout);
        let expected = format!("true\n\n{policy}\n{allocator}");
        assert!(out.starts_with(&expected) && out.ends_with("\n1\n"), "{out}{}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{policy}");
    }
}
