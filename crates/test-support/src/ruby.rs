//! Starting a Ruby for a test: the machine's own, one in another root file system, or a certain executable.

use std::path::PathBuf;
use std::process::Command;

/// Another root file system (a debootstrapped Debian), whose Ruby the tests are to use. Needs root.
const ROOT: &str = "UNBLOAT_TEST_ROOT";
/// A Ruby executable, in that root or this one; without it, `ruby`.
const RUBY: &str = "UNBLOAT_TEST_RUBY";

/// A command that runs `script` with the Ruby that the environment asks for, without RubyGems. `arguments` go to the
/// interpreter.
#[must_use]
pub fn ruby(arguments: &[&str], script: &str) -> Command {
    let ruby = std::env::var_os(RUBY).map_or_else(|| PathBuf::from("ruby"), PathBuf::from);
    let mut command = match std::env::var_os(ROOT) {
        Some(root) => {
            let mut command = Command::new("chroot");
            command.arg(root).arg(ruby);
            command
        }
        None => Command::new(ruby),
    };
    command.arg("--disable-gems").args(arguments).args(["-e", script]);
    command
}
