//! The software of a run's server as its processes show it: Ruby, glibc and the allocator, with their
//! versions.

use std::collections::BTreeSet;
use unbloat_heap::allocators::glibc::Glibc;
use unbloat_heap::model::{Allocator, AllocatorKind, Inspection, ProcessReport};
use unbloat_process::{Maps, Pid, Pinned, Stopping, look};
use unbloat_recording::Key;

/// Names of the facts returned by [`software`].
pub const NAMES: [&str; 3] = [Key::Ruby.name(), Key::Glibc.name(), Key::Allocator.name()];

/// Returns the software of the Ruby processes among those inspected, or of all of them if there is none.
/// Unknown facts are left out.
#[must_use]
pub fn software(inspection: &Inspection) -> Vec<(&'static str, String)> {
    let all: Vec<&ProcessReport> = inspection.processes.iter().collect();
    let rubies: Vec<&ProcessReport> = all.iter().copied().filter(|process| process.ruby.is_some()).collect();
    let servers = if rubies.is_empty() { all } else { rubies };
    let ruby = servers.iter().filter_map(|process| Some(process.ruby.as_ref()?.version.clone()));
    let allocators = servers.iter().filter_map(|process| in_words(process.allocator.as_ref()?));
    let glibc = servers.iter().find_map(|process| glibc(process.pid));
    let found = [joined(ruby), joined(glibc.into_iter()), joined(allocators)];
    NAMES.into_iter().zip(found).filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Joins the distinct values; `None` if there are none.
fn joined(values: impl Iterator<Item = String>) -> Option<String> {
    let values: BTreeSet<String> = values.collect();
    (!values.is_empty()).then(|| values.into_iter().collect::<Vec<_>>().join(" and "))
}

/// Returns glibc's version. glibc is present whichever allocator serves malloc.
fn glibc(pid: Pid) -> Option<String> {
    let version = |_: &Pinned| Ok(Glibc::locate(pid, &Maps::of(pid)?).ok().and_then(|glibc| glibc.version));
    look(pid, Stopping::Never, version).ok()?
}

/// Formats as `jemalloc 5.3.0`; glibc's version is a separate fact.
fn in_words(allocator: &Allocator) -> Option<String> {
    let name = allocator.kind.name();
    match (&allocator.kind, &allocator.version) {
        (AllocatorKind::Unknown, _) => None,
        (AllocatorKind::Glibc, _) | (_, None) => Some(name.to_owned()),
        (_, Some(version)) => Some(format!("{name} {version}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use unbloat_heap::{Options, inspect};

    #[test]
    fn a_process_without_ruby_has_a_glibc_and_an_allocator() {
        let own = inspect(Pid::this(), &Options::default()).unwrap();
        let found = software(&Inspection { processes: vec![own], ..Inspection::default() });
        let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["glibc", "allocator"]);
        assert!(found[0].1.starts_with("2."), "{found:?}");
    }
}
