//! The option `--policy`, shared by `run` and `env`.

use std::path::PathBuf;
use unbloat_bundle as bundle;
use unbloat_policy::{Policy, PolicyError};

/// Which policy to start a server with.
#[derive(Debug, clap::Args)]
pub(crate) struct PolicyOption {
    /// What to do about memory: lean, off, arenas=N, trim=major|every|adaptive, allocator=jemalloc|system:PATH,
    /// compact=boot|auto, warmup; several joined by commas or given one by one.
    #[arg(
        long = "policy",
        value_name = "POLICY",
        env = "UNBLOAT_RUN_POLICY",
        value_delimiter = ',',
        default_value = "lean"
    )]
    parts: Vec<String>,
}

impl PolicyOption {
    /// The policy that was asked for.
    pub(crate) fn policy(&self) -> Result<Policy, PolicyError> {
        self.parts.join(",").parse()
    }
}

/// The directory of the libraries that a policy needs, unpacked if they are not there.
pub(crate) fn libraries(policy: &Policy) -> anyhow::Result<PathBuf> {
    match &policy.libraries()[..] {
        [] => Ok(PathBuf::new()),
        needed => Ok(bundle::cache(needed, variable)?),
    }
}

/// A variable of our own environment; one that is not UTF-8 counts as unset.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
