//! The option `--policy`, shared by `run` and `env`.

use std::path::PathBuf;
use unbloat_bundle as bundle;
use unbloat_policy::{Policy, PolicyError};

/// The policy to start a server with.
#[derive(Debug, clap::Args)]
pub(crate) struct PolicyOption {
    #[arg(
        long = "policy",
        help = format!("What to do about memory: {}; several joined by commas or given one by one", unbloat_policy::known()),
        value_name = "POLICY",
        env = "UNBLOAT_RUN_POLICY",
        value_delimiter = ',',
        default_value = "lean"
    )]
    parts: Vec<String>,
}

impl PolicyOption {
    /// Returns the requested policy.
    pub(crate) fn policy(&self) -> Result<Policy, PolicyError> {
        self.parts.join(",").parse()
    }
}

/// Returns the directory of the libraries that a policy needs, unpacking them if they are missing.
pub(crate) fn libraries(policy: &Policy) -> anyhow::Result<PathBuf> {
    match &policy.libraries()[..] {
        [] => Ok(PathBuf::new()),
        needed => Ok(bundle::cache(needed, variable)?),
    }
}

/// Returns a variable of our own environment; one that is not UTF-8 counts as unset.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
