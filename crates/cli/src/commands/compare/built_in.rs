//! The built-in plans: the files under `plans/`, for the applications under `apps/` of a source tree.

use anyhow::Context as _;
use std::path::PathBuf;

/// A plan contained in this program.
pub(super) struct BuiltIn {
    name: &'static str,
    pub(super) text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),*) => {
        &[$(BuiltIn { name: $name, text: include_str!(concat!("../../../../../plans/", $name, ".toml")) }),*]
    };
}

const ALL: &[BuiltIn] = built_in!["fragment", "cable", "web", "jobs", "demo"];

pub(super) fn find(name: &str) -> Option<&'static BuiltIn> {
    ALL.iter().find(|plan| plan.name == name)
}

pub(super) fn names() -> String {
    ALL.iter().map(|plan| plan.name).collect::<Vec<_>>().join(", ")
}

/// Returns the source tree with the applications: the current directory or an ancestor.
pub(super) fn root() -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir()?;
    let found = here.ancestors().find(|directory| directory.join("apps/README.md").exists());
    found.map(PathBuf::from).context(
        "the built-in plans need the applications in Unbloat's source tree: run this inside it. For your \
         own application, `unbloat compare init` writes a plan",
    )
}
