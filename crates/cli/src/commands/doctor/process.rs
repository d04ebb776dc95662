//! Checks of one server.

use super::Verdict::{Advice, Fine, Problem, Unknown};
use super::{Check, Verdict};
use std::path::Path;
use unbloat_contract::Variable;
use unbloat_policy::{Evidence, Policy, environment::is_allocator};
use unbloat_process::environment::environment;
use unbloat_process::{Cgroup, Pid, Status};
use unbloat_record::evidence;

pub(super) const CHECKS: [Check<Server>; 4] = [
    Check { code: "allocator", examine: allocator },
    Check { code: "policy", examine: policy },
    Check { code: "swapped", examine: swapped },
    Check { code: "memory-limit", examine: memory_limit },
];

/// Facts about a server.
pub(super) struct Server {
    pid: Pid,
    status: Status,
    evidence: Result<Evidence, String>,
    preload: Option<String>,
    policy: Option<String>,
}

impl Server {
    pub(super) fn of(pid: Pid) -> anyhow::Result<Self> {
        let status = Status::of(pid)?;
        let variables = environment(pid).unwrap_or_default();
        let evidence = evidence::of(pid, Variable::Policy.name()).map_err(|error| error.to_string());
        let page = evidence.as_ref().ok().and_then(|evidence| evidence.runtime_policy.clone());
        Ok(Self {
            pid,
            status,
            preload: variables.get("LD_PRELOAD").cloned(),
            policy: page.or_else(|| variables.get(Variable::Policy.name()).cloned()),
            evidence,
        })
    }
}

/// Checks for an allocator that was requested but does not serve: the dynamic linker reports that only once,
/// on stderr, and continues.
fn allocator(server: &Server) -> Verdict {
    let evidence = match &server.evidence {
        Ok(evidence) => evidence,
        Err(error) => return Unknown(error.clone()),
    };
    let wanted = server.preload.as_deref().unwrap_or_default();
    let wanted = wanted.split([' ', ':']).filter(|path| is_allocator(path));
    let is_mapped = |path: &&str| {
        let name = Path::new(path).file_name();
        evidence.mapped.iter().any(|mapped| mapped.file_name().is_some_and(|file| same_library(file, name)))
    };
    let mut missing = wanted.filter(|path| !is_mapped(path));
    match (missing.next(), &evidence.malloc) {
        (Some(path), _) => Problem(
            format!("LD_PRELOAD asks for {path}, which is not loaded"),
            format!("ls -l {path}   # then correct the path, or use: unbloat run -- COMMAND"),
        ),
        (None, Some(malloc)) => Fine(malloc.evidence.clone()),
        (None, None) => Unknown("its memory cannot be read".to_owned()),
    }
}

/// A link names a library without its version (`libjemalloc.so` for `libjemalloc.so.2`).
fn same_library(mapped: &std::ffi::OsStr, wanted: Option<&std::ffi::OsStr>) -> bool {
    let stem =
        |name: &std::ffi::OsStr| name.to_string_lossy().split(".so").next().unwrap_or_default().to_owned();
    wanted.is_some_and(|wanted| stem(wanted) == stem(mapped))
}

fn policy(server: &Server) -> Verdict {
    let start = "unbloat run -- COMMAND   # or: plugin :unbloat in config/puma.rb".to_owned();
    let Some(name) = &server.policy else {
        return Advice("it was started without a policy".to_owned(), start);
    };
    let (Ok(policy), Ok(evidence)) = (name.parse::<Policy>(), &server.evidence) else {
        return Unknown(format!("{name}; its active parts are unknown"));
    };
    let problems: Vec<String> = policy.problems(evidence).iter().map(ToString::to_string).collect();
    match problems.is_empty() {
        true => Fine(format!("{name} is in force")),
        false => Problem(format!("{name}: {}", problems.join("; ")), start),
    }
}

fn swapped(server: &Server) -> Verdict {
    match server.status.swap_bytes {
        None => Unknown("the kernel does not report it".to_owned()),
        Some(0) => Fine("none of it".to_owned()),
        Some(bytes) => Advice(
            format!(
                "{} MiB of it are swapped: each full collection reads them back",
                bytes.div_ceil(1 << 20)
            ),
            "fewer workers, or: unbloat trim PID".to_owned(),
        ),
    }
}

/// Nine tenths of the limit, excluding page cache: the kernel's OOM killer is near.
fn memory_limit(server: &Server) -> Verdict {
    let Some(group) = Cgroup::of(server.pid) else {
        return Unknown("no control group with memory accounting".to_owned());
    };
    let Some(limit) = group.limit_bytes() else { return Fine("its control group has no limit".to_owned()) };
    let resident = server.status.rss_bytes.unwrap_or_default();
    let words = format!("{} MiB resident of the control group's {} MiB", resident >> 20, limit >> 20);
    if resident / 9 > limit / 10 {
        return Problem(words, "limit: \"80%\" in config/puma.rb, or a larger memory limit".to_owned());
    }
    Fine(words)
}
