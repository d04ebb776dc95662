//! The root of the tests' targets: this machine, or another root file system with another glibc and Ruby.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// The directory of another root file system (see `scripts/chroot`), in which targets are built and run.
/// Requires root.
const ROOT: &str = "UNBLOAT_TEST_ROOT";

/// Returns the other root file system, if the environment names one.
pub(crate) fn root() -> Option<PathBuf> {
    std::env::var_os(ROOT).map(PathBuf::from)
}

/// Enters the root file system `$0` with `/proc`, in its own mount namespace as in a container, and becomes
/// the command. The test's directory does not exist there, and Puma trusts `PWD`, hence the `cd`.
const ENTER: &str =
    r#"mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && cd / && exec chroot "$0" "$@""#;

/// Creates a command whose process is a target of a test.
#[must_use]
pub fn target_command(program: impl AsRef<OsStr>) -> Command {
    let Some(root) = root() else { return Command::new(program) };
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", ENTER]).arg(root).arg(program);
    command
}

/// Returns the path, for a target, of a shared library of the system by its file name, searching the library
/// directories of Debian and others.
#[must_use]
pub fn system_library(name: &str) -> Option<PathBuf> {
    let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    let root = root().unwrap_or_else(|| "/".into());
    ["usr/lib", "lib", "usr/local/lib"]
        .iter()
        .flat_map(|dir| {
            [format!("{dir}/{machine}/{name}"), format!("{dir}/{name}"), format!("{dir}64/{name}")]
        })
        .find(|path| root.join(path).exists())
        .map(|path| PathBuf::from("/").join(path))
}
