//! Starts a Ruby for a test: the machine's own, one in another root file system, or a specific executable.

use crate::target_command;
use std::path::PathBuf;
use std::process::Command;

/// The path of a Ruby executable in the targets' root; by default `ruby`.
const RUBY: &str = "UNBLOAT_TEST_RUBY";

/// Returns the Ruby selected by the environment, by its path for targets.
#[must_use]
pub fn ruby_executable() -> PathBuf {
    std::env::var_os(RUBY).map_or_else(|| PathBuf::from("ruby"), PathBuf::from)
}

/// Creates a command that runs `script` with the Ruby selected by the environment, without RubyGems.
/// `arguments` go to the interpreter.
#[must_use]
pub fn ruby(arguments: &[&str], script: &str) -> Command {
    let mut command = target_command(ruby_executable());
    command.arg("--disable-gems").args(arguments).args(["-e", script]);
    command
}
