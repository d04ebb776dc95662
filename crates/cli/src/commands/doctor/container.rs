//! Checks of the permissions and limits under which we run.

use super::Verdict::{Advice, Fine, Problem, Unknown};
use super::{Check, Verdict, text_of};
use crate::commands::policy::variable;
use std::fs;
use std::path::Path;
use unbloat_bundle as bundle;
use unbloat_process::{Cgroup, Pid};

pub(super) const CHECKS: [Check<()>; 6] = [
    Check { code: "capability", examine: capability },
    Check { code: "seccomp", examine: seccomp },
    Check { code: "libc", examine: libc },
    Check { code: "limit", examine: limit },
    Check { code: "cache", examine: cache },
    Check { code: "status-pages", examine: status_pages },
];

/// `CAP_SYS_PTRACE` (`include/uapi/linux/capability.h`).
const SYS_PTRACE: u32 = 19;

/// A field of our own status (proc_pid_status(5)).
fn own_status(name: &str) -> Option<String> {
    let status = text_of("/proc/self/status")?;
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// Returns whether Unbloat may read the memory of other processes; `None` if that is unknown.
pub(super) fn has_ptrace() -> Option<bool> {
    let effective = u64::from_str_radix(&own_status("CapEff")?, 16).ok()?;
    Some(effective >> SYS_PTRACE & 1 == 1)
}

fn capability((): &()) -> Verdict {
    match has_ptrace() {
        None => Unknown("/proc/self/status names no capabilities".to_owned()),
        Some(true) => Fine("CAP_SYS_PTRACE: inspect and trim work".to_owned()),
        Some(false) => Advice(
            "no CAP_SYS_PTRACE: inspect shows what the kernel shows everyone, and trim refuses".to_owned(),
            "docker run --cap-add SYS_PTRACE …, or run as root".to_owned(),
        ),
    }
}

fn seccomp((): &()) -> Verdict {
    match own_status("Seccomp").as_deref() {
        Some("0") => Fine("no filter".to_owned()),
        Some("2") if has_ptrace() == Some(true) => Fine("a filter, and CAP_SYS_PTRACE beside it".to_owned()),
        Some("2") => Advice(
            "a filter of system calls: Docker's refuses looks at other processes without CAP_SYS_PTRACE"
                .to_owned(),
            "docker run --cap-add SYS_PTRACE …".to_owned(),
        ),
        mode => Unknown(format!("mode {}", mode.unwrap_or("not reported"))),
    }
}

fn libc((): &()) -> Verdict {
    let Ok(mut entries) = fs::read_dir("/lib") else { return Unknown("/lib cannot be read".to_owned()) };
    let musl = entries
        .any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("ld-musl-")));
    let glibc = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    let glibc = glibc.into_iter().any(|loader| Path::new(loader).exists());
    match (glibc, musl) {
        (true, _) => Fine("glibc".to_owned()),
        (false, true) => Problem(
            "musl: the libraries need glibc, so no policy can be in force here".to_owned(),
            "FROM ruby:3.4-slim  # instead of -alpine".to_owned(),
        ),
        (false, false) => Unknown("neither glibc's nor musl's loader is where it usually is".to_owned()),
    }
}

fn limit((): &()) -> Verdict {
    let group = Cgroup::of(Pid::this());
    match group.as_ref().and_then(Cgroup::limit_bytes) {
        None => Fine("the control group has none".to_owned()),
        Some(limit) => {
            let used = group.and_then(|group| group.current_bytes()).unwrap_or_default();
            let words = format!("{} of {} MiB used, page cache included", used >> 20, limit >> 20);
            // The kernel reclaims page cache first, so a full group is harmless by itself.
            Fine(words)
        }
    }
}

fn cache((): &()) -> Verdict {
    match bundle::cache(&bundle::Library::ALL, variable) {
        Ok(directory) => Fine(directory.display().to_string()),
        Err(error) => Problem(
            format!("unbloat run cannot start a server: {error}"),
            "unbloat install /opt/unbloat && export UNBLOAT_LIBRARY_DIR=/opt/unbloat".to_owned(),
        ),
    }
}

/// The runtime creates its pages in a writable directory; without one, `unbloat status` has nothing to show.
fn status_pages((): &()) -> Verdict {
    let writable =
        |path: &str| fs::metadata(path).is_ok_and(|place| place.is_dir() && !place.permissions().readonly());
    let runtime = variable("XDG_RUNTIME_DIR").filter(|path| writable(path));
    match runtime.or_else(|| writable("/dev/shm").then(|| "/dev/shm".to_owned())) {
        Some(place) => Fine(place),
        None => Advice(
            "neither XDG_RUNTIME_DIR nor /dev/shm can be written to: unbloat status will see no server"
                .to_owned(),
            "docker run --tmpfs /dev/shm …".to_owned(),
        ),
    }
}
