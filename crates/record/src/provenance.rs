//! Collects facts about the origin of a recording's figures.

use std::fs::{self, File};
use unbloat_process::elf::Elf;
use unbloat_process::{Pid, environment};
use unbloat_recording::Key;
use unbloat_recording::provenance::{chosen, variable};

/// Name prefixes of environment variables that affect memory. Nothing else of the environment is recorded,
/// because it contains secrets.
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

/// Returns facts about this machine and this build. Unknown ones are absent.
#[must_use]
pub fn machine() -> Vec<(Key, String)> {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let field = |path: &str, name: &str| field(&read(path)?, name);
    let hugepages = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let facts = [
        (Key::Unbloat, Some(env!("CARGO_PKG_VERSION").to_owned())),
        (Key::UnbloatBuild, build()),
        (Key::Kernel, read("/proc/sys/kernel/osrelease")),
        (Key::System, field("/etc/os-release", "PRETTY_NAME")),
        (Key::Host, read("/proc/sys/kernel/hostname")),
        (Key::Processor, field("/proc/cpuinfo", "model name")),
        (Key::Cores, std::thread::available_parallelism().ok().map(|n| n.to_string())),
        (Key::Memory, field("/proc/meminfo", "MemTotal")),
        (Key::Swap, field("/proc/meminfo", "SwapTotal")),
        (Key::Swappiness, read("/proc/sys/vm/swappiness")),
        (Key::TransparentHugepages, hugepages.and_then(|setting| chosen(&setting).map(str::to_owned))),
    ];
    let known = facts.into_iter().filter_map(|(key, value)| Some((key, value?)));
    known.filter(|(_, value)| !value.is_empty()).collect()
}

/// Returns facts about a process: its program, its directory, and the variables that affect its memory.
#[must_use]
pub fn process(pid: Pid) -> Vec<(String, String)> {
    let link = |key: Key, name: &str| {
        let path = fs::read_link(pid.proc(name)).ok()?;
        Some((key.name().to_owned(), path.display().to_string()))
    };
    let mut facts: Vec<_> =
        [link(Key::Program, "exe"), link(Key::Directory, "cwd")].into_iter().flatten().collect();
    if let Ok(environment) = environment::environment(pid) {
        let steering =
            environment.into_iter().filter(|(name, _)| STEERING.iter().any(|s| name.starts_with(s)));
        facts.extend(steering.map(|(name, value)| (variable(&name), value)));
    }
    facts
}

/// Returns the build ID that the linker derived from this program's contents.
fn build() -> Option<String> {
    Elf::parse(&File::open("/proc/self/exe").ok()?).ok()?.build_id
}

/// Returns the value of a line `NAME: VALUE` or `NAME="VALUE"`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once([':', '='])?.1.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_and_this_build_are_described_and_secrets_are_not() {
        let facts = machine();
        let known = |key: Key| facts.iter().any(|(k, value)| *k == key && !value.is_empty());
        assert!(known(Key::Kernel) && known(Key::UnbloatBuild) && known(Key::Cores), "{facts:?}");
        let own = process(Pid::this());
        assert!(own.iter().any(|(name, _)| name == Key::Program.name()));
        assert!(!own.iter().any(|(name, _)| name == "env PATH"), "{own:?}");
    }
}
