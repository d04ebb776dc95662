//! What figures depend on besides the plan and the server's own software: this build, the kernel, the hardware.

use std::fs::File;
use unbloat_process::elf::Elf;

/// Facts about this machine and this program, by name. What cannot be found out is left out.
#[must_use]
pub fn facts() -> Vec<(&'static str, String)> {
    let file = |path: &str| std::fs::read_to_string(path).ok();
    let field = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once([':', '='])?.1.trim().trim_matches('"').to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let facts = [
        ("unbloat", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("unbloat_build", build()),
        ("kernel", file("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned())),
        ("processor", file("/proc/cpuinfo").and_then(|text| field(&text, "model name"))),
        ("cores", Some(cores.to_string())),
        ("memory", file("/proc/meminfo").and_then(|text| field(&text, "MemTotal"))),
        ("system", file("/etc/os-release").and_then(|text| field(&text, "PRETTY_NAME"))),
        (
            "transparent_hugepage",
            file("/sys/kernel/mm/transparent_hugepage/enabled").map(|t| t.trim().to_owned()),
        ),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The build ID that the linker made from this program's contents: the version alone does not tell two builds apart.
fn build() -> Option<String> {
    Elf::parse(&File::open("/proc/self/exe").ok()?).ok()?.build_id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_build_and_this_kernel_are_known() {
        let names: Vec<_> = facts().into_iter().map(|(name, _)| name).collect();
        assert!(names.contains(&"unbloat_build") && names.contains(&"kernel"), "{names:?}");
    }
}
