//! The option `--policy`, shared by `run` and `env`.

use std::path::{Path, PathBuf};
use unbloat_launch::{Plan, Policy, PolicyError, bundle, plan};

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

/// The plan for a policy in our own environment, with the libraries unpacked if it needs any.
pub(crate) fn plan_here(policy: &Policy) -> anyhow::Result<Plan> {
    let libraries = if needs_libraries(policy) { bundle::cache(variable)? } else { PathBuf::new() };
    Ok(plan_with(policy, &libraries))
}

/// The plan for a policy with the libraries in a directory.
pub(crate) fn plan_with(policy: &Policy, libraries: &Path) -> Plan {
    plan(policy, libraries, variable)
}

fn needs_libraries(policy: &Policy) -> bool {
    policy.needs_runtime() || policy.allocator == unbloat_launch::Allocator::Jemalloc
}

/// A variable of our own environment; one that is not UTF-8 counts as unset.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
