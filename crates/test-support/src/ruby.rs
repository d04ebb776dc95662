//! Starting a Ruby for a test: the machine's own, one in another root file system, or a certain executable.

use crate::target_command;
use std::path::PathBuf;
use std::process::Command;

/// A Ruby executable, where targets live; without it, `ruby`.
const RUBY: &str = "UNBLOAT_TEST_RUBY";

/// The Ruby that the environment asks for, as targets call it.
#[must_use]
pub fn ruby_executable() -> PathBuf {
    std::env::var_os(RUBY).map_or_else(|| PathBuf::from("ruby"), PathBuf::from)
}

/// A command that runs `script` with the Ruby that the environment asks for, without RubyGems. `arguments` go to the
/// interpreter.
#[must_use]
pub fn ruby(arguments: &[&str], script: &str) -> Command {
    let mut command = target_command(ruby_executable());
    command.arg("--disable-gems").args(arguments).args(["-e", script]);
    command
}
