//! Another user's processes attack root's `status`, `inspect`, `trim`, `record` and `run`.
//!
//! Only root can be attacked like this and become somebody else for it; for others these tests pass without doing anything.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use unbloat_test_support::{Compiler, Program, Target, c_program};

const NOBODY: u32 = 65_534;
/// Ends a test that hangs; nothing is measured by it.
const HANGS: Duration = Duration::from_secs(120);

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A directory of the neighbor's, with his program in it.
struct Neighbor {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Neighbor {
    /// `None` for whoever is not root.
    fn new() -> Option<Self> {
        let program = is_root().then(|| Program::build(Compiler::System, c_program("hostile"), &[]))?;
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let copy = directory.path().join("program");
        fs::copy(program.path(), &copy).unwrap();
        chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        Some(Neighbor { directory, program: copy })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// His process, in the mode and with the words.
    fn runs(&self, mode: &str, count: &str, words: &[&str]) -> Target {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&self.program);
        Target::start_ready(command.args([mode, count]).arg(self.path()).args(words))
    }
}

/// Root's call of the tool, which must end.
fn unbloat(arguments: &[&str], environment: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unbloat"));
    command.args(arguments).envs(environment.iter().copied());
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > HANGS {
            child.kill().unwrap();
            panic!("{arguments:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].concat().into_iter().map(char::from).collect()
}

/// A status page that has become a FIFO, a link to what only root may read, a directory that is none, and a link to itself.
#[test]
fn a_neighbor_s_status_page_is_neither_waited_for_nor_followed() {
    let Some(neighbor) = Neighbor::new() else { return };
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "a secret of root's").unwrap();
    let page = "unbloat-1/4026531836-1.status";
    for by in ["fifo", secret.path().to_str().unwrap(), "/dev/zero", "4026531836-1.status"] {
        let _ = fs::remove_file(neighbor.path().join(page));
        let target = neighbor.runs("page", "0", &[page, by]);
        let pid = target.pid().to_string();
        for arguments in [
            &["status"][..],
            &["status", &pid],
            &["status", "--json"],
            &["inspect", &pid],
            &["trim", "--dry-run", &pid],
            &["trim", &pid],
        ] {
            let output = unbloat(arguments, &[]);
            assert!(matches!(output.status.code(), Some(0 | 1)), "{by}: {arguments:?}: {}", text(&output));
            let said = text(&output);
            assert!(!said.contains("secret"), "{by}: {arguments:?}: {said}");
            assert!(!said.contains("gave up"), "{by}: {arguments:?}: {said}");
        }
    }
}

/// A process that becomes another at any moment between the look and the call.
#[test]
fn a_neighbor_who_execs_all_the_time_is_told_or_left_alone() {
    let Some(neighbor) = Neighbor::new() else { return };
    let mut target = neighbor.runs("execs", "1000000", &[]);
    let pid = target.pid().to_string();
    for _ in 0..10 {
        for command in ["trim", "inspect"] {
            let output = unbloat(&[command, &pid], &[]);
            assert!(matches!(output.status.code(), Some(0 | 1)), "{command}: {output:?}");
        }
    }
    assert!(Path::new("/proc").join(&pid).exists(), "it lives");
    target.kill();
}

/// A cache that he can rename and refill.
#[test]
fn a_cache_below_a_neighbor_s_directory_loads_nothing_of_his() {
    let Some(neighbor) = Neighbor::new() else { return };
    let cache = neighbor.path().join("cache");
    fs::create_dir(&cache).unwrap();
    let output =
        unbloat(&["run", "--policy", "lean", "--", "true"], &[("XDG_CACHE_HOME", &cache), ("HOME", &cache)]);
    assert_ne!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains(neighbor.path().to_str().unwrap()), "{}", text(&output));
}

/// Links of his wait where root installs, and where root records.
#[test]
fn nothing_is_written_through_a_neighbor_s_links() {
    let Some(neighbor) = Neighbor::new() else { return };
    let victim = tempfile::NamedTempFile::new().unwrap();
    fs::write(victim.path(), "untouched").unwrap();
    let names =
        ["libunbloat.so", "libunbloat-jemalloc.so", "a.unbloat", "a.unbloat-wal", "a.unbloat-journal"];
    for name in names {
        std::os::unix::fs::symlink(victim.path(), neighbor.path().join(name)).unwrap();
    }
    let installed = unbloat(&["install", neighbor.path().to_str().unwrap()], &[]);
    let recording = neighbor.path().join("a.unbloat");
    let recorded = unbloat(&["record", "-o", recording.to_str().unwrap(), "--", "true"], &[]);
    let after = fs::read_to_string(victim.path()).unwrap_or_default();
    assert_eq!(after, "untouched", "{}{}", text(&installed), text(&recorded));
}

/// A mount namespace of his own, where the libraries' names mean other files and `/proc` is a directory of his.
#[test]
fn a_neighbor_s_own_file_system_is_his_alone() {
    let Some(neighbor) = Neighbor::new() else { return };
    let script = "mount -t tmpfs none /usr/lib 2>/dev/null; mount -t tmpfs none /proc; mkdir -p /proc/1 /proc/self; \
                  mkfifo /proc/self/maps /proc/1/maps /proc/self/mem; echo ready; read _";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    let mut as_nobody = Command::new("setpriv");
    as_nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(command.get_program());
    as_nobody.args(command.get_args()).current_dir(neighbor.path());
    let mut target = Target::start(&mut as_nobody);
    // Where the kernel allows no such namespaces, there is no such neighbor.
    if target.line_or_end().is_err() {
        return;
    }
    let pid = target.pid().to_string();
    for arguments in [&["inspect", "--json", &pid][..], &["status", &pid], &["trim", "--dry-run", &pid]] {
        let output = unbloat(arguments, &[]);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {output:?}");
        assert!(!text(&output).contains("gave up"), "{arguments:?}: {}", text(&output));
    }
}

/// All of it while root records everything that is his.
#[test]
fn a_recording_of_a_neighbor_s_processes_goes_on() {
    let Some(neighbor) = Neighbor::new() else { return };
    let targets = [
        neighbor.runs("page", "0", &["unbloat-1/4026531836-2.status", "fifo"]),
        neighbor.runs("heaps", "1000", &[]),
        neighbor.runs("sparse", "60", &[]),
        neighbor.runs("execs", "1000000", &[]),
    ];
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.unbloat");
    let file = file.to_str().unwrap();
    let pids: Vec<String> = targets.iter().map(|target| target.pid().to_string()).collect();
    let mut arguments =
        vec!["record", "--duration", "2s", "--census", "500ms", "--budget", "50%", "-o", file];
    arguments.extend(pids.iter().flat_map(|pid| ["--pid", pid.as_str()]));
    let output = unbloat(&arguments, &[]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&unbloat(&["show", file], &[])).contains("the duration was over"));
}
