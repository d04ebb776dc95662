//! Whether what a policy asks for is what a process has: by what it shows, not by its word.

use crate::policy::{Allocator, Policy};
use std::path::PathBuf;
use unbloat_contract::Library;

/// What a process shows of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// The files that it has mapped.
    pub mapped: Vec<PathBuf>,
    /// Who serves malloc there; `None` when that cannot be told.
    pub malloc: Option<Malloc>,
}

/// Who serves malloc in a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malloc {
    /// What proves it, in words that name the file.
    pub evidence: String,
    /// glibc's `arena_max`, 0 when it was not set; `None` when another serves or it cannot be read.
    pub arena_max: Option<u64>,
    /// Whether it is glibc.
    pub is_glibc: bool,
}

/// What of a policy is not live in a process, each a sentence. Empty: all is, as far as it shows.
#[must_use]
pub fn missing(policy: &Policy, process: &Shown) -> Vec<String> {
    let runtime = Library::Runtime.file_name();
    let without_runtime = policy.needs_runtime() && !process.has(runtime);
    let without_runtime =
        without_runtime.then(|| format!("{runtime} is not mapped: the policy's trimming is not live"));
    let allocator = match &policy.allocator {
        Allocator::Own => None,
        Allocator::Jemalloc => {
            let name = Library::Jemalloc.file_name();
            process.without_malloc_of(name, name)
        }
        Allocator::System(path) => {
            // A bare name is searched by the dynamic linker, and either may be a link to the file that is mapped.
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
            process.without_malloc_of(&name, &path.to_string_lossy())
        }
    };
    let arenas = policy.arenas.filter(|_| policy.allocator == Allocator::Own);
    let arenas = arenas.and_then(|arenas| process.without_arenas(arenas));
    without_runtime.into_iter().chain(allocator).chain(arenas).collect()
}

impl Shown {
    fn has(&self, name: &str) -> bool {
        self.mapped.iter().any(|path| path.file_name().is_some_and(|file| file == name))
    }

    /// Why the library that was `asked` for does not serve malloc; its file's name begins with `name`.
    fn without_malloc_of(&self, name: &str, asked: &str) -> Option<String> {
        let is_it =
            |file: &&PathBuf| file.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name));
        if self.mapped.iter().find(is_it).is_none() {
            return Some(format!("{asked} is not mapped: malloc is served by another"));
        }
        let malloc = self.malloc.as_ref().filter(|malloc| !malloc.evidence.contains(&format!("/{name}")))?;
        Some(format!("{asked} is mapped and does not serve malloc: {}", malloc.evidence))
    }

    fn without_arenas(&self, arenas: u16) -> Option<String> {
        let malloc = self.malloc.as_ref()?;
        match malloc.arena_max {
            _ if !malloc.is_glibc => Some(format!(
                "arenas={arenas} concerns glibc's malloc, and another serves: {}",
                malloc.evidence
            )),
            Some(0) => Some(format!("glibc's limit of arenas is not set, and should be {arenas}")),
            Some(found) if found != u64::from(arenas) => {
                Some(format!("glibc's limit of arenas is {found}, and should be {arenas}"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(policy: &str, mapped: &[&str], malloc: Option<Malloc>) -> Vec<String> {
        let mapped = mapped.iter().map(PathBuf::from).collect();
        missing(&policy.parse().unwrap(), &Shown { mapped, malloc })
    }

    fn glibc(arena_max: u64) -> Option<Malloc> {
        let evidence = "/usr/lib/libc.so.6 is mapped and first to define malloc".to_owned();
        Some(Malloc { evidence, arena_max: Some(arena_max), is_glibc: true })
    }

    fn served_by(file: &str) -> Option<Malloc> {
        let evidence = format!("{file} is mapped and first to define malloc");
        Some(Malloc { evidence, arena_max: None, is_glibc: false })
    }

    #[test]
    fn what_is_mapped_is_live_and_the_rest_is_named() {
        let all = ["/c/libunbloat.so", "/c/libunbloat-jemalloc.so", "/usr/lib/libmimalloc.so.2.0"];
        let count = |policy, mapped: &[&str]| check(policy, mapped, None).len();
        assert_eq!(count("allocator=jemalloc,trim=adaptive", &all), 0);
        assert_eq!(count("allocator=jemalloc,trim=adaptive", &[]), 2);
        assert_eq!(count("trim=major", &["/c/libunbloat.so"]), 0);
        assert_eq!(count("allocator=system:libmimalloc.so", &all), 0);
        assert_eq!(count("allocator=system:libtcmalloc.so", &all), 1);
        assert_eq!(count("off", &[]), 0);
    }

    #[test]
    fn what_is_mapped_has_to_serve_malloc() {
        let mapped = ["/c/libunbloat-jemalloc.so", "/usr/lib/libmimalloc.so.2.0"];
        for (policy, server, other) in [
            ("allocator=jemalloc", mapped[0], mapped[1]),
            ("allocator=system:libmimalloc.so.2", mapped[1], mapped[0]),
        ] {
            assert!(check(policy, &mapped, served_by(server)).is_empty());
            let problems = check(policy, &mapped, served_by(other));
            assert!(problems.len() == 1 && problems[0].contains(other), "{problems:?}");
            assert_eq!(check(policy, &mapped, glibc(0)).len(), 1);
        }
    }

    #[test]
    fn the_limit_of_arenas_has_to_be_glibcs_own() {
        assert!(check("arenas=2", &[], glibc(2)).is_empty());
        assert!(check("arenas=2", &[], glibc(0))[0].contains("not set"));
        assert!(check("arenas=2", &[], glibc(5))[0].contains("is 5"));
        assert!(
            check("arenas=2", &[], served_by("/usr/lib/libjemalloc.so.2"))[0].contains("libjemalloc.so.2")
        );
        assert!(check("arenas=2", &[], None).is_empty());
    }
}
