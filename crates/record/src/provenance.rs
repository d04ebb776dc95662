//! Where and how the figures came to be.

use std::collections::BTreeMap;
use std::fs;
use unbloat_process::{Pid, environment};

/// Beginnings of the names of environment variables that steer memory. Nothing else of the environment is recorded: it
/// holds secrets.
const STEERING: [&str; 12] = [
    "MALLOC_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "MIMALLOC_",
    "_RJEM_MALLOC_CONF",
    "JE_MALLOC_CONF",
    "RUBY_GC_",
    "RUBY_YJIT",
    "RUBYOPT",
    "UNBLOAT_",
    "WEB_CONCURRENCY",
    "RAILS_MAX_THREADS",
];

/// Facts about this machine.
#[must_use]
pub fn machine() -> Vec<(String, String)> {
    let mut facts = BTreeMap::new();
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.insert(name.to_owned(), value);
        }
    };
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    fact("kernel", read("/proc/sys/kernel/osrelease"));
    fact("host", read("/proc/sys/kernel/hostname"));
    fact("swappiness", read("/proc/sys/vm/swappiness"));
    fact(
        "transparent_hugepages",
        read("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|t| selected(&t)),
    );
    let cpu = read("/proc/cpuinfo").unwrap_or_default();
    fact("cpu", field(&cpu, "model name"));
    fact("cpus", std::thread::available_parallelism().ok().map(|n| n.to_string()));
    let memory = read("/proc/meminfo").unwrap_or_default();
    fact("memory", field(&memory, "MemTotal"));
    fact("swap", field(&memory, "SwapTotal"));
    fact("unbloat", Some(env!("CARGO_PKG_VERSION").to_owned()));
    facts.into_iter().collect()
}

/// Facts about a process: what it runs, where, and the variables that steer its memory.
#[must_use]
pub fn process(pid: Pid) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let link = |name: &str| fs::read_link(pid.proc(name)).ok().map(|path| path.display().to_string());
    facts.extend(link("exe").map(|path| ("program".to_owned(), path)));
    facts.extend(link("cwd").map(|path| ("directory".to_owned(), path)));
    if let Ok(environment) = environment::environment(pid) {
        let steering =
            environment.into_iter().filter(|(name, _)| STEERING.iter().any(|s| name.starts_with(s)));
        facts.extend(steering.map(|(name, value)| (format!("env {name}"), value)));
    }
    facts
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.split_once(':')?.1.trim().to_owned()))
}

/// The choice in brackets of a file like `always [madvise] never`.
fn selected(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described_and_secrets_are_not() {
        let facts = machine();
        assert!(facts.iter().any(|(name, value)| name == "kernel" && !value.is_empty()));
        let own = process(Pid::this());
        assert!(own.iter().any(|(name, _)| name == "program"));
        assert!(!own.iter().any(|(name, _)| name == "env PATH"), "{own:?}");
        assert_eq!(selected("always [madvise] never").as_deref(), Some("madvise"));
    }
}
