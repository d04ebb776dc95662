//! Results of a check: a proof, or the problem with a claim.

use std::fmt;
use std::path::PathBuf;
use unbloat_contract::Library;

/// Evidence for a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// The process was started with the variable.
    StartedWith(String, String),
    /// The variable is in the environment that the process has in memory.
    InMemory(String, String),
    /// The variable is not readable anywhere, because the process has overwritten its environment with its
    /// title. Proves nothing.
    Unreadable(String),
    /// The file is mapped.
    Mapped(PathBuf),
    /// The allocator serves malloc; the text names its file.
    Serves(String),
    /// glibc has this limit of arenas.
    ArenaMax(u64),
    /// The runtime names this policy.
    RuntimePolicy(String),
}

/// The reason why a claim is not proved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The variable is missing.
    #[error("started without {0}")]
    NotSet(String),
    /// The variable has another value.
    #[error("started with {name}={found}, not {wanted}")]
    OtherValue {
        /// The variable.
        name: String,
        /// Its value.
        found: String,
        /// The value that it should have.
        wanted: String,
    },
    /// The variable has another value in memory.
    #[error("{name}={found} is in its environment, not {wanted}")]
    OtherValueInMemory {
        /// The variable.
        name: String,
        /// Its value.
        found: String,
        /// The value that it should have.
        wanted: String,
    },
    /// The file is not mapped.
    #[error("{file} is not mapped: {}", installed(.package.as_deref()))]
    NotMapped {
        /// The name or path.
        file: String,
        /// The Debian package that contains it.
        package: Option<String>,
    },
    /// The runtime is not loaded.
    #[error("{} is not mapped: the policy's trimming is not live", Library::Runtime.file_name())]
    NoRuntime,
    /// The allocator's library is not mapped.
    #[error("{0} is not mapped: malloc is served by another")]
    AllocatorNotMapped(String),
    /// The allocator's library is mapped but does not serve.
    #[error("{library} is mapped and does not serve malloc: {evidence}")]
    AllocatorIdle {
        /// The library.
        library: String,
        /// The evidence for the allocator that serves, with the name of the file.
        evidence: String,
    },
    /// Another allocator serves.
    #[error("{found} serves malloc, not {wanted}: {evidence}")]
    OtherAllocator {
        /// The one that serves.
        found: &'static str,
        /// The one that should.
        wanted: String,
        /// The evidence.
        evidence: String,
    },
    /// A limit of arenas for glibc is claimed, but another allocator serves.
    #[error("arenas={wanted} is for glibc's malloc, and another serves: {evidence}")]
    ArenasWithoutGlibc {
        /// The limit.
        wanted: u64,
        /// The evidence for the allocator that serves.
        evidence: String,
    },
    /// glibc has no limit of arenas.
    #[error("glibc's limit of arenas is not set, and should be {0}")]
    NoArenaMax(u64),
    /// glibc has another limit of arenas.
    #[error("glibc's limit of arenas is {found}, and should be {wanted}")]
    OtherArenaMax {
        /// The limit.
        found: u64,
        /// The value that it should have.
        wanted: u64,
    },
    /// There is no status page to prove a policy.
    #[error("there is no status page, so policy {0} cannot be proved")]
    NoStatusPage(String),
    /// The runtime applies another policy.
    #[error("libunbloat.so runs policy {found:?}, not {wanted}")]
    OtherRuntimePolicy {
        /// The one that it names.
        found: String,
        /// The value that it should have.
        wanted: String,
    },
    /// The allocator is unknown.
    #[error("its allocator is not known")]
    AllocatorUnknown,
    /// glibc's limit of arenas cannot be read.
    #[error("glibc's limit of arenas cannot be read")]
    ArenaMaxUnknown,
}

impl Problem {
    /// Returns whether the claim is neither confirmed nor contradicted.
    #[must_use]
    pub fn is_ignorance(&self) -> bool {
        matches!(self, Problem::AllocatorUnknown | Problem::ArenaMaxUnknown)
    }
}

/// Suffix of sentences written by [`Proof`] that [`unproved`] recognizes.
const UNREADABLE: &str = " cannot be read back: its title is written over its environment";
const ARENA_MAX: &str = "glibc's arena_max is ";

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Proof::StartedWith(name, value) => write!(f, "started with {name}={value}"),
            Proof::InMemory(name, value) => write!(f, "{name}={value} is in its environment"),
            Proof::Unreadable(name) => write!(f, "{name}{UNREADABLE}"),
            Proof::Mapped(file) => {
                write!(f, "{} is mapped", unbloat_untrusted::Untrusted::from(file.as_path()))
            }
            Proof::Serves(evidence) => f.write_str(evidence),
            Proof::ArenaMax(limit) => write!(f, "{ARENA_MAX}{limit}"),
            Proof::RuntimePolicy(policy) => write!(f, "libunbloat.so runs policy {policy}"),
        }
    }
}

/// Returns those proofs, in their recorded form, that prove nothing. glibc's limit of arenas is excluded,
/// since it shows in its own memory.
pub fn unproved(proofs: &[String]) -> impl Iterator<Item = &String> {
    let has_limit = proofs.iter().any(|proof| proof.starts_with(ARENA_MAX));
    let name = |proof: &str| proof.strip_suffix(UNREADABLE).map(str::to_owned);
    proofs.iter().filter(move |proof| match name(proof).as_deref() {
        Some("MALLOC_ARENA_MAX") => !has_limit,
        Some(_) => true,
        None => false,
    })
}

fn installed(package: Option<&str>) -> String {
    match package {
        Some(package) => format!("is it installed? Debian has it in {package}"),
        None => "is it there?".to_owned(),
    }
}
