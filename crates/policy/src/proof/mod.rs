//! Proof that a policy is live in a process, from the visible state of the process rather than from its
//! configuration.
//!
//! A policy, or a variant of an experiment, amounts to [`Claim`]s. [`Evidence`] is the visible state of a
//! process; checking a claim against it gives a [`Proof`] or a [`Problem`].

mod answer;

pub use answer::{Problem, Proof, unproved};

use crate::policy::{Allocator, Policy, rows};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use unbloat_contract::Library;

/// The visible state of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The files from which it has code mapped.
    pub mapped: Vec<PathBuf>,
    /// The allocator that serves malloc; `None` if unknown.
    pub malloc: Option<Malloc>,
    /// The policy named by its status page; `None` without a page.
    pub runtime_policy: Option<String>,
    /// Its initial environment; `None` if it is unreadable or overwritten by a title.
    pub environment: Option<BTreeMap<String, String>>,
    /// Its current environment in memory, as far as it can be found.
    pub environment_in_memory: Option<BTreeMap<String, String>>,
}

/// The allocator that serves malloc in a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malloc {
    /// The allocator's name: `glibc`, `jemalloc`, …
    pub allocator: &'static str,
    /// The evidence in words, with the name of the file.
    pub evidence: String,
    /// glibc's `arena_max`, 0 if unset; `None` if another allocator serves or it cannot be read.
    pub arena_max: Option<u64>,
}

impl Malloc {
    fn is_glibc(&self) -> bool {
        self.allocator == "glibc"
    }
}

/// A property that a process must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// This variable is in its initial environment.
    Environment {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// A file of this name or path is mapped executable.
    Mapped {
        /// The name or path.
        file: String,
        /// The Debian package that contains it.
        package: Option<String>,
    },
    /// The runtime is loaded.
    Runtime,
    /// The library with this name or path serves malloc.
    Serves {
        /// The name or path.
        library: PathBuf,
    },
    /// The allocator with this name serves malloc.
    Allocator(String),
    /// glibc's limit of arenas is this.
    ArenaMax(u64),
    /// The runtime's status page names this policy.
    RuntimePolicy(String),
}

impl Claim {
    /// Returns whether the claim holds from the start of a process. A forked worker gets its status page only
    /// later.
    #[must_use]
    pub fn holds_at_once(&self) -> bool {
        !matches!(self, Claim::RuntimePolicy(_))
    }
}

impl Policy {
    /// Returns the claims that hold in a process where the policy is live.
    #[must_use]
    pub fn claims(&self) -> Vec<Claim> {
        let mut claims: Vec<Claim> = Vec::new();
        for claim in rows().filter_map(|row| (row.claim)(self)) {
            if !claims.contains(&claim) {
                claims.push(claim);
            }
        }
        claims
    }

    /// Returns the claims of the policy that a process contradicts. Empty if everything visible is live.
    #[must_use]
    pub fn problems(&self, process: &Evidence) -> Vec<Problem> {
        let checked = self.claims().into_iter().map(|claim| process.check(&claim));
        checked.filter_map(Result::err).filter(|problem| !problem.is_ignorance()).collect()
    }
}

/// Returns the claim of `allocator=`.
pub(crate) fn of_allocator(policy: &Policy) -> Option<Claim> {
    let library = match &policy.allocator {
        Allocator::Own => return None,
        Allocator::Jemalloc => PathBuf::from(Library::Jemalloc.file_name()),
        Allocator::System(path) => path.clone(),
    };
    Some(Claim::Serves { library })
}

/// Returns the claim of `arenas=`, which another allocator makes void.
pub(crate) fn of_arenas(policy: &Policy) -> Option<Claim> {
    let arenas = policy.arenas.filter(|_| policy.allocator == Allocator::Own)?;
    Some(Claim::ArenaMax(arenas.into()))
}

/// Returns the claim of all parts that the runtime implements.
pub(crate) fn of_runtime(policy: &Policy) -> Option<Claim> {
    policy.needs_runtime().then_some(Claim::Runtime)
}

impl Evidence {
    /// Checks a claim.
    ///
    /// # Errors
    /// [`Problem`]: the claim is false, or nothing confirms it.
    pub fn check(&self, claim: &Claim) -> Result<Proof, Problem> {
        match claim {
            Claim::Environment { name, value } => self.check_variable(name, value),
            Claim::Mapped { file, package } => {
                let not_mapped = || Problem::NotMapped { file: file.clone(), package: package.clone() };
                self.mapped_as(file).map(|path| Proof::Mapped(path.clone())).ok_or_else(not_mapped)
            }
            Claim::Runtime => {
                let path = self.mapped_as(Library::Runtime.file_name()).ok_or(Problem::NoRuntime)?;
                Ok(Proof::Mapped(path.clone()))
            }
            Claim::Serves { library } => self.check_server(library),
            Claim::Allocator(wanted) => {
                let Malloc { allocator, evidence, .. } = self.malloc()?.clone();
                match allocator == wanted {
                    true => Ok(Proof::Serves(evidence)),
                    false => {
                        Err(Problem::OtherAllocator { found: allocator, wanted: wanted.clone(), evidence })
                    }
                }
            }
            Claim::ArenaMax(wanted) => self.check_arenas(*wanted),
            Claim::RuntimePolicy(wanted) => match &self.runtime_policy {
                None => Err(Problem::NoStatusPage(wanted.clone())),
                Some(found) if found == wanted => Ok(Proof::RuntimePolicy(found.clone())),
                Some(found) => {
                    Err(Problem::OtherRuntimePolicy { found: found.clone(), wanted: wanted.clone() })
                }
            },
        }
    }

    fn malloc(&self) -> Result<&Malloc, Problem> {
        self.malloc.as_ref().ok_or(Problem::AllocatorUnknown)
    }

    /// Returns the mapped file with this path, or with this name, with or without a version suffix.
    fn mapped_as(&self, wanted: &str) -> Option<&PathBuf> {
        self.mapped.iter().find(|file| match wanted.contains('/') {
            true => file.as_path() == Path::new(wanted),
            false => file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(wanted)),
        })
    }

    fn check_variable(&self, name: &str, wanted: &str) -> Result<Proof, Problem> {
        let (name, wanted) = (name.to_owned(), wanted.to_owned());
        if let Some(environment) = &self.environment {
            return match environment.get(&name).cloned() {
                Some(found) if found == wanted => Ok(Proof::StartedWith(name, wanted)),
                Some(found) => Err(Problem::OtherValue { name, found, wanted }),
                None => Err(Problem::NotSet(name)),
            };
        }
        // The process copied its variables before it overwrote them with its title.
        match self.environment_in_memory.as_ref().and_then(|variables| variables.get(&name).cloned()) {
            Some(found) if found == wanted => Ok(Proof::InMemory(name, wanted)),
            Some(found) => Err(Problem::OtherValueInMemory { name, found, wanted }),
            None => Ok(Proof::Unreadable(name)),
        }
    }

    fn check_server(&self, library: &Path) -> Result<Proof, Problem> {
        let asked = library.display().to_string();
        // A bare name is searched for by the dynamic linker, and either may be a link to the mapped file.
        let real = library.canonicalize().unwrap_or_else(|_| library.to_owned());
        let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(mapped) = self.mapped_as(&name) else {
            return Err(Problem::AllocatorNotMapped(asked));
        };
        match &self.malloc {
            Some(malloc) if !malloc.evidence.contains(&format!("/{name}")) => {
                Err(Problem::AllocatorIdle { library: asked, evidence: malloc.evidence.clone() })
            }
            Some(malloc) => Ok(Proof::Serves(malloc.evidence.clone())),
            None => Ok(Proof::Mapped(mapped.clone())),
        }
    }

    fn check_arenas(&self, wanted: u64) -> Result<Proof, Problem> {
        let malloc = self.malloc()?;
        if !malloc.is_glibc() {
            return Err(Problem::ArenasWithoutGlibc { wanted, evidence: malloc.evidence.clone() });
        }
        match malloc.arena_max.ok_or(Problem::ArenaMaxUnknown)? {
            0 => Err(Problem::NoArenaMax(wanted)),
            found if found == wanted => Ok(Proof::ArenaMax(found)),
            found => Err(Problem::OtherArenaMax { found, wanted }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(policy: &str, mapped: &[&str], malloc: Option<Malloc>) -> Vec<String> {
        let mapped = mapped.iter().map(PathBuf::from).collect();
        let process = Evidence { mapped, malloc, ..Evidence::default() };
        policy.parse::<Policy>().unwrap().problems(&process).iter().map(ToString::to_string).collect()
    }

    fn glibc(arena_max: u64) -> Option<Malloc> {
        let evidence = "/usr/lib/libc.so.6 is mapped and first to define malloc".to_owned();
        Some(Malloc { allocator: "glibc", evidence, arena_max: Some(arena_max) })
    }

    fn served_by(file: &str) -> Option<Malloc> {
        let evidence = format!("{file} is mapped and first to define malloc");
        Some(Malloc { allocator: "jemalloc", evidence, arena_max: None })
    }

    #[test]
    fn what_is_mapped_is_live_and_the_rest_is_named() {
        let all = ["/c/libunbloat.so", "/c/libunbloat-jemalloc.so", "/usr/lib/libmimalloc.so.2.0"];
        let count = |policy, mapped: &[&str]| check(policy, mapped, None).len();
        assert_eq!(count("allocator=jemalloc,trim=adaptive", &all), 0);
        assert_eq!(count("allocator=jemalloc,trim=adaptive", &[]), 2);
        assert_eq!(count("lean,compact=boot,warmup", &[]), 2, "one runtime is missing once");
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

    #[test]
    fn a_claim_that_nothing_shows_is_not_proved_to_an_experiment() {
        let nothing = Evidence::default();
        assert_eq!(nothing.check(&Claim::ArenaMax(2)), Err(Problem::AllocatorUnknown));
        assert_eq!(nothing.check(&Claim::Allocator("glibc".into())), Err(Problem::AllocatorUnknown));
        let wanted = "lean".to_owned();
        assert_eq!(
            nothing.check(&Claim::RuntimePolicy(wanted.clone())),
            Err(Problem::NoStatusPage(wanted.clone()))
        );
        let with_page = Evidence { runtime_policy: Some("off".into()), ..nothing };
        assert!(matches!(
            with_page.check(&Claim::RuntimePolicy(wanted)),
            Err(Problem::OtherRuntimePolicy { .. })
        ));
    }

    #[test]
    fn a_variable_is_read_where_the_process_still_has_it() {
        let claim = Claim::Environment { name: "A".into(), value: "1".into() };
        let variables = |value: &str| Some(BTreeMap::from([("A".to_owned(), value.to_owned())]));
        let started = |value| Evidence { environment: variables(value), ..Evidence::default() };
        assert_eq!(started("1").check(&claim).unwrap().to_string(), "started with A=1");
        assert_eq!(started("2").check(&claim).unwrap_err().to_string(), "started with A=2, not 1");
        let empty = Evidence { environment: Some(BTreeMap::new()), ..Evidence::default() };
        assert_eq!(empty.check(&claim), Err(Problem::NotSet("A".into())));
        let copied = |value| Evidence { environment_in_memory: variables(value), ..Evidence::default() };
        assert_eq!(copied("1").check(&claim).unwrap().to_string(), "A=1 is in its environment");
        assert!(copied("2").check(&claim).is_err());
        assert_eq!(Evidence::default().check(&claim), Ok(Proof::Unreadable("A".into())));
    }

    #[test]
    fn what_nothing_shows_is_told_from_what_shows_elsewhere() {
        let lost = |name: &str| Proof::Unreadable(name.to_owned()).to_string();
        let limit = [lost("MALLOC_ARENA_MAX"), Proof::ArenaMax(2).to_string()];
        assert_eq!(unproved(&limit).count(), 0);
        let mapped = Proof::Mapped("libjemalloc.so.2".into()).to_string();
        let tuned = [lost("MALLOC_CONF"), lost("MALLOC_ARENA_MAX"), mapped];
        assert_eq!(unproved(&tuned).collect::<Vec<_>>(), [&tuned[0], &tuned[1]]);
    }
}
