//! Notes on a policy: conflicts with the user's own settings, and limits of the program.

use crate::program::Limit;
use std::fmt;
use std::path::PathBuf;

/// A fact that the user should know before the server starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// `LD_PRELOAD` names another allocator, which comes second.
    RivalBehind {
        /// The other allocator.
        rival: String,
        /// The policy's.
        ours: String,
    },
    /// `LD_PRELOAD` names an allocator, but the policy relies on glibc's.
    RivalServes {
        /// The allocator.
        rival: String,
    },
    /// `MALLOC_CONF` is set and jemalloc serves.
    JemallocSettings {
        /// Its value.
        conf: String,
    },
    /// The user's limit of arenas differs from the policy's.
    ArenasReplaced {
        /// The user's.
        theirs: String,
        /// The policy's.
        ours: String,
    },
    /// A setting applies to glibc's malloc, but another allocator serves.
    WithoutGlibc {
        /// The setting.
        name: String,
        /// Its value.
        value: String,
    },
    /// glibc's tunable takes precedence over the policy's limit of arenas.
    TunableWins {
        /// The tunable's value.
        limit: String,
        /// The policy's.
        arenas: u16,
    },
    /// `UNBLOAT=0` is set.
    SwitchedOff {
        /// The word that switches it off.
        value: String,
    },
    /// The policy's own allocator is missing.
    NoAllocator {
        /// Its path.
        path: PathBuf,
    },
    /// The program limits the policy.
    Limited {
        /// The program.
        program: PathBuf,
        /// The limit.
        limit: Limit,
    },
}

impl Note {
    pub(crate) fn without_glibc(name: &str, value: &str) -> Self {
        Note::WithoutGlibc { name: name.to_owned(), value: value.to_owned() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::RivalBehind { rival, ours } => write!(
                f,
                "LD_PRELOAD already names the allocator {rival}; {ours} is put in front of it and serves malloc"
            ),
            Note::RivalServes { rival } => write!(
                f,
                "LD_PRELOAD already names the allocator {rival}, which serves malloc instead of glibc: arenas=N has no effect \
                 there, and trims are its own"
            ),
            Note::JemallocSettings { conf } => {
                write!(f, "MALLOC_CONF={conf} overrides the same settings of the policy")
            }
            Note::ArenasReplaced { theirs, ours } => {
                write!(f, "MALLOC_ARENA_MAX={theirs} is replaced by {ours}, as the policy requires")
            }
            Note::WithoutGlibc { name, value } => write!(
                f,
                "{name}={value} is for glibc's malloc, which another allocator replaces here: it has no effect"
            ),
            Note::TunableWins { limit, arenas } => write!(
                f,
                "GLIBC_TUNABLES contains glibc.malloc.arena_max={limit}, which takes precedence over the \
                policy's arenas={arenas}: remove it"
            ),
            Note::SwitchedOff { value } => {
                write!(f, "UNBLOAT={value} is set, so libunbloat.so will do nothing")
            }
            Note::NoAllocator { path } => write!(
                f,
                "{} does not exist, so the dynamic linker will preload nothing and malloc is unchanged. \
                 Check the path of allocator=system:PATH",
                path.display()
            ),
            Note::Limited { program, limit } => limit.describe(program, f),
        }
    }
}
