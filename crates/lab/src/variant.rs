//! One configuration under comparison: what is put in front of the server's command, and what must then be true of
//! its processes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Variant {
    /// Its name in tables and charts.
    pub name: String,
    /// Environment variables for the server's command.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// A library to preload, by file name; it is looked for where the dynamic linker looks.
    #[serde(default)]
    pub preload: Option<String>,
    /// A policy of `unbloat run`.
    #[serde(default)]
    pub policy: Option<String>,
    /// Words in front of the server's command, for example another Ruby or a chroot.
    #[serde(default)]
    pub wrapper: Vec<String>,
    /// Another start command than the plan's.
    #[serde(default)]
    pub start: Option<Vec<String>>,
    /// The allocator that must then be live: `glibc`, `jemalloc`, `mimalloc` or `tcmalloc`.
    #[serde(default)]
    pub allocator: Option<String>,
    /// Debian package that has the library, for the line to deploy.
    #[serde(default)]
    pub package: Option<String>,
}

/// The tuning that is passed on most for jemalloc under Ruby (the Rails and Fly templates, Ubicloud).
const JEMALLOC_TUNED: &str = "dirty_decay_ms:1000,narenas:2,background_thread:true";

/// Names of the built-in variants, in the order in which they are worth knowing.
#[must_use]
pub fn built_in_names() -> Vec<&'static str> {
    BUILT_IN.to_vec()
}

const BUILT_IN: &[&str] = &[
    "glibc",
    "arenas=1",
    "arenas=2",
    "arenas=4",
    "trim=every",
    "trim=major",
    "trim=adaptive",
    "jemalloc",
    "jemalloc-tuned",
    "jemalloc-bundled",
    "mimalloc",
    "tcmalloc",
    "compact",
    "lean",
];

/// The built-in variant of that name.
#[must_use]
pub fn built_in(name: &str) -> Option<Variant> {
    let name = *BUILT_IN.iter().find(|known| **known == name)?;
    let plain = Variant { name: name.to_owned(), allocator: Some("glibc".to_owned()), ..Variant::default() };
    let preloaded = |allocator: &str, library: &str, package: &str| Variant {
        allocator: Some(allocator.to_owned()),
        preload: Some(library.to_owned()),
        package: Some(package.to_owned()),
        ..plain.clone()
    };
    let policy = |policy: &str, allocator: Option<&str>| Variant {
        policy: Some(policy.to_owned()),
        allocator: allocator.map(str::to_owned),
        ..plain.clone()
    };
    let environment = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    Some(match name {
        "glibc" => plain,
        "jemalloc" => preloaded("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
        "jemalloc-tuned" => Variant {
            environment: environment("MALLOC_CONF", JEMALLOC_TUNED),
            ..preloaded("jemalloc", "libjemalloc.so.2", "libjemalloc2")
        },
        "jemalloc-bundled" => policy("allocator=jemalloc", Some("jemalloc")),
        "mimalloc" => preloaded("mimalloc", "libmimalloc.so", "libmimalloc2.0"),
        "tcmalloc" => preloaded("tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
        "compact" => policy("compact=boot", Some("glibc")),
        // What it consists of is for `unbloat run` to say.
        "lean" => policy("lean", None),
        _ => match name.strip_prefix("arenas=") {
            Some(arenas) => Variant { environment: environment("MALLOC_ARENA_MAX", arenas), ..plain },
            None => policy(name, Some("glibc")),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_name_is_known_and_its_own() {
        for name in built_in_names() {
            assert_eq!(built_in(name).map(|v| v.name).as_deref(), Some(name));
        }
        assert_eq!(built_in("nonesuch"), None);
    }

    #[test]
    fn the_control_is_bare() {
        let control = built_in("glibc").unwrap_or_default();
        assert!(control.environment.is_empty() && control.policy.is_none() && control.preload.is_none());
    }
}
